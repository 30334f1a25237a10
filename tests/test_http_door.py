"""The HTTP side of the door: whoever dawdles or floods before showing a token is shown out."""

import socket
from pathlib import Path

import pytest

from laissez.service import patience
from serving import served

TIMEOUT_S = 30


def dial(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def hear_all(connection: socket.socket) -> bytes:
    """Everything until the other side hangs up."""
    heard = b""
    while chunk := connection.recv(65_536):
        heard += chunk
    return heard


@pytest.mark.parametrize("sent", [b"", b"GET /v1/status HTTP/1.1\r\nHost: x\r\n"])
def test_a_caller_that_says_nothing_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """A connection on which no whole request arrives does not stay open."""
    monkeypatch.setattr(patience, "HEAD_S", 0.2)
    with served(tmp_path) as service, dial(service.url) as connection:
        connection.sendall(sent)
        assert hear_all(connection) == b""


def test_endless_headers_are_refused(tmp_path: Path) -> None:
    """Headers have a bound, and what goes beyond it is not kept."""
    with served(tmp_path) as service, dial(service.url) as connection:
        connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n")
        try:
            for number in range(2_000):
                connection.sendall(b"X-%d: %b\r\n" % (number, b"x" * 1_000))
            heard = hear_all(connection)
        except ConnectionError:  # it hung up while we were still talking
            return
        assert heard.startswith(b"HTTP/1.1 400")


def test_a_caller_between_requests_is_not_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patience is for the first request; after it a connection may rest a while."""
    monkeypatch.setattr(patience, "HEAD_S", 0.2)
    with served(tmp_path) as service, dial(service.url) as connection:
        for _ in range(2):
            connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
            connection.settimeout(0.6)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(TIMEOUT_S)
