"""The WebSocket: requests and answers, fragments, streams, slow readers, and who is let in."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from laissez.exchange import feeds
from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Settings
from laissez.model import (
    Answer,
    AskBill,
    AskHoldings,
    AskOrders,
    AskQuote,
    AskResources,
    AskStatus,
    CancelOrder,
    ChangeFloor,
    CreateToken,
    Filled,
    Happened,
    HoldingList,
    OfferResource,
    OrderList,
    Placed,
    PlaceOrder,
    Quote,
    Quotes,
    Rates,
    Refused,
    Release,
    Reply,
    Request,
    ResourceAdded,
    ResourceList,
    Resync,
    RevokeToken,
    Said,
    ServiceCode,
    Status,
    Subscribe,
    Subscribed,
    TokenCreated,
    TooSlow,
    Transferred,
    WithdrawResource,
    encode,
)
from laissez.service import server, unfinished
from laissez.service import socket as service_socket
from laissez.service.socket import FRAME_BYTES_MAX, UNREAD_BYTES_MAX, TraderSocket
from raw_websocket import (
    CONTINUATION,
    FIN,
    PING,
    PONG,
    TEXT,
    Closed,
    RawSocket,
    TurnedAway,
    frame,
)
from serving import Served, served

NAMES = ("operator", "viewer", "ada", "bob")
NO_BOUND = Settings(limits=Limits(requests_per_s=1_000_000, burst=1_000_000))


@pytest.fixture
def exchange(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, *NAMES, settings=NO_BOUND) as running:
        yield running


def dial(exchange: Served, name: str, **options: int) -> RawSocket:
    return RawSocket(exchange.url, exchange.secrets[name], receive_buffer=options.get("reads"))


def offer(exchange: Served, *resources: str, text: str = "") -> None:
    """Put resources on the market, each with an attribute of this text."""
    attributes = {"about": text} if text else {}
    with dial(exchange, "operator") as operator:
        offers = [OfferResource(resource, attributes) for resource in resources]
        for start in range(0, len(offers), 100):
            asked = operator.send(*offers[start : start + 100])
            operator.answers(asked)


def traders(exchange: Served) -> list[TraderSocket]:
    """Everybody who is connected."""
    doorman = getattr(exchange.running.exchange.access.on_death, "__self__")  # noqa: B009
    return list(doorman.traders)


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if is_so():
            return
        time.sleep(0.01)
    pytest.fail("it did not come about")


def narrow(exchange: Served) -> None:
    """Let the operating system hold little of what connected clients don't read."""

    def shrink(_: object) -> None:
        for trader in traders(exchange):
            assert trader._transport is not None
            underlying = trader._transport.underlying_transport
            underlying.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15
            )

    exchange.call(shrink)


def sequences(heard: list[Said]) -> list[int]:
    return [each.sequence for each in heard if isinstance(each, Happened)]


def is_happened(said: Said) -> bool:
    return isinstance(said, Happened)


# Requests and answers -----------------------------------------------------------------------------


def test_every_pipelined_request_is_answered_once_by_its_id(exchange: Served) -> None:
    """Frames that leave together are answered each, changes and questions mixed."""
    offer(exchange, *(f"h100/a/g{number}" for number in range(50)))
    with dial(exchange, "ada") as ada:
        wanted: dict[int, type] = {}
        frames = b""
        for number in range(1_000, 1_200):
            change = PlaceOrder("h100", limit=5) if number % 2 else None
            frames += frame(encode(Request(number, change or AskStatus())))
            wanted[number] = Reply if change is None else Answer
        ada.send_raw(frames)
        found = ada.answers(list(wanted))
        assert {number: type(answer) for number, answer in found.items()} == wanted
        placed = [answer.sequence for answer in found.values() if isinstance(answer, Answer)]
        assert placed == list(range(placed[0], placed[0] + 100)), "in the order in which they came"


