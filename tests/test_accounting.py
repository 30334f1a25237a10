"""All that a trader causes is paid for: its bytes, the time that each of them took, and what it is
told; and while it rests, others are served.

Frames come through real sockets. Time is moved by hand: what is done takes as long as a test says,
so who rests, and how long, is the same on any machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hand_clock import HandClock, rest_ms, rests
from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Exchange, Settings
from laissez.exchange.questions import Desk
from laissez.exchange.venue import Venue
from laissez.model import (
    Answer,
    AskOrders,
    AskStatus,
    Happened,
    OfferResource,
    Place,
    PlaceOrder,
    Refused,
    Reply,
    Request,
    Subscribe,
    Subscribed,
    decode_said,
    encode,
)
from laissez.service.doorway import READ_BYTES_MAX
from laissez.service.samples import Samples
from laissez.service.socket import TraderSocket
from laissez.service.unreadable import refuse_unreadable
from raw_websocket import BINARY, CONTINUATION, PING, PONG, TEXT, RawSocket, frame
from serving import Served, served
from test_socket import narrow, traders, wait_until

NAMES = ("operator", "viewer", "ada", "bob")
FREE = 1_000_000
"""More than anybody uses."""

FEW_BYTES = Limits(
    requests_per_s=1_000, burst=64, bytes_per_request=1_000, work_us_per_request=FREE
)
"""64,000 bytes at once and a thousand each millisecond; work costs nothing."""

LITTLE_WORK = Limits(burst=FREE, bytes_per_request=FREE)
"""A quarter of the time, as usual, and 5 ms at once; bytes cost nothing."""

ALL_FREE = Limits(requests_per_s=FREE, burst=FREE, bytes_per_request=FREE, work_us_per_request=FREE)


@contextmanager
def limited(folder: Path, limits: Limits) -> Iterator[Served]:
    with served(folder, *NAMES, settings=Settings(limits=limits)) as exchange:
        yield exchange


def dial(exchange: Served, name: str, **options: int) -> RawSocket:
    return RawSocket(exchange.url, exchange.secrets[name], receive_buffer=options.get("reads"))


def of(exchange: Served, tenant: str) -> list[TraderSocket]:
    return [each for each in traders(exchange) if each.principal.tenant == tenant]


def hear(client: RawSocket, request_id: int) -> int:
    """Listen until this is answered; how many pongs came before."""
    pongs = 0
    while True:
        opcode, payload = client.next_frame()
        pongs += opcode == PONG
        if opcode == TEXT:
            told = decode_said(payload)
            if any(getattr(each, "id", None) == request_id for each in _each(told)):
                return pongs


def _each(told: Any) -> list[Any]:
    return told if isinstance(told, list) else [told]


# Bytes --------------------------------------------------------------------------------------------

SENT_BYTES = 120_000
BEGUN = frame(b"", TEXT, first=0)


@pytest.mark.parametrize(
    ("begins", "again", "ends"),
    [
        (b"", frame(b"", PING), b""),
        (b"", frame(b"x" * 100, PONG), b""),
        (BEGUN, frame(b"", CONTINUATION, first=0), frame(b"[]", CONTINUATION)),
        (b"", frame(b"x" * 500, BINARY), b""),
        (b"", frame(b"{" * 2_000), b""),
        (b"", frame(encode(Request(1, AskOrders()))), b""),
        (b"", frame(b" " * 50_000 + encode(Request(1, AskOrders()))), b""),
    ],
    ids=["pings", "pongs", "continuations", "binary", "unreadable", "questions", "long frames"],
)
def test_bytes_are_paid_for_whatever_they_are(
    tmp_path: Path, clock: HandClock, asked: list[str], begins: bytes, again: bytes, ends: bytes
) -> None:
    """Of who has sent too many nothing more is read, until that is paid back; of others it is."""
    with (
        limited(tmp_path, FEW_BYTES) as exchange,
        dial(exchange, "ada") as ada,
        dial(exchange, "bob") as bob,
    ):
        (trader,) = of(exchange, "ada")
        ada.send_raw(begins + again * (SENT_BYTES // len(again)) + ends)
        ada.send_raw(frame(encode(Request(7, AskStatus()))))
        wait_until(lambda: exchange.call(lambda _: trader._is_paused))
        before = asked.count("ada")
        assert rests(exchange, clock, "ada")
        for _ in range(3):
            assert isinstance(bob.ask(AskStatus()), Reply)
        assert asked.count("ada") == before and exchange.call(lambda _: trader._is_paused)
        assert not rests(exchange, clock, "bob")
        clock.let_pass(1_000)
        hear(ada, 7)


def test_bytes_that_come_while_somebody_rests_are_paid_for(
    tmp_path: Path, clock: HandClock
) -> None:
    """Through however many of its connections they come."""
    with (
        limited(tmp_path, FEW_BYTES) as exchange,
        dial(exchange, "ada") as ada,
        dial(exchange, "ada") as also_ada,
        dial(exchange, "ada") as third,
    ):
        ada.send_raw(frame(b"", PONG) * 20_000)
        wait_until(lambda: rests(exchange, clock, "ada"))
        before_ms = rest_ms(exchange, clock, "ada")
        for each in (also_ada, third):
            each.send_raw(frame(b"x" * 100, PONG) * 70)
        wait_until(lambda: rest_ms(exchange, clock, "ada") > before_ms + 13)
        assert (
            exchange.call(lambda _: [each._is_paused for each in of(exchange, "ada")]) == [True] * 3
        )
        number = also_ada.send(AskStatus())[0]
        clock.let_pass(1_000)
        hear(also_ada, number)


# Work ---------------------------------------------------------------------------------------------


def is_ada(asker: Any) -> bool:
    return bool(asker.name == "ada")


@pytest.mark.parametrize(
    "sent",
    [
        encode(Request(1, AskOrders())),
        encode(Request(1, PlaceOrder("h100", 1, 1))),
        b'{"id":1,"do":0}',
    ],
    ids=["a question", "a change", "what can't be read"],
)
def test_work_is_paid_for_whatever_it_was(
    tmp_path: Path, clock: HandClock, asked: list[str], sent: bytes
) -> None:
    """Whoever keeps the loop busy for longer than may be at once rests, and others do not."""

    def refuse(*arguments: Any, **options: Any) -> list[Refused]:
        clock.let_pass(6)
        return refuse_unreadable(*arguments, **options)

    clock.patch_doors("refuse_unreadable", refuse)
    clock.slow_down(Desk, "answer", lambda desk, asker, asked: 6 * is_ada(asker))
    clock.slow_down(Exchange, "submit", lambda own, ticket, at: 6 * is_ada(ticket.caller))
    with (
        limited(tmp_path, LITTLE_WORK) as exchange,
        dial(exchange, "ada") as ada,
        dial(exchange, "bob") as bob,
    ):
        (trader,) = of(exchange, "ada")
        ada.send_text(sent)
        hear(ada, 1)
        wait_until(lambda: exchange.call(lambda _: trader._is_paused))
        assert rest_ms(exchange, clock, "ada") == 3, "6 ms at four times, less 5 and a short rest"
        asked.clear()
        (number,) = ada.send(AskStatus())
        for _ in range(3):
            assert isinstance(bob.ask(AskStatus()), Reply)
        assert set(asked) == {"bob"}
        clock.let_pass(3)
        hear(ada, number)


def test_each_turn_is_paid_for(tmp_path: Path, clock: HandClock, asked: list[str]) -> None:
    """What a frame holds is served a turn at a time, and between two turns its sender may have to
    rest like anybody else."""
    clock.slow_down(Desk, "answer", lambda desk, asker, asked: 3 * is_ada(asker))
    with (
        limited(tmp_path, LITTLE_WORK) as exchange,
        dial(exchange, "ada") as ada,
        dial(exchange, "bob") as bob,
    ):
        numbers = ada.send(*[AskStatus()] * 10)
        wait_until(lambda: rests(exchange, clock, "ada"))
        for _ in range(3):
            assert isinstance(bob.ask(AskStatus()), Reply)
        assert asked.count("ada") == 3, "three turns of 3 ms are too much at once"
        for served_so_far in range(4, 11):
            assert rest_ms(exchange, clock, "ada") == 9
            clock.let_pass(9)
            wait_until(lambda: asked.count("ada") >= served_so_far)  # noqa: B023
            wait_until(lambda: rests(exchange, clock, "ada"))
            assert asked.count("ada") == served_so_far
        answers = ada.answers(numbers)
        assert all(isinstance(each, Reply) for each in answers.values())


def test_bytes_that_waited_are_paid_for_when_they_are_read(
    tmp_path: Path, clock: HandClock, asked: list[str]
) -> None:
    """What they ask for then takes time, too."""
    clock.slow_down(Desk, "answer", lambda desk, asker, asked: 6 * is_ada(asker))
    with (
        limited(tmp_path, LITTLE_WORK) as exchange,
        dial(exchange, "ada") as ada,
        dial(exchange, "ada") as also_ada,
    ):
        ada.ask(AskStatus())
        wait_until(lambda: rests(exchange, clock, "ada"))
        numbers = also_ada.send(AskStatus())
        wait_until(lambda: exchange.call(lambda _: any(t._arrived for t in of(exchange, "ada"))))
        (waits,) = (each for each in of(exchange, "ada") if each._arrived)
        clock.let_pass(3)
        assert isinstance(also_ada.answers(numbers)[numbers[0]], Reply)
        wait_until(lambda: rests(exchange, clock, "ada"))
        assert asked == ["ada", "ada"]
        assert exchange.call(lambda _: waits._is_paused), "nothing more is read before it has paid"


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose turns came round, in this order."""
    names: list[str] = []
    take_turn = TraderSocket._take_turn

    def noted(trader: TraderSocket) -> None:
        names.append(trader.principal.name)
        take_turn(trader)

    monkeypatch.setattr(TraderSocket, "_take_turn", noted)
    return names


