"""Bad frames: whatever comes, the service refuses it or hangs up cleanly, and nothing changes.

Everything is sent with a viewer's token, which can change nothing, unless it is wrong by
construction. Next to it a well-behaved connection goes on as if nothing were.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Settings
from laissez.model import (
    Administration,
    Answer,
    AskStatus,
    Instruction,
    OfferResource,
    PlaceOrder,
    Question,
    Refused,
    Rejected,
    Reply,
    Request,
    Said,
    Subscribe,
    encode,
)
from laissez.service.socket import FRAME_BYTES_MAX
from raw_websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    FIN,
    MASK,
    PATIENCE_S,
    PING,
    TEXT,
    Closed,
    RawSocket,
    frame,
    handshake,
)
from serving import Served, served

CLEAN = {1000, 1002, 1003, 1007, 1009}
LAST_ID = 777_777_777
LAST = frame(encode(Request(LAST_ID, AskStatus())))
NO_BOUND = Settings(limits=Limits(requests_per_s=1_000_000, burst=1_000_000))


class Scene:
    """A service with a little market, a neighbour who behaves, and what must not change."""

    def __init__(self, exchange: Served) -> None:
        self.exchange = exchange
        with RawSocket(exchange.url, exchange.secrets["operator"]) as operator:
            operator.ask(OfferResource("h100/a/g0"))
        self.neighbour = RawSocket(exchange.url, exchange.secrets["ada"])
        self.neighbour.ask(PlaceOrder("h100", 3, 5))
        self.neighbour.ask(PlaceOrder("h100", 2, 4, "resting"))
        self.digest = self._digest()

    def _digest(self) -> str:
        return self.exchange.call(lambda exchange: exchange.execution.venue.digest())

    def dial(self, name: str = "viewer") -> RawSocket:
        return RawSocket(self.exchange.url, self.exchange.secrets[name])

    def check_all_is_well(self) -> None:
        assert isinstance(self.neighbour.ask(AskStatus()), Reply)
        assert self._digest() == self.digest


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("journal")
    with served(folder, "operator", "viewer", "ada", settings=NO_BOUND) as exchange:
        scene = Scene(exchange)
        with scene.neighbour:
            yield scene


@pytest.fixture(autouse=True)
def no_stack_in_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that comes in is a surprise to the service."""
    yield
    assert [record for record in caplog.records if record.exc_info] == []
    assert not [record for record in caplog.records if record.levelno > logging.ERROR]


def answered(guest: RawSocket, data: bytes) -> tuple[list[Said], int | None]:
    """What some bytes and a good request after them are answered with, and the close code."""
    guest.send_raw(data + LAST)
    heard: list[Said] = []
    try:
        while not (heard and isinstance(heard[-1], Reply) and heard[-1].id == LAST_ID):
            heard.append(guest.said())
    except Closed as closed:
        return heard, closed.code
    return heard[:-1], None


# Text that is not a request -----------------------------------------------------------------------

