"""TLS: the service with a certificate of its own; REST and WebSocket both, and nothing else."""

from __future__ import annotations

import contextlib
import gc
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

import serving
from laissez.model import (
    AskResources,
    AskStatus,
    OfferResource,
    Reply,
    Request,
    ResourceList,
    Subscribe,
    Subscribed,
    encode,
)
from laissez.service import entrance, handshakes, server, visitor
from laissez.service.handshakes import handshake_ns
from laissez.service.server import BadSettings, ServerSettings
from raw_websocket import Closed, RawSocket, TurnedAway, frame
from test_paid_doors import reception_of
from test_socket import wait_until

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="there is no openssl to make a certificate")


class Secured(msgspec.Struct):
    """A service that speaks TLS, and what is needed to speak with it."""

    url: str
    secret: str
    context: ssl.SSLContext


SHORT_KEY = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
LONG_KEY = ("rsa:3072",)


def make_certificate(folder: Path, kind: tuple[str, ...] = SHORT_KEY) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, signed by itself."""
    assert OPENSSL is not None
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = [OPENSSL, "req", "-x509", "-newkey", *kind]
    command += ["-nodes", "-days", "2", "-subj", "/CN=exchange"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return certificate, key


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = make_certificate(folder)
    with_tls = partial(ServerSettings, tls_certificate=certificate, tls_key=key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "ServerSettings", with_tls)
        with serving.served(folder / "journal", "operator") as running:
            context = ssl.create_default_context(cafile=str(certificate))
            yield Secured(running.url, running.secrets["operator"], context)


def test_a_connection_leaves_no_cycles(secured: Secured) -> None:
    """Not with TLS either: neither a trader, nor who is turned away, nor who speaks no TLS."""
    address = port_of(secured)

    def come_and_go() -> None:
        dial(secured).socket.close()
        with pytest.raises(TurnedAway):
            RawSocket(secured.url, "x", tls=secured.context)
        with socket.create_connection(address, timeout=20) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                while plain.recv(4_096):
                    pass

    come_and_go()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for _ in range(10):
            come_and_go()
        time.sleep(0.2)  # until it has seen the end of the last
        assert gc.collect() <= 30
    finally:
        gc.enable()
        gc.unfreeze()


def port_of(secured: Secured) -> tuple[str, int]:
    parts = urlsplit(secured.url)
    assert parts.hostname is not None and parts.port is not None
    return parts.hostname, parts.port


def dial(secured: Secured) -> RawSocket:
    return RawSocket(secured.url, secured.secret, tls=secured.context)


def test_rest_over_tls(secured: Secured) -> None:
    assert secured.url.startswith("https://127.0.0.1:")
    with httpx.Client(verify=secured.context, base_url=secured.url) as http:
        told = http.get("/v1/status", headers={"Authorization": f"Bearer {secured.secret}"})
        assert told.status_code == 200
        assert http.get("/v1/status").status_code == 401


def test_the_socket_over_tls(secured: Secured) -> None:
    """Requests, streams and refusals at the door, as without TLS."""
    with dial(secured) as operator:
        assert isinstance(operator.ask(Subscribe()), Subscribed)
        operator.ask(OfferResource("h100/first/g0"))
        assert isinstance(operator.ask(AskStatus()), Reply)
    with pytest.raises(TurnedAway) as away:
        RawSocket(secured.url, "lz_wrong", tls=secured.context)
    assert away.value.status == 401


def test_long_frames_over_tls_stay_whole(secured: Secured) -> None:
    """Many frames of all lengths at once, read late."""
    with dial(secured) as operator:
        for scope, number in (("a", 1), ("b", 60), ("c", 300)):
            offers = [OfferResource(f"h100/{scope}/{n}", {"x": "y" * 99}) for n in range(number)]
            operator.answers(operator.send(*offers))
    with RawSocket(secured.url, secured.secret, tls=secured.context, receive_buffer=4_096) as late:
        asked = [Request(n, AskResources(f"h100/{'abc'[n % 3]}")) for n in range(60)]
        late.send_raw(b"".join(frame(encode(each)) for each in asked))
        answers = late.answers([each.id for each in asked])
        sizes = [
            len(answers[n].told.resources)  # type: ignore[union-attr]
            for n in range(60)
            if isinstance(answers[n], Reply) and isinstance(answers[n].told, ResourceList)  # type: ignore[union-attr]
        ]
        assert sizes == [1, 60, 300] * 20


def test_who_speaks_plainly_to_tls_is_not_answered(secured: Secured) -> None:
    """Neither HTTP nor a WebSocket without TLS gets anywhere, and others do not notice."""
    plain = secured.url.replace("https:", "http:")
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{plain}/v1/status", headers={"Authorization": f"Bearer {secured.secret}"})
    with pytest.raises((TurnedAway, Closed)):
        RawSocket(plain, secured.secret)
    with dial(secured) as operator:
        assert isinstance(operator.ask(AskStatus()), Reply)


def test_a_certificate_that_is_not_trusted_is_refused_by_the_client(secured: Secured) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        RawSocket(secured.url, secured.secret, tls=ssl.create_default_context())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_modern_tls_is_spoken(secured: Secured, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(port_of(secured), 20) as plain,
        context.wrap_socket(plain) as spoken,
    ):
        assert spoken.version() == {772: "TLSv1.3", 771: "TLSv1.2"}[version]


def test_a_key_that_does_not_fit_is_said_in_a_sentence(tmp_path: Path) -> None:
    """A certificate with another's key can't be served."""
    (tmp_path / "other").mkdir()
    certificate, _ = make_certificate(tmp_path)
    _, key = make_certificate(tmp_path / "other")
    wrong = partial(ServerSettings, tls_certificate=certificate, tls_key=key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "ServerSettings", wrong)
        with pytest.raises(BadSettings), serving.served(tmp_path / "journal", "operator"):
            pytest.fail("it serves")


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00"])
def test_a_tls_handshake_that_does_not_end_is_hung_up_on(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Whoever connects and says nothing, or begins and does not go on, does not stay."""
    for each in (entrance, visitor):
        monkeypatch.setattr(each, "HANDSHAKE_S", 0.2)
    address = urlsplit(secured.url)
    with socket.create_connection((address.hostname, address.port), 20) as connection:
        connection.sendall(sent)
        with contextlib.suppress(ConnectionError):
            while connection.recv(4_096):
                """It may say why before it hangs up."""