@pytest.mark.parametrize(
    "each",
    [
        frame(encode(Request(1, AskStatus()))),
        frame(encode(Request(1, PlaceOrder("h100", 1, 1)))),
        frame(b""),
        frame(b"", BINARY),
        frame(b"[" + b"0," * 1_000 + b"0]"),
    ],
    ids=["questions", "changes", "unreadable", "binary", "unreadable lists"],
)
def test_frames_that_come_together_are_served_in_turns(
    tmp_path: Path, clock: HandClock, turns: list[str], each: bytes
) -> None:
    """Whatever is in them, they are like one frame of many requests: others come between."""
    clock.slow_down(Desk, "answer", lambda desk, asker, asked: 3)
    clock.slow_down(Exchange, "submit", lambda own, ticket, at: 3)
    clock.slow_down(TraderSocket, "refuse", lambda trader, refused: 3)
    with limited(tmp_path, ALL_FREE) as exchange, dial(exchange, "ada") as ada:
        ada.send_raw(each * 10)
        wait_until(lambda: turns.count("ada") > 5)
        assert ada.next_frame()[0] == TEXT


@pytest.fixture
def arrived(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were read each time."""
    sizes: list[int] = []
    arrive = TraderSocket.arrive

    def noted(trader: TraderSocket, size: int) -> None:
        arrive(trader, size)
        sizes.append(size)

    monkeypatch.setattr(TraderSocket, "arrive", noted)
    return sizes


def test_little_is_read_at_once(tmp_path: Path, arrived: list[int]) -> None:
    """After a long frame, too: nobody comes between what is read at once."""
    with limited(tmp_path, ALL_FREE) as exchange, dial(exchange, "ada") as ada:
        question = encode(Request(7, AskStatus()))
        ada.send_raw(frame(b" " * 500_000 + question) + frame(b"", PING) * 80_000)
        hear(ada, 7)
        count_pongs(ada, 8)
        assert sum(arrived) > 900_000 and max(arrived) <= READ_BYTES_MAX


# What is told -------------------------------------------------------------------------------------


SLOW = {
    "executed": (Venue, "apply", lambda venue, record: 10 * (type(record) is Place)),
    "answered": (TraderSocket, "answer", lambda socket, *told: 10 * is_ada(socket.principal)),
    "sent": (
        TraderSocket,
        "flush",
        lambda socket, *nothing: 10 * (is_ada(socket.principal) and bool(socket._out)),
    ),
}


@pytest.mark.parametrize("what", SLOW)
def test_a_command_is_paid_for_by_who_sent_it(
    tmp_path: Path, clock: HandClock, asked: list[str], what: str
) -> None:
    """For the time that it took to execute, to answer and to send that, also if it moves thousands
    of others' holdings: its sender rests afterwards, and nobody else."""
    owner, name, cost_ms = SLOW[what]
    with (
        limited(tmp_path, LITTLE_WORK) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
        dial(exchange, "bob") as bob,
    ):
        operator.ask(OfferResource("h100/a/g0"))
        clock.slow_down(owner, name, cost_ms)
        assert isinstance(ada.ask(PlaceOrder("h100", 1, 1)), Answer)
        wait_until(lambda: rest_ms(exchange, clock, "ada") == 19)
        (number,) = ada.send(AskStatus())
        for _ in range(3):
            assert isinstance(bob.ask(AskStatus()), Reply)
        assert set(asked) == {"bob"} and not rests(exchange, clock, "bob")
        clock.let_pass(19)
        hear(ada, number)


def test_a_stream_is_paid_for_by_who_hears_it(tmp_path: Path, clock: HandClock) -> None:
    """Not by whoever made something happen."""
    is_dear = False
    clock.slow_down(
        TraderSocket,
        "flush",
        lambda trader: 6 * (is_dear and trader.principal.role == "viewer" and bool(trader._out)),
    )
    with (
        limited(tmp_path, LITTLE_WORK) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "viewer") as viewer,
        dial(exchange, "ada") as ada,
    ):
        assert isinstance(viewer.ask(Subscribe()), Subscribed)
        assert not rests(exchange, clock, "viewer")
        is_dear = True
        operator.ask(OfferResource("h100/a/g0"))
        wait_until(lambda: rests(exchange, clock, "viewer"))
        assert rest_ms(exchange, clock, "viewer") == 3
        (number,) = viewer.send(AskStatus())
        (trader,) = (each for each in traders(exchange) if each.principal.role == "viewer")
        wait_until(lambda: exchange.call(lambda _: trader._is_paused))
        assert isinstance(ada.ask(AskStatus()), Reply)
        assert not rests(exchange, clock, "ada") and not rests(exchange, clock, "operator")
        is_dear = False
        clock.let_pass(3)
        hear(viewer, number)