def test_many_requests_in_one_frame_are_answered_in_arrays(exchange: Served) -> None:
    """A thousand orders in one frame come back in far fewer frames than requests."""
    offer(exchange, "h100/a/g0")
    with dial(exchange, "ada") as ada:
        asked = ada.send(*(PlaceOrder("h100", 1 + n, 10_000) for n in range(1_000)))
        frames, answered = 0, 0
        while answered < len(asked):
            _, payload = ada.next_frame()
            frames += 1
            answered += payload.count(b'{"type":"Answer"')
        assert frames < 100
        orders = ada.ask(AskOrders())
        assert isinstance(orders, Reply) and isinstance(orders.told, OrderList)
        assert len(orders.told.orders) == 999, "one is filled"


def test_more_requests_than_a_frame_may_hold_are_refused_whole(exchange: Served) -> None:
    offer(exchange, "h100/a/g0")
    with dial(exchange, "ada") as ada:
        ada.send(*(PlaceOrder("h100", limit=5) for _ in range(1_001)))
        refused = ada.said()
        assert isinstance(refused, Refused) and refused.code == ServiceCode.BAD_REQUEST
        orders = ada.ask(AskHoldings())
        assert isinstance(orders, Reply) and isinstance(orders.told, HoldingList)
        assert orders.told.holdings == ()


def test_an_unreadable_request_is_refused_by_its_id_and_its_neighbours_with_it(
    exchange: Served,
) -> None:
    """A frame is one thing: if part of it can't be read, nothing of it is done."""
    with dial(exchange, "ada") as ada:
        ada.send_text(b'[{"id":7,"do":{"type":"AskStatus"}},{"id":8,"do":{"type":"Steal"}}]')
        heard = [ada.said(), ada.said()]
        assert all(isinstance(each, Refused) for each in heard)
        assert [each.id for each in heard if isinstance(each, Refused)] == [7, 8]


def test_the_reason_of_a_refusal_is_short_however_long_the_cause(exchange: Served) -> None:
    """What cannot be read is not said back a thousand times, and not read again if it is long."""
    long_name = b"x" * 20_000
    bad = b'{"id":1,"do":{"type":"' + long_name + b'"}}'
    with dial(exchange, "ada") as ada:
        ada.send_text(b"[" + bad + b',{"id":2}' * 900 + b"]")
        _, payload = ada.next_frame()
        assert payload.count(b'{"type":"Refused"') == 901
        assert len(payload) < 901 * 600


def test_a_frame_of_very_many_unreadable_requests_is_refused_once(exchange: Served) -> None:
    with dial(exchange, "ada") as ada:
        ada.send_text(b"[" + b",".join([b"{}"] * 100_000) + b"]")
        _, payload = ada.next_frame()
        assert payload.count(b'{"type":"Refused"') == 1


def test_questions_are_answered_from_what_is_durable(exchange: Served) -> None:
    offer(exchange, "h100/a/g0", "h100/a/g1")
    with dial(exchange, "ada") as ada:
        placed = ada.ask(PlaceOrder("h100", 3, 5, "mine"))
        assert isinstance(placed, Answer)
        assert [type(event) for event in placed.events] == [Placed, Filled]
        asked = ada.send(AskHoldings(), AskOrders(), AskQuote("h100"), AskBill(), AskStatus())
        answers = ada.answers(asked).values()
        told = [answer.told for answer in answers if isinstance(answer, Reply)]
        assert len(told) == 5
        holdings, status = told[0], told[4]
        assert isinstance(holdings, HoldingList) and len(holdings.holdings) == 1
        assert isinstance(status, Status) and status.sequence == placed.sequence
        assert (status.role, status.tenant) == ("tenant", "ada")


def test_fragments_are_put_together(exchange: Served) -> None:
    """A message may come in many frames, some of them empty, with a ping between them."""
    whole = encode(Request(9, AskStatus()))
    with dial(exchange, "ada") as ada:
        ada.send_raw(frame(whole[:3], TEXT, first=0))
        for byte in whole[3:-1]:
            ada.send_raw(frame(b"", CONTINUATION, first=0))
            ada.send_raw(frame(bytes([byte]), CONTINUATION, first=0))
        ada.send_raw(frame(b"hello", PING))
        assert ada.next_frame() == (PONG, b"hello")
        ada.send_raw(frame(whole[-1:], CONTINUATION, first=FIN))
        answer = ada.said()
        assert isinstance(answer, Reply) and answer.id == 9
        assert isinstance(ada.ask(AskStatus()), Reply)