def test_a_handshake_is_paid_for_when_it_begins(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its first byte, at what it takes with this key, and whether or not it goes on; silence
    costs nothing of that."""
    price_ns = 10**12
    monkeypatch.setattr(server, "handshake_ns", lambda context: price_ns)
    certificate, key = make_certificate(tmp_path)
    with_tls = partial(ServerSettings, tls_certificate=certificate, tls_key=key)
    monkeypatch.setattr(serving, "ServerSettings", with_tls)
    with serving.served(tmp_path / "journal") as running:
        arrivals = reception_of(running).strangers.arrivals
        address = urlsplit(running.url)
        with socket.create_connection((address.hostname, address.port), 20) as connection:
            wait_until(lambda: running.running.visitors() == 1)
            assert arrivals._work_paid_ns < time.monotonic_ns() + price_ns
            connection.sendall(b"\x16")
            wait_until(lambda: arrivals._work_paid_ns > time.monotonic_ns() + price_ns)


def test_what_a_handshake_takes_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the key that is configured, to the end, and the client's side is not in it."""
    took_ns = []
    for kind in (SHORT_KEY, LONG_KEY):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*make_certificate(tmp_path, kind))
        took_ns.append(handshake_ns(context))
        assert context.session_stats()["accept_good"] == handshakes.TRIES
    assert took_ns[1] > 2 * took_ns[0] > 0
    ticks = count()
    monkeypatch.setattr(handshakes, "thread_time_ns", lambda: next(ticks))
    steps_ns = handshake_ns(context)
    assert 2 <= steps_ns <= handshakes.STEPS_MAX // 2, "the server's steps, one tick each"


def test_who_is_shown_out_of_a_handshake_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest of too many are hung up on at once, and hold no descriptor any more."""
    monkeypatch.setattr(server, "raise_descriptor_limit", lambda: entrance.DESCRIPTORS_KEPT + 20)
    certificate, key = make_certificate(tmp_path)
    with_tls = partial(ServerSettings, tls_certificate=certificate, tls_key=key)
    monkeypatch.setattr(serving, "ServerSettings", with_tls)
    hello = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    said = hello.read()
    monkeypatch.setattr(entrance, "HANDSHAKE_S", 1_000)  # not for that
    with serving.served(tmp_path / "journal") as running, contextlib.ExitStack() as opened:
        address = urlsplit(running.url)
        came: list[socket.socket] = []
        for _ in range(8):
            connection = socket.create_connection((address.hostname, address.port), 20)
            came.append(opened.enter_context(connection))
            connection.sendall(said)
            assert connection.recv(1)  # the service has answered, and waits for the rest
        for connection in came[:3]:
            with contextlib.suppress(ConnectionError):
                while connection.recv(65_536):
                    pass
        for connection in came[3:]:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while some := connection.recv(65_536):
                    pass
                assert some, "it was hung up on"
