"""The service is measured beside the limit of the machine. Nothing here depends on a clock."""

import asyncio
from pathlib import Path
from typing import cast

import msgspec
import pytest

from laissez.bench import load, service
from laissez.bench.service import Measured, Rounds, ServiceLoad, measure, measure_rounds
from laissez.bench.trader import LoadTrader

SHORT = ServiceLoad(connections=4, under_way=8, seconds=0.3, warm_up_s=0.1)


def quiet(sentence: str) -> None:
    """Say nothing."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Measured]:
    """A short round, of the service and of the limit."""
    return measure(SHORT, quiet, tmp_path_factory.mktemp("bench"), beside_limit=True)


def test_both_have_written_what_they_acknowledged(both: list[Measured]) -> None:
    """The limit has no market, but it is held to the same promise: what it acknowledged is in a
    journal like ours, under the key that was sent, and nobody is left without an answer."""
    assert len(both) == 2
    for each in both:
        assert each.durable and each.requests > 0 and each.unanswered == 0
        assert each.disk_syncs_per_s > 0
    assert both[1].accepted == 1


def test_who_does_not_write_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the promise would notice: journals that lack what was acknowledged."""
    monkeypatch.setattr(service, "journaled_keys", lambda folder: ({}, 1))
    measured = measure(SHORT, quiet, tmp_path, beside_limit=True)
    assert [each.durable for each in measured] == [False, False]


def test_only_traders_who_wait_have_a_limit_beside_them(
    both: list[Measured], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a fixed rate both would do what is offered: there is no ratio to tell."""
    asked = []

    def measured(load: ServiceLoad, *_: object, beside_limit: bool) -> list[Measured]:
        asked.append((load.seed, beside_limit))
        return both if beside_limit else both[:1]

    monkeypatch.setattr(service, "measure", measured)
    document = measure_rounds(SHORT, 2, quiet).document()
    assert document["ratio"] > 0 and len(document["ratio_of_rounds"]) == 2
    at_a_rate = msgspec.structs.replace(SHORT, requests_per_s=10)
    assert "ratio" not in measure_rounds(at_a_rate, 1, quiet).document()
    assert asked == [(1, True), (2, True), (1, False)]


def test_the_ratio_is_that_of_the_round_in_the_middle(both: list[Measured]) -> None:
    """Within a round it is divided before the middle is taken: a machine that slows down slows
    both sides of it."""

    def at(requests_per_s: float) -> Measured:
        return msgspec.structs.replace(both[1], requests_per_s=requests_per_s)

    told = Rounds([at(60), at(20), at(55)], [at(100), at(40), at(50)]).document()
    assert told["ratio_of_rounds"] == [0.6, 0.5, 1.1]
    assert told["ratio"] == 0.6
    assert told["limit"]["requests_per_s"] == 50
    assert told["limit"]["server_us"] == both[1].server_us


def test_of_an_even_number_of_rounds_no_ratio_is_the_upper_one(both: list[Measured]) -> None:
    """Of two rounds the lower ratio is told, and the slower limit; the same for processor time."""

    def at(requests_per_s: float, server_us: float) -> Measured:
        return msgspec.structs.replace(both[1], requests_per_s=requests_per_s, server_us=server_us)

    told = Rounds([at(40, 100.0), at(50, 80.0)], [at(100, 30.0), at(90, 32.0)]).document()
    assert told["ratio"] == 0.4
    assert told["limit"]["requests_per_s"] == 90
    assert told["server_us_ratio_of_rounds"] == [0.3, 0.4]
    assert told["server_us_ratio"] == 0.3


def test_processor_time_that_nobody_tells_has_no_ratio(both: list[Measured]) -> None:
    """Where the system does not say what a process used, there is no figure rather than a 0."""
    unknown = [msgspec.structs.replace(each, server_us=0.0) for each in both]
    assert Rounds(unknown[:1], unknown[1:]).document()["server_us_ratio"] is None


def test_a_ratio_says_where_and_how_it_was_measured(
    both: list[Measured], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It depends on the disk and on how much is under way, so both stand beside it."""
    monkeypatch.setattr(service, "measure", lambda *_, beside_limit: both)
    document = measure_rounds(SHORT, 1, quiet, tmp_path).document()
    assert document["folder"] == str(tmp_path.resolve())
    assert document["under_way"] == SHORT.under_way


class SlowTrader:
    """Has one request under way, which is answered some time after the turn has ended."""

    def __init__(self, answered_after_s: float) -> None:
        self.in_flight: dict[int, float] = {}
        self.goes_on = False
        self._answered_after_s = answered_after_s

    def fire(self, due: float) -> None:
        self.in_flight[1] = due
        asyncio.get_running_loop().call_later(self._answered_after_s, self.in_flight.clear)


def test_the_time_until_the_last_answer_of_a_turn_counts() -> None:
    """Answers after the end of a turn are counted, so the wait for them is, too: a server that
    answers late does not get a share for nothing. The length of the turn is told apart."""
    slow = SlowTrader(0.2)
    side = load.Side(cast("list[LoadTrader]", [slow]))
    plan = load.LoadPlan([], [], 1, None, 1, 0.01, 0.0, [], 1, "")
    asyncio.run(load._take_turn(plan, side, 0.01))
    assert not slow.in_flight
    assert side.seconds >= 0.15
    assert side.sending_s == 0.01