def test_fragments_are_bounded_together(exchange: Served) -> None:
    """No message is longer than a frame may be, in however many parts it comes."""
    with dial(exchange, "ada") as ada:
        ada.send_raw(frame(b" " * FRAME_BYTES_MAX, TEXT, first=0))
        ada.send_raw(frame(b"  ", CONTINUATION, first=0))
        assert ada.until_closed()[1].code == 1009


@pytest.mark.parametrize(
    "half",
    [frame(b"[", TEXT, first=0), frame(b"[" + b" " * 70_000)[:-1], frame(b"[]")[:1]],
    ids=["a fragment", "a frame without its end", "a byte"],
)
def test_who_says_half_a_message_is_hung_up_on(
    exchange: Served, monkeypatch: pytest.MonkeyPatch, half: bytes
) -> None:
    """After a while, and is told why."""
    monkeypatch.setattr(unfinished, "MESSAGE_S", 0)
    with dial(exchange, "ada") as ada:
        ada.send_raw(half)
        _, closed = ada.until_closed()
        assert closed.code == 1002 and "send a message within" in closed.reason


def test_who_ends_its_messages_stays(exchange: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was unfinished for a while and then was finished is no reason to hang up."""
    with dial(exchange, "ada") as ada:
        whole = frame(encode(Request(1, AskStatus())))
        ada.send_raw(whole[:5])
        time.sleep(0.05)
        ada.send_raw(whole[5:])
        ada.answers([1])
        ada.send_raw(frame(encode(Request(2, AskStatus()))[:5], TEXT, first=0))
        time.sleep(0.05)
        ada.send_raw(frame(encode(Request(2, AskStatus()))[5:], CONTINUATION))
        ada.answers([2])
        monkeypatch.setattr(unfinished, "MESSAGE_S", 0)
        assert ada.quiet(2 * server.SAMPLE_EVERY_S + 0.5) == []
        ada.send_raw(frame(encode(Request(3, AskStatus()))))
        ada.answers([3])


def test_a_close_is_answered_with_a_close(exchange: Served) -> None:
    with dial(exchange, "ada") as ada:
        ada.send_raw(frame(b"", 0x8))
        assert ada.until_closed()[1].code == 1000
        wait_until(lambda: not exchange.call(lambda _: traders(exchange)))


# Streams ------------------------------------------------------------------------------------------


def test_a_tenant_hears_its_own_events_in_order(exchange: Served) -> None:
    """And nobody else's: what bob does reaches ada only where it concerns her."""
    offer(exchange, "h100/a/g0", "h100/a/g1")
    with dial(exchange, "ada") as ada, dial(exchange, "bob") as bob:
        begun = ada.ask(Subscribe())
        assert isinstance(begun, Subscribed)
        asked = ada.send(PlaceOrder("h100", 3, 5, "a-1"), PlaceOrder("h100", 3, 5, "a-2"))
        bob.ask(PlaceOrder("h100", 4, 4, "b-1"))
        bob.ask(PlaceOrder("h100", 6, 6, "b-2"))
        heard = [each for each in ada.until(_lost) if isinstance(each, Happened)]
        assert asked and sequences(list(heard)) == sorted(sequences(list(heard)))
        assert min(sequences(list(heard))) > begun.sequence
        names = [type(event).__name__ for each in heard for event in each.events]
        assert names == ["Placed", "Filled", "Placed", "Filled", "Charged", "Lost"]
        assert b"bob" not in b"".join(encode(each) for each in heard)


def _lost(said: Said) -> bool:
    return isinstance(said, Happened) and type(said.events[-1]).__name__ == "Lost"


def test_a_stream_resumes_after_a_sequence_number(exchange: Served) -> None:
    """Whoever comes back hears exactly what it has missed."""
    offer(exchange, *(f"h100/a/g{n}" for n in range(10)))
    with dial(exchange, "ada") as ada:
        ada.ask(Subscribe())
        ada.send(*(PlaceOrder("h100", 3, 5) for _ in range(10)))
        all_of_it: list[Said] = []
        while len(sequences(all_of_it)) < 10:
            all_of_it += ada.until(is_happened)
    happened = [each for each in all_of_it if isinstance(each, Happened)]
    with dial(exchange, "ada") as ada:
        again = ada.ask(Subscribe(after=happened[3].sequence))
        assert again == Subscribed(1, happened[3].sequence)
        assert [ada.said() for _ in range(6)] == happened[4:]


@pytest.mark.parametrize("missed", [0, 1, 100, 250])
def test_a_mark_says_that_nothing_more_was_missed(exchange: Served, missed: int) -> None:
    """What was missed ends with a message without events, up to where the market was: also if
    nothing was missed, or a piece was just full, or the last commands concerned somebody else."""
    with dial(exchange, "operator") as operator, dial(exchange, "ada") as ada:
        begun = operator.ask(OfferResource("h100/a/g0"))
        assert isinstance(begun, Answer)
        if missed:
            ada.answers(ada.send(*(PlaceOrder("h100", 1, 1) for _ in range(missed))))
        last = operator.ask(OfferResource("a100/a/g0"))
        assert isinstance(last, Answer)
        with dial(exchange, "ada") as again:
            again.ask(Subscribe(after=begun.sequence))
            heard = [again.said() for _ in range(missed + 1)]
        *past, mark = [each for each in heard if isinstance(each, Happened)]
        assert len(past) == missed and all(each.events for each in past)
        assert (mark.sequence, mark.events) == (last.sequence, ())


def test_a_stream_resumes_after_a_restart(tmp_path: Path) -> None:
    """The journal knows what was said: a new process says it again, to the letter."""
    with served(tmp_path, *NAMES) as exchange:
        offer(exchange, *(f"h100/a/g{n}" for n in range(5)))
        with dial(exchange, "ada") as ada:
            ada.ask(Subscribe())
            ada.send(*(PlaceOrder("h100", 3, 5) for _ in range(5)))
            happened: list[Said] = []
            while len(happened) < 5:
                happened += [each for each in ada.until(is_happened) if is_happened(each)]
    with served(tmp_path, *NAMES) as exchange, dial(exchange, "ada") as ada:
        first = happened[0]
        assert isinstance(first, Happened)
        ada.send(Subscribe(after=first.sequence))
        assert isinstance(ada.said(), Subscribed)
        assert [ada.said() for _ in range(4)] == happened[1:]
        placed = ada.ask(PlaceOrder("h100", 1, 1))
        assert isinstance(placed, Answer)
        last = happened[-1]
        assert isinstance(last, Happened) and placed.sequence > last.sequence


@pytest.mark.parametrize("name", ["ada", "operator"])
def test_whoever_was_away_too_long_reads_its_state_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """So does whoever claims to have seen the future; the stream goes on from now."""
    monkeypatch.setattr(feeds, "KEPT_PER_TENANT", 5)
    monkeypatch.setattr(feeds, "KEPT_FOR_OPERATOR", 5)
    with served(tmp_path, *NAMES) as exchange:
        offer(exchange, *(f"h100/a/g{n}" for n in range(20)))
        with dial(exchange, "ada") as ada:
            asked = ada.send(*(PlaceOrder("h100", 3, 5) for _ in range(20)))
            last = ada.answers(asked)[asked[-1]]
            assert isinstance(last, Answer)
            for after in (0, 1, 10**6, 10**30, -1):
                with dial(exchange, name) as away:
                    away.send(Subscribe(after=after))
                    assert away.said() == Subscribed(1, last.sequence)
                    resync = away.said()
                    assert isinstance(resync, Resync) and resync.sequence == last.sequence
                    ada.ask(PlaceOrder("h100", 1, 2, f"after {after}"))
                    told = away.until(is_happened)
                    assert sequences(told) == [last.sequence + 1]
                    last = ada.ask(CancelOrder(f"after {after}"))
                    assert isinstance(last, Answer)


@pytest.fixture
def quick_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates and quotes ten times a second, from the second time on."""
    monkeypatch.setattr(server, "SAMPLE_EVERY_S", 0.1)


@pytest.mark.usefixtures("quick_samples")
def test_a_second_subscription_replaces_the_first(exchange: Served) -> None:
    """Every event is told once, and the quotes of the first are gone."""
    offer(exchange, "h100/a/g0", "a100/a/g0")
    with dial(exchange, "ada") as ada:
        asked = ada.send(
            Subscribe(rates=True, quotes=("h100",)), Subscribe(quotes=("a100",)), AskStatus()
        )
        ada.answers(asked)
        ada.ask(PlaceOrder("a100", 3, 5, "one"))
        heard = ada.until(lambda said: isinstance(said, Quotes) and said.quotes["a100"] is None)
        heard += ada.quiet(0.5)
        quoted = [set(each.quotes) for each in heard if isinstance(each, Quotes)]
        assert quoted == [{"a100"}] and not any(isinstance(each, Rates) for each in heard)
    with dial(exchange, "ada") as ada:
        ada.ask(Subscribe())
        ada.ask(Subscribe())
        number = ada.send(PlaceOrder("h100", 3, 5, "two"))
        heard = [ada.said() for _ in range(2)] + ada.quiet(0.3)
        assert number and len(sequences(heard)) == 1


def test_rates_come_once_a_second_whatever_happens(exchange: Served) -> None:
    """One order at the root changes a thousand rates, and is one message with those; none comes
    when nothing changes."""
    offer(exchange, *(f"h100/r{n % 10}/g{n}" for n in range(1_000)), "a100/r0/g0")
    with dial(exchange, "ada") as ada, dial(exchange, "bob") as bob:
        ada.answers(ada.send(*(PlaceOrder("h100", 1, 10**9) for _ in range(1_000))))
        ada.ask(PlaceOrder("a100", 1, 10**9))
        ada.ask(Subscribe(rates=True))
        first = ada.said()
        assert isinstance(first, Rates) and len(first.rates) == 1_001
        for price in range(2, 200):
            bob.ask(PlaceOrder("h100", price, price))
        heard = ada.until(
            lambda said: isinstance(said, Rates) and said.rates.get("h100/r0/g0") == 199
        )
        heard += ada.quiet(2.2)
        rates = [each for each in [first, *heard] if isinstance(each, Rates)]
        assert all(later.at - earlier.at > 900_000 for earlier, later in pairwise(rates))
        assert all(len(each.rates) == 1_000 for each in rates[1:]), "a100 did not change"
        assert rates[-1].rates["h100/r9/g999"] == 199
        assert sum(each.rates.get("h100/r0/g0") == 199 for each in rates) == 1


@pytest.mark.usefixtures("quick_samples")
def test_quotes_are_told_as_they_change_and_end_with_their_visibility(exchange: Served) -> None:
    """Whoever holds nothing under a scope any more is told null, though others hold there."""
    offer(exchange, "h100/a/g0", "h100/a/g1", "h100/b/g0")
    with dial(exchange, "operator") as operator:
        operator.ask(ChangeFloor("h100", 7))
    with dial(exchange, "ada") as ada, dial(exchange, "bob") as bob:
        ada.answers(ada.send(PlaceOrder("h100/a/g0", 7, 50), PlaceOrder("h100/b/g0", 7, 50)))
        bob.ask(PlaceOrder("h100/a/g1", 7, 50))
        refused = bob.ask(Subscribe(quotes=("h100", "h100/b")))
        assert isinstance(refused, Refused) and refused.code == "scope_not_visible"
        bob.ask(Subscribe(quotes=("h100", "h100/a")))
        first = bob.said()
        assert isinstance(first, Quotes)
        assert first.quotes == {"h100": Quote(7, False), "h100/a": Quote(7, False)}
        ada.ask(Release("h100/b/g0"))
        assert _next_quotes(bob) == {"h100": Quote(7, True)}, "only what changed"
        bob.ask(Release("h100/a/g1"))
        assert _next_quotes(bob) == {"h100/a": None}
        ada.ask(Release("h100/a/g0"))
        assert not [each for each in bob.quiet(0.5) if isinstance(each, Quotes)]


def _next_quotes(listener: RawSocket) -> dict[str, Quote | None]:
    quotes = listener.until(lambda said: isinstance(said, Quotes))[-1]
    assert isinstance(quotes, Quotes)
    return quotes.quotes


@pytest.mark.usefixtures("quick_samples")
def test_the_quote_of_a_resource_that_is_withdrawn_is_null(exchange: Served) -> None:
    """What is gone is not quoted, and sampling goes on for everybody else."""
    offer(exchange, "h100/a/g0", "h100/a/g1")
    with dial(exchange, "operator") as operator, dial(exchange, "ada") as ada:
        operator.ask(Subscribe(quotes=("h100/a/g0", "nowhere")))
        ada.ask(Subscribe(quotes=("h100",)))
        assert _next_quotes(operator) == {"h100/a/g0": Quote(0, True), "nowhere": None}
        assert _next_quotes(ada) == {"h100": Quote(0, True)}
        operator.ask(WithdrawResource("h100/a/g0"))
        assert _next_quotes(operator) == {"h100/a/g0": None}
        operator.ask(ChangeFloor("h100", 3))
        assert _next_quotes(ada) == {"h100": Quote(3, True)}


@pytest.mark.parametrize("name", ["operator", "viewer"])
def test_the_operator_and_its_viewer_hear_everything(exchange: Served, name: str) -> None:
    with dial(exchange, name) as watcher, dial(exchange, "ada") as ada:
        watcher.ask(Subscribe())
        offer(exchange, "h100/a/g0")
        placed = ada.ask(PlaceOrder("h100", 3, 5))
        assert isinstance(placed, Answer)
        heard = [each for _ in range(2) for each in watcher.until(is_happened)]
        events = [event for each in heard if isinstance(each, Happened) for event in each.events]
        assert [type(event) for event in events] == [ResourceAdded, Placed, Transferred]
        transferred = events[-1]
        assert isinstance(transferred, Transferred) and transferred.new == "ada"
        assert sequences(heard)[-1] == placed.sequence


# Slow readers -------------------------------------------------------------------------------------


def unread_bytes(exchange: Served, slow: list[TraderSocket]) -> int:
    """What waits in the service for those who don't read."""

    def most(_: object) -> int:
        transports = [trader._transport for trader in slow]
        return max(
            (t.underlying_transport.get_write_buffer_size() for t in transports if t is not None),
            default=0,
        )

    return exchange.call(most)


def test_a_slow_reader_is_cut_off_and_can_resume_without_a_gap(exchange: Served) -> None:
    """It gets all that was sent, then `TooSlow`, then close 1013; nobody else notices, and what
    waits for it is bounded by the limit and one group."""
    offer(exchange, "h100/a/first")
    begun = exchange.call(lambda running: running.execution.sequence)
    with dial(exchange, "operator", reads=4_096) as slow, dial(exchange, "ada") as ada:
        slow.ask(Subscribe())
        is_slow = [each for each in traders(exchange) if each.principal.role == "operator"]
        most, sent = 0, 0
        while is_slow[0]._transport is not None:
            assert sent < 40, "it should have been cut off long ago"
            offer(exchange, *(f"h100/a/{sent}-{n}" for n in range(100)), text="x" * 8_000)
            assert isinstance(ada.ask(AskStatus()), Reply)
            most = max(most, unread_bytes(exchange, is_slow))
            sent += 1
        assert most <= UNREAD_BYTES_MAX + 100 * 8_300
        heard, closed = slow.until_closed()
        farewell = heard[-1]
        assert isinstance(farewell, TooSlow)
        assert (closed.code, closed.reason) == (1013, ServiceCode.TOO_SLOW)
    assert sequences(heard) == list(range(begun + 1, farewell.sequence + 1))
    with dial(exchange, "operator") as back:
        back.ask(Subscribe(after=farewell.sequence))
        assert back.until(is_happened)[-1] is not None
        assert isinstance(back.ask(AskStatus()), Reply)


def test_who_never_reads_is_hung_up_on(exchange: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Last words that nobody reads do not keep a connection."""
    monkeypatch.setattr(service_socket, "UNREAD_BYTES_MAX", 1 << 16)
    monkeypatch.setattr(service_socket, "FAREWELL_S", 0.1)
    with dial(exchange, "operator", reads=4_096) as slow:
        slow.ask(Subscribe())
        narrow(exchange)
        (trader,) = traders(exchange)
        offer(exchange, *(f"h100/a/{n}" for n in range(400)), text="x" * 8_000)
        wait_until(lambda: trader not in exchange.call(lambda _: traders(exchange)))
        wait_until(lambda: trader.principal.connections == 0)


def test_who_closes_without_reading_is_hung_up_on(
    exchange: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_socket, "FAREWELL_S", 0.1)
    offer(exchange, *(f"h100/a/{n}" for n in range(100)), text="x" * 8_000)
    with dial(exchange, "operator", reads=4_096) as slow:
        narrow(exchange)
        slow.send(AskResources())
        slow.send_raw(frame(b"", 0x8))
        wait_until(lambda: not exchange.call(lambda _: traders(exchange)))


def test_long_frames_stay_whole_when_they_wait(exchange: Served) -> None:
    """Frames of all lengths that pile up at a reader who is a bit late arrive as they were."""
    for scope, resources in (("a", 1), ("b", 40), ("c", 150), ("d", 700)):
        offer(exchange, *(f"h100/{scope}/g{n}" for n in range(resources)), text="y" * 80)
    with dial(exchange, "operator", reads=4_096) as late:
        narrow(exchange)
        asked = [late.send(AskResources(f"h100/{'abcd'[n % 4]}"))[0] for n in range(60)]
        wait_until(lambda: unread_bytes(exchange, traders(exchange)) > 1 << 20)
        answers = late.answers(asked)
        sizes = [
            len(answer.told.resources)
            for answer in answers.values()
            if isinstance(answer, Reply) and isinstance(answer.told, ResourceList)
        ]
        assert sizes == [1, 40, 150, 700] * 15


def test_one_long_answer_is_not_a_slow_reader(
    exchange: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer may be longer than what may wait unread."""
    monkeypatch.setattr(service_socket, "UNREAD_BYTES_MAX", 1 << 16)
    offer(exchange, *(f"h100/a/{n}" for n in range(100)), text="x" * 8_000)
    with dial(exchange, "operator", reads=4_096) as operator:
        narrow(exchange)
        for _ in range(3):
            answer = operator.ask(AskResources())
            assert isinstance(answer, Reply) and isinstance(answer.told, ResourceList)
            assert len(answer.told.resources) == 100


def test_long_answers_wait_until_those_before_are_read(exchange: Served) -> None:
    """Small questions with long answers: each is answered when there is room for it."""
    offer(exchange, *(f"h100/a/{n}" for n in range(100)), text="x" * 8_000)
    with dial(exchange, "operator", reads=4_096) as operator:
        narrow(exchange)
        asked = operator.send(*(AskResources() for _ in range(50)))
        wait_until(lambda: unread_bytes(exchange, traders(exchange)) > UNREAD_BYTES_MAX // 4)
        (trader,) = traders(exchange)
        wait_until(lambda: exchange.call(lambda _: trader._is_paused))
        assert unread_bytes(exchange, traders(exchange)) <= UNREAD_BYTES_MAX
        assert len(trader._pending) > 40
        answers = operator.answers(asked)
        assert all(isinstance(each, Reply) for each in answers.values())
        assert isinstance(operator.ask(AskResources("h100/a/1")), Reply)


# Who is let in ------------------------------------------------------------------------------------


def turned_away(exchange: Served, secret: str | None, path: str = "/v1/stream") -> TurnedAway:
    with pytest.raises(TurnedAway) as away:
        RawSocket(exchange.url, secret, path=path)
    problem = away.value.problem
    assert problem["status"] == away.value.status
    assert problem["title"] and problem["detail"]
    return away.value


def test_a_revoked_token_ends_its_connections_at_once(exchange: Served) -> None:
    with dial(exchange, "operator") as operator:
        made = operator.ask(CreateToken("tenant", "eve"))
        assert isinstance(made, Reply) and isinstance(made.told, TokenCreated)
        secret, token = made.told.secret, made.told.info.token
        with RawSocket(exchange.url, secret) as one, RawSocket(exchange.url, secret) as two:
            assert isinstance(one.ask(AskStatus()), Reply)
            assert isinstance(two.ask(Subscribe()), Subscribed)
            with dial(exchange, "ada") as ada:
                operator.ask(RevokeToken(token))
                assert one.until_closed()[1].code == 1008
                assert two.until_closed()[1].code == 1008
                assert isinstance(ada.ask(AskStatus()), Reply)
        assert turned_away(exchange, secret).problem["code"] == ServiceCode.UNAUTHENTICATED


def test_an_expired_token_ends_its_connections(exchange: Served) -> None:
    with dial(exchange, "operator") as operator:
        made = operator.ask(CreateToken("tenant", "eve", lifetime_s=1))
    assert isinstance(made, Reply) and isinstance(made.told, TokenCreated)
    with RawSocket(exchange.url, made.told.secret) as eve:
        assert isinstance(eve.ask(AskStatus()), Reply)
        assert eve.until_closed()[1].code == 1008
    assert turned_away(exchange, made.told.secret).status == 401


def test_a_token_has_a_bounded_number_of_connections(tmp_path: Path) -> None:
    """One too many is told so; when one ends there is room again, and others have their own."""
    with served(tmp_path, *NAMES, settings=Settings(limits=Limits(connections=2))) as exchange:
        with dial(exchange, "ada") as first, dial(exchange, "ada"):
            problem = turned_away(exchange, exchange.secrets["ada"])
            assert (problem.status, problem.problem["code"]) == (429, "too_many_connections")
            with dial(exchange, "bob") as bob:
                assert isinstance(bob.ask(AskStatus()), Reply)
            assert isinstance(first.ask(AskStatus()), Reply)
        wait_until(lambda: not exchange.call(lambda _: traders(exchange)))
        with dial(exchange, "ada") as again:
            assert isinstance(again.ask(AskStatus()), Reply)


def test_who_shows_no_living_token_in_the_header_stays_outside(exchange: Served) -> None:
    """A token in the address would be written into logs on its way, so it is not taken."""
    secret = exchange.secrets["ada"]
    assert turned_away(exchange, None).status == 401
    assert turned_away(exchange, "").status == 401
    assert turned_away(exchange, "lz_" + "A" * 43).status == 401
    assert turned_away(exchange, secret[:-1]).status == 401
    assert turned_away(exchange, "\xff\xfe").status == 401
    for name in ("token", "access_token", "authorization"):
        assert turned_away(exchange, None, f"/v1/stream?{name}={secret}").status == 401
    for header in (f"Cookie: token={secret}", f"Sec-WebSocket-Protocol: {secret}"):
        with pytest.raises(TurnedAway) as away:
            RawSocket(exchange.url, None, headers=[header])
        assert away.value.status == 401
    with pytest.raises(TurnedAway) as away:
        RawSocket(exchange.url, None, headers=[f"Authorization: Basic {secret}"])
    assert away.value.status == 401


def test_there_is_one_place_to_meet(exchange: Served) -> None:
    for path in ("/", "/v1", "/v1/stream/", "/v1/streams", "/v1/orders", "//v1/stream"):
        away = turned_away(exchange, exchange.secrets["ada"], path)
        assert (away.status, away.problem["code"]) == (404, ServiceCode.NOT_FOUND)


def test_everybody_is_told_when_the_service_stops(tmp_path: Path) -> None:
    with served(tmp_path, *NAMES) as exchange:
        ada = dial(exchange, "ada")
        assert isinstance(ada.ask(AskStatus()), Reply)
    with ada, pytest.raises(Closed) as closed:
        ada.said()
    assert (closed.value.code, closed.value.reason) == (1001, ServiceCode.STOPPING)