GOOD = [
    encode(Request(1, PlaceOrder("h100", 1, 2, "o", 3), "key")),
    encode(Request(2, AskStatus())),
    encode(
        [Request(3, Subscribe(4, True, ("h100",))), Request(4, OfferResource("a/b", {"c": "d"}))]
    ),
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A good frame with some bytes replaced, doubled, or cut away."""
    data = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        length = draw(st.integers(0, 8))
        piece = draw(st.binary(max_size=4) | st.just(bytes(data[place : place + 20])))
        data[place : place + length] = piece
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
SHAPED = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "do": JSON
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["PlaceOrder", "AskBill", "Subscribe", "CreateToken"])},
            optional={"scope": JSON, "tenant": JSON, "after": JSON, "quotes": JSON, "role": JSON},
        ),
        "key": JSON,
    },
)


def written(value: object) -> bytes:
    return msgspec.json.encode(value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(
        st.binary(max_size=200)
        | mutated()
        | JSON.map(written)
        | (SHAPED | st.lists(SHAPED, max_size=3)).map(written),
        min_size=1,
        max_size=10,
    )
)
@example([b"", b" ", b"[]", b"[[]]", b"{}", b"null", b'"', b"\x00", b"\xff", b"[{}]"])
def test_no_text_upsets_the_service(scene: Scene, payloads: list[bytes]) -> None:
    """Every text frame is refused or answered, and the connection goes on."""
    with scene.dial() as guest:
        for payload in payloads:
            heard, closed = answered(guest, frame(payload))
            assert closed is None
            told = [each for each in heard if isinstance(each, Refused | Reply)]
            assert all(each.code and each.message for each in told if isinstance(each, Refused))
    scene.check_all_is_well()


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"[" * 100_000, id="deep array"),
        pytest.param(b'{"a":' * 100_000, id="deep object"),
        pytest.param(b'{"id":1,"do":' * 50_000, id="deep requests"),
        pytest.param(b'{"id":5,"do":{"type":"AskBill","tenant":' + b"[" * 90_000, id="deep field"),
        pytest.param(b"[" + b",".join([b"0"] * 100_000) + b"]", id="many numbers"),
        pytest.param(b"[" + b",".join([b"{}"] * 100_000) + b"]", id="many objects"),
        pytest.param(b'{"id":1,"do":{"type":"AskQuote","scope":"\\ud800"}}', id="lone surrogate"),
        pytest.param(
            b'{"id":1,"do":{"type":"AskQuote","scope":"\xed\xa0\x80"}}', id="raw surrogate"
        ),
        pytest.param(b'{"id":1,"do":{"type":"AskQuote","scope":"\xff"}}', id="not UTF-8"),
        pytest.param(b'{"id":1,"\xff":1}', id="name not UTF-8"),
        pytest.param(b'{"id":1,"do":{"type":"AskQuote","scope":"' + b"a" * 900_000, id="truncated"),
        pytest.param(b'{"id":' + b"9" * 900_000 + b',"do":{"type":"AskStatus"}}', id="huge id"),
        pytest.param(b'{"id":1e999,"do":{"type":"AskStatus"}}', id="infinite id"),
        pytest.param(b'{"id":1.5,"do":{"type":"AskStatus"}}', id="broken id"),
        pytest.param(b'{"id":true,"do":{"type":"AskStatus"}}', id="boolean id"),
        pytest.param(b'{"id":NaN,"do":{"type":"AskStatus"}}', id="NaN"),
        pytest.param(b"\x00" * 1_000, id="NUL"),
        pytest.param(b"", id="empty"),
        pytest.param(b" " * FRAME_BYTES_MAX, id="blank"),
        pytest.param(b'{"id":1,"do":{"type":"PlaceOrder","scope":"h100","owner":"x"}}', id="field"),
        pytest.param(b'{"id":1,"do":{"type":"Advance","at_us":5}}', id="a command"),
        pytest.param(b'{"id":1,"do":{"type":"Happened"}}', id="our own word"),
    ],
)
def test_unreadable_text_is_refused(scene: Scene, payload: bytes) -> None:
    """Once, in a sentence of a bounded length."""
    with scene.dial() as guest:
        heard, closed = answered(guest, frame(payload))
        assert closed is None
        (refused,) = heard
        assert isinstance(refused, Refused) and refused.code == "bad_request"
        assert len(refused.message) < 500
    scene.check_all_is_well()


def test_ids_of_any_length_that_can_be_read_come_back(scene: Scene) -> None:
    """Where numbers become too long to be read, they are refused, never half taken."""
    with scene.dial() as guest:
        for digits in (1, 19, 20, 100, *range(4_294, 4_304)):
            number = b"9" * digits
            guest.send_text(b'{"id":' + number + b',"do":{"type":"AskStatus"}}')
            _, payload = guest.next_frame()
            assert b'"id":' + number + b"," in payload or b'"type":"Refused","id":null' in payload
    scene.check_all_is_well()


# Frames that are not frames -----------------------------------------------------------------------


def closing(code: int, reason: bytes = b"") -> bytes:
    return frame(struct.pack("!H", code) + reason, CLOSE)


def long_frame(size: int) -> bytes:
    """The beginning of a frame that says it is this long."""
    return struct.pack("!BBQ", FIN | TEXT, 0x80 | 127, size) + MASK


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(frame(b"{}", mask=None), 1002, id="unmasked"),
        *(
            pytest.param(frame(b"{}", first=FIN | bit), 1002, id=f"reserved bit {bit:#x}")
            for bit in (0x40, 0x20, 0x10)
        ),
        *(
            pytest.param(frame(b"{}", opcode), 1002, id=f"opcode {opcode:#x}")
            for opcode in (3, 4, 5, 6, 7, 0xB, 0xC, 0xD, 0xE, 0xF)
        ),
        pytest.param(frame(b"", PING, first=0), 1002, id="fragmented ping"),
        pytest.param(frame(b"x" * 126, PING), 1002, id="long ping"),
        pytest.param(frame(b"x", CLOSE), 1002, id="close with half a code"),
        *(
            pytest.param(closing(code), 1002, id=f"close with code {code}")
            for code in (1, 999, 1_004, 1_016, 2_999)
        ),
        pytest.param(closing(1_000, b"\xff"), 1007, id="close with a reason not UTF-8"),
        *(
            pytest.param(closing(code, b"bye"), 1000, id=f"close with code {code}")
            for code in (1_000, 1_001, 1_011, 3_000, 4_999, 65_535)
        ),
        pytest.param(frame(b"", CLOSE), 1000, id="close"),
        pytest.param(frame(b"{}", CONTINUATION), 1002, id="continuation of nothing"),
        pytest.param(frame(b"{", first=0) + frame(b"}"), 1002, id="text within text"),
        pytest.param(frame(b"{", first=0) + frame(b"", BINARY), 1002, id="binary within text"),
        pytest.param(frame(b"{", BINARY, first=0), 1003, id="fragmented binary"),
        pytest.param(long_frame(FRAME_BYTES_MAX + 1), 1009, id="too long"),
        pytest.param(long_frame(1 << 62), 1009, id="much too long"),
        pytest.param(long_frame(1 << 63), 1002, id="too long to be true"),
        pytest.param(long_frame(5), 1002, id="length not minimal"),
    ],
)
def test_a_broken_frame_ends_the_connection(scene: Scene, data: bytes, code: int) -> None:
    """Cleanly, with the close code that the standard has for it."""
    with scene.dial() as guest:
        assert answered(guest, data) == ([], code)
    scene.check_all_is_well()


def test_a_binary_frame_is_refused(scene: Scene) -> None:
    with scene.dial() as guest:
        (refused,), closed = answered(guest, frame(GOOD[1], BINARY))
        assert isinstance(refused, Refused) and closed is None


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A frame of any kind, with any bits, that may lie about its length."""
    first = draw(st.integers(0, 255))
    length = draw(st.integers(0, 127))
    head = struct.pack("!BB", first, draw(st.sampled_from([0, 0x80])) | length)
    return head + draw(st.binary(max_size=150))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(broken() | st.binary(max_size=40) | mutated().map(frame), max_size=5))