def test_samples_are_paid_for(tmp_path: Path, clock: HandClock) -> None:
    """Whoever has overdrawn is left out the next time."""
    looks = 0

    def look(samples: Samples) -> int:
        nonlocal looks
        looks += 1
        return 6

    with limited(tmp_path, LITTLE_WORK) as exchange, dial(exchange, "ada") as ada:
        ada.ask(Subscribe())
        (trader,) = of(exchange, "ada")
        clock.slow_down(Samples, "changed", look)

        def sample_often(_: object) -> tuple[int, bool]:
            for _ in range(5):
                trader.sample()
            return looks, clock() < trader.principal.rests_until

        assert exchange.call(sample_often) == (1, True)
        clock.let_pass(3)
        assert exchange.call(sample_often) == (2, True)


# What nobody reads --------------------------------------------------------------------------------


def test_pings_that_come_together_have_one_answer(tmp_path: Path) -> None:
    """The last of them: nobody needs more than one pong."""
    with limited(tmp_path, ALL_FREE) as exchange, dial(exchange, "ada") as ada:
        ada.send_raw(frame(b"", PING) * 1_000 + frame(encode(Request(7, AskStatus()))))
        assert hear(ada, 7) + count_pongs(ada, 8) < 100, "as many as there were reads"


def count_pongs(client: RawSocket, number: int) -> int:
    client.send_raw(frame(encode(Request(number, AskStatus()))))
    return hear(client, number)


