"""Streams: resumed exactly, or told that something is forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.exchange import feeds as feeds_module
from laissez.exchange.feeds import Feeds
from laissez.model import (
    Cancelled,
    Charged,
    Happened,
    Lost,
    Segments,
    Settled,
    Transferred,
    decode_said,
)

KEPT = 5


class Ear:
    """A listener that remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, Happened]] = []

    def push(self, sequence: int, message: bytes) -> None:
        said = decode_said(message)
        assert isinstance(said, Happened)
        assert said.sequence == sequence
        self.heard.append((sequence, said))


def happened(sequence: int, tenant: str) -> Happened:
    return Happened(sequence, sequence * 10, (Cancelled(sequence * 10, tenant, f"o-{sequence}"),))


def events_of(sequence: int, tenant: str) -> tuple[Cancelled, ...]:
    return (Cancelled(sequence * 10, tenant, f"{tenant}/o-{sequence}"),)


def decoded(messages: object) -> list[object]:
    assert messages is not None
    return [decode_said(message) for message in messages]  # type: ignore[attr-defined]


def missed(feeds: Feeds, tenant: str | None, after: int) -> list[bytes] | None:
    """All that came after a sequence number, None if some of it is forgotten."""
    if not feeds.keeps(tenant, after):
        return None
    return [message for _, message in feeds.piece(tenant, after, 1_000_000)]


@given(
    st.integers(0, 20),
    st.lists(st.lists(st.sampled_from(["ada", "bob"]), unique=True, max_size=2), max_size=30),
)
def test_a_stream_is_resumed_without_gap_or_told_so(begin: int, told: list[list[str]]) -> None:
    """All messages after a number are there, in order, or one of them is said to be forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeds_module, "KEPT_PER_TENANT", KEPT)
        patch.setattr(feeds_module, "KEPT_FOR_OPERATOR", KEPT)
        feeds = Feeds(begin)
        said: dict[str, list[Happened]] = {"ada": [], "bob": []}
        everything: list[Happened] = []
        for sequence, tenants in enumerate(told, begin + 1):
            for tenant in tenants:
                said[tenant].append(happened(sequence, tenant))
                feeds.of(tenant).add(said[tenant][-1])
            if tenants:
                events = events_of(sequence, tenants[0])
                feeds.publish_all(sequence, sequence * 10, events)
                everything.append(Happened(sequence, sequence * 10, events))
        for after in range(begin + len(told) + 2):
            for tenant in ("ada", "bob"):
                expect(missed(feeds, tenant, after), said[tenant], after, begin)
            expect(missed(feeds, None, after), everything, after, begin)


def expect(messages: object, said: list[Happened], after: int, begin: int) -> None:
    wanted = [each for each in said if each.sequence > after]
    if after < begin or len(wanted) > KEPT:
        assert messages is None
    else:
        assert decoded(messages) == wanted


def test_listeners_hear_their_own_stream() -> None:
    """A tenant's listener hears that tenant, the operator's everything, nobody after leaving."""
    feeds = Feeds(0)
    ada, also_ada, bob, operator = Ear(), Ear(), Ear(), Ear()
    for tenant, ear in (("ada", ada), ("ada", also_ada), ("bob", bob), (None, operator)):
        feeds.listen(tenant, ear)
    feeds.of("ada").add(happened(1, "ada"))
    feeds.publish_all(1, 10, events_of(1, "ada"))
    feeds.leave("ada", also_ada)
    feeds.of("ada").add(happened(2, "ada"))
    feeds.leave(None, operator)
    feeds.publish_all(2, 20, events_of(2, "ada"))
    assert ada.heard == [(1, happened(1, "ada")), (2, happened(2, "ada"))]
    assert also_ada.heard == ada.heard[:1]
    assert bob.heard == []
    assert operator.heard == [(1, Happened(1, 10, events_of(1, "ada")))]


def test_a_listener_may_leave_while_it_is_told() -> None:
    """One that is too slow leaves in the middle of a push; the others still hear."""
    feeds = Feeds(0)

    class Leaver(Ear):
        def push(self, sequence: int, message: bytes) -> None:
            super().push(sequence, message)
            feeds.leave("ada", self)
            feeds.leave(None, self)

    ears = [Leaver(), Ear(), Leaver()]
    for ear in ears:
        feeds.listen("ada", ear)
    feeds.of("ada").add(happened(1, "ada"))
    feeds.of("ada").add(happened(2, "ada"))
    assert [len(ear.heard) for ear in ears] == [1, 2, 1]
    for ear in ears:
        feeds.listen(None, ear)
    feeds.publish_all(3, 30, events_of(3, "ada"))
    assert [len(ear.heard) for ear in ears] == [2, 3, 2]


def test_the_operator_is_told_everything_but_explanations() -> None:
    """A settled charge comes without its segments, a transfer with both sides."""
    feeds = Feeds(0)
    moved = Transferred(9, "h/0", "ada", "bob", "bob/1", "outbid")
    settled = Settled(9, "ada", "h/0", 1, 80, Segments([(1, 9, 10, "floor")]))
    feeds.publish_all(1, 9, (settled, moved))
    everything = Happened(1, 9, (Charged(9, "ada", "h/0", 1, 80), moved))
    assert decoded(missed(feeds, None, 0)) == [everything]
    feeds.of("ada").add(Happened(1, 9, (Lost(9, "h/0", "outbid"),)))
    assert decoded(missed(feeds, "ada", 0)) == [Happened(1, 9, (Lost(9, "h/0", "outbid"),))]


def test_what_is_kept_is_bounded_by_events_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tenant with most of them forgets first, and is told so; other streams stay whole."""
    monkeypatch.setattr(feeds_module, "EVENTS_KEPT_OF_TENANTS", 20)
    monkeypatch.setattr(feeds_module, "EVENTS_KEPT_FOR_OPERATOR", 20)
    feeds = Feeds(0)
    for sequence in range(1, 4):
        feeds.of("ada").add(happened(sequence, "ada"))
    for sequence in range(4, 50):
        events = tuple(Cancelled(1, "bob", f"o-{n}") for n in range(5))
        feeds.of("bob").add(Happened(sequence, 1, events))
        feeds.publish_all(sequence, 1, events)
        assert feeds.of("ada").events + feeds.of("bob").events == feeds.events_of_tenants <= 20
    assert len(decoded(missed(feeds, "ada", 0))) == 3
    assert not feeds.keeps("bob", 10)
    assert feeds.keeps("bob", 48) and feeds.keeps(None, 46) and not feeds.keeps(None, 44)


@given(st.integers(0, 12), st.integers(1, 20), st.integers(0, 12))
def test_the_past_can_be_read_in_pieces(count: int, most: int, after: int) -> None:
    """Piece by piece it is the same as at once, for a tenant and for the operator."""
    feeds = Feeds(0)
    for sequence in range(1, count + 1):
        feeds.of("ada").add(happened(sequence, "ada"))
        feeds.publish_all(sequence, sequence * 10, events_of(sequence, "ada"))
    whole = {
        "ada": [happened(sequence, "ada") for sequence in range(after + 1, count + 1)],
        None: [
            Happened(sequence, sequence * 10, events_of(sequence, "ada"))
            for sequence in range(after + 1, count + 1)
        ],
    }
    for tenant, messages in whole.items():
        found: list[bytes] = []
        reached = after
        while piece := list(feeds.piece(tenant, reached, most)):
            assert len(piece) <= most
            reached = piece[-1][0]
            found += [message for _, message in piece]
        assert decoded(found) == messages