def test_no_bytes_upset_the_service(scene: Scene, pieces: list[bytes]) -> None:
    """Whatever follows the handshake: a clean close, or the end when we end."""
    with scene.dial() as guest:
        guest.send_raw(b"".join(pieces))
        guest.socket.shutdown(socket.SHUT_WR)
        heard, closed = guest.until_closed()
        assert closed.code is None or closed.code in CLEAN
        assert all(not isinstance(each, Answer) for each in heard)
    scene.check_all_is_well()


GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x00" * 1_000,
    b"GET nowhere HTTP/1.1\r\nHost\r\n\r\n",
    b"GET /v1/stream HTTP/1.1\r\n" + b"A: " + b"b" * 200_000 + b"\r\n\r\n",
    b"GET /v1/stream HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    handshake("/v1/stream", ["Sec-WebSocket-Key: twice", "Authorization: Bearer \xff"]),
    handshake("/v1/stream", ["Transfer-Encoding: chunked", "Content-Length: 5"]),
    handshake("/v1/stream", ["Authorization: Bearer lz_x"])[:-30],
    handshake("/" + "a" * 100_000, []),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_no_handshake_upsets_the_service(scene: Scene, garbage: bytes) -> None:
    """Before anybody is known: an HTTP error, or the end when we end."""
    parts = urlsplit(scene.exchange.url)
    with socket.create_connection((parts.hostname, parts.port), PATIENCE_S) as guest:
        told = b""
        try:
            guest.sendall(garbage)
            guest.shutdown(socket.SHUT_WR)
            while data := guest.recv(1 << 16):
                told += data
        except OSError:
            pass
        assert told == b"" or told.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
        assert b"Traceback" not in told
    scene.check_all_is_well()


# Requests that can't be right ---------------------------------------------------------------------

BAD_TEXTS = ["", "a//b", "\0", " h100", "h100/\n", "x" * 3_000, "/", "h100/a/g0/below"]
BAD_NUMBERS = [-1, 10**30, -(10**30), 10**4_000]


def bad_requests(kind: type) -> Iterator[dict[str, Any]]:
    """One kind of request with all its fields filled, wrongly."""
    for text, number in zip(BAD_TEXTS * 4, BAD_NUMBERS * 8, strict=True):
        filled: dict[str, Any] = {"type": kind.__name__}
        for field in msgspec.structs.fields(kind):
            kinds = str(field.type)
            if "str" in kinds and "dict" not in kinds and "tuple" not in kinds:
                filled[field.encode_name] = text
            elif "int" in kinds:
                filled[field.encode_name] = number
        yield filled


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("ada", kind) for kind in get_args(Instruction)),
        *(
            ("operator", kind)
            for kind in (*get_args(Instruction), *get_args(Question), *get_args(Administration))
            if kind.__struct_fields__
        ),
        ("ada", Subscribe),
    ],
)
def test_absurd_values_are_refused_and_change_nothing(scene: Scene, name: str, kind: type) -> None:
    """No field of any request is trusted: each is answered, by a refusal if it is a change."""
    changes = {*get_args(Instruction)}
    with scene.dial(name) as guest:
        for filled in bad_requests(kind):
            guest.send_text(written({"id": 1, "do": filled}))
            answer = guest.answers([1])[1]
            if isinstance(answer, Answer):
                assert kind in changes
                assert isinstance(answer.events[-1], Rejected), filled
            elif kind in changes:
                assert isinstance(answer, Refused), filled
            if isinstance(answer, Refused):
                assert answer.code != "internal_error" and len(answer.message) < 9_000
    scene.check_all_is_well()