@pytest.fixture
def little_room(clock: HandClock) -> int:
    """So much may wait for one connection: less than a list of orders has."""
    most = 1 << 16
    clock.patch_doors("UNREAD_BYTES_MAX", most)
    return most


def many_orders(exchange: Served, tenant: str) -> None:
    """A list of them has more than a hundred thousand bytes."""
    with dial(exchange, "operator") as operator:
        operator.ask(OfferResource("h100/a/g0"))
    with dial(exchange, tenant) as client:
        orders = [PlaceOrder("h100", 1, 1, f"{n}-{'o' * 100}") for n in range(1_000)]
        client.answers(client.send(*orders))
    wait_until(lambda: not exchange.call(lambda _: of(exchange, tenant)))


LIST_AND_PINGS = frame(encode(Request(7, AskOrders()))) + frame(b"ping", PING) * 500


def test_who_reads_no_pongs_is_not_read_from(
    tmp_path: Path, clock: HandClock, little_room: int, arrived: list[int]
) -> None:
    """Small answers, one by one, are much together; when they are read it goes on."""
    with (
        limited(tmp_path, ALL_FREE) as exchange,
        dial(exchange, "ada", reads=4_096) as ada,
        dial(exchange, "bob") as bob,
    ):
        narrow(exchange)
        (trader,) = of(exchange, "ada")
        for number in range(5_000):
            ada.send_raw(frame(b"x" * 125, PING))
            until = time.monotonic() + 20
            while len(arrived) <= number:  # or one pong would do for several
                assert time.monotonic() < until, "nothing more is read, and it is not full"
                time.sleep(0.0001)
            is_full, is_paused, unread = exchange.call(
                lambda _: (trader._has_too_much_unread, trader._is_paused, trader.unread_bytes())
            )
            if is_full:
                break
        assert (is_full, is_paused, unread <= little_room // 2) == (True, True, True)
        assert isinstance(bob.ask(AskStatus()), Reply)
        ada.send_raw(frame(encode(Request(7, AskStatus()))))
        assert hear(ada, 7) > 100


def test_who_reads_no_answers_is_sent_no_pongs(
    tmp_path: Path, clock: HandClock, little_room: int
) -> None:
    """A ping behind a question whose answer nobody reads is not answered; one that comes when
    there is room again is."""
    with limited(tmp_path, ALL_FREE) as exchange:
        many_orders(exchange, "ada")
        with dial(exchange, "ada", reads=4_096) as ada, dial(exchange, "bob") as bob:
            narrow(exchange)
            (trader,) = of(exchange, "ada")
            ada.send_raw(LIST_AND_PINGS)
            wait_until(lambda: exchange.call(lambda _: trader._has_too_much_unread))
            assert isinstance(bob.ask(AskStatus()), Reply)
            assert hear(ada, 7) == 0
            ada.send_raw(frame(b"again", PING))
            assert ada.next_frame() == (PONG, b"again")


def test_pings_that_waited_behind_an_unread_answer_have_no_pong(
    tmp_path: Path, clock: HandClock, little_room: int
) -> None:
    """Nor are they answered on a later turn, when what had come in meanwhile is read."""
    with limited(tmp_path, LITTLE_WORK) as exchange:
        many_orders(exchange, "ada")
        clock.slow_down(Desk, "answer", lambda desk, asker, asked: 6)
        with dial(exchange, "ada") as busy, dial(exchange, "ada", reads=4_096) as ada:
            narrow(exchange)
            busy.ask(AskStatus())
            wait_until(lambda: rests(exchange, clock, "ada"))
            ada.send_raw(LIST_AND_PINGS)
            wait_until(lambda: exchange.call(lambda _: any(t._arrived for t in traders(exchange))))
            clock.let_pass(3)
            wait_until(
                lambda: exchange.call(
                    lambda _: any(t._has_too_much_unread for t in traders(exchange))
                )
            )
            assert hear(ada, 7) == 0
            clock.let_pass(100)
            ada.send_raw(frame(b"again", PING))
            assert ada.next_frame() == (PONG, b"again")


def test_who_reads_no_answers_is_not_served_on(
    tmp_path: Path, clock: HandClock, asked: list[str], little_room: int, turns: list[str]
) -> None:
    """However much of its turn is left: what is in its frame waits until there is room again, and
    nothing is lost. It does not come to turn in vain meanwhile."""
    with limited(tmp_path, ALL_FREE) as exchange:
        many_orders(exchange, "ada")
        with dial(exchange, "ada", reads=4_096) as ada, dial(exchange, "bob") as bob:
            narrow(exchange)
            (trader,) = of(exchange, "ada")
            numbers = ada.send(*[AskOrders()] * 40)
            wait_until(lambda: exchange.call(lambda _: trader._has_too_much_unread))
            for _ in range(20):
                assert isinstance(bob.ask(AskStatus()), Reply)
            assert turns.count("ada") < 15
            served = asked.count("ada")
            assert served < 10
            assert exchange.call(lambda _: (len(trader._pending), trader._is_paused)) == (
                40 - served,
                True,
            )
            answers = ada.answers(numbers)
            assert all(isinstance(each, Reply) for each in answers.values())


def test_who_reads_no_answers_is_not_read_from(
    tmp_path: Path, clock: HandClock, little_room: int
) -> None:
    """Also if the answer that is too much was the last of a frame, and came on a later turn."""
    with limited(tmp_path, ALL_FREE) as exchange:
        many_orders(exchange, "ada")
        clock.slow_down(Desk, "answer", lambda desk, asker, asked: 3)
        with dial(exchange, "ada", reads=4_096) as ada:
            narrow(exchange)
            (trader,) = of(exchange, "ada")
            numbers = ada.send(AskStatus(), AskOrders())
            wait_until(lambda: exchange.call(lambda _: trader._has_too_much_unread))
            assert exchange.call(lambda _: (len(trader._pending), trader._is_paused)) == (0, True)
            assert len(ada.answers(numbers)) == 2
            assert isinstance(ada.ask(AskStatus()), Reply)


def test_what_was_missed_waits_for_what_is_not_read(
    tmp_path: Path, clock: HandClock, little_room: int
) -> None:
    """Who catches up and asks for something long on the way is not cut off for that."""
    clock.patch_doors("PIECE_MAX", 10)
    with limited(tmp_path, ALL_FREE) as exchange:
        many_orders(exchange, "ada")
        clock.slow_down(TraderSocket, "subscribe", lambda *subscription: 3)
        with dial(exchange, "ada", reads=4_096) as ada:
            narrow(exchange)
            (trader,) = of(exchange, "ada")
            ada.send(Subscribe(after=0), AskOrders())
            wait_until(lambda: exchange.call(lambda _: trader._has_too_much_unread))
            last = exchange.call(lambda running: running.execution.sequence)
            heard = ada.until(lambda said: isinstance(said, Happened) and said.sequence == last)
            told = [said.sequence for said in heard if isinstance(said, Happened)]
            assert told == list(range(last - 999, last + 1))
            assert any(isinstance(said, Reply) for said in heard)
