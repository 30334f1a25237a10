"""The service is measured beside the limit of the machine. Nothing here depends on a clock."""

from pathlib import Path

import msgspec
import pytest

from laissez.bench import service
from laissez.bench.service import Load, Measured, Rounds, measure_limit, measure_rounds

SHORT = Load(connections=4, under_way=8, seconds=0.3, warm_up_s=0.1)


def quiet(sentence: str) -> None:
    """Say nothing."""


@pytest.fixture(scope="module")
def limit(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measure_limit(SHORT, quiet, tmp_path_factory.mktemp("limit"))


def test_the_limit_writes_everything_that_it_sends_back(limit: Measured) -> None:
    """It has no market, but it is held to the same promise: what it acknowledged is in a journal
    like ours, under the key that was sent, and nobody was refused or left without an answer."""
    assert limit.durable and limit.requests > 0
    assert limit.accepted == 1 and limit.unanswered == 0


def test_a_limit_that_does_not_write_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the promise would notice: a journal that lacks what was acknowledged."""
    monkeypatch.setattr(service, "journaled_keys", lambda folder: ({}, 1.0))
    assert not measure_limit(SHORT, quiet, tmp_path).durable


def test_a_round_of_the_service_has_a_round_of_the_limit_beside_it(
    limit: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In turns, and who goes first changes; at a fixed rate there is no limit to compare with,
    because both would do what is offered."""
    turns = []

    def measure(load: Load, say: object, folder: Path | None) -> Measured:
        turns.append(("service", load.seed))
        return limit

    def measure_alone(load: Load, say: object, folder: Path | None) -> Measured:
        turns.append(("limit", load.seed))
        return limit

    monkeypatch.setattr(service, "measure", measure)
    monkeypatch.setattr(service, "measure_limit", measure_alone)
    rounds = measure_rounds(SHORT, 2, quiet)
    assert turns == [("service", 1), ("limit", 1), ("limit", 2), ("service", 2)]
    assert rounds.ratios == [1, 1]
    at_a_rate = msgspec.structs.replace(SHORT, requests_per_s=10)
    assert "ratio" not in measure_rounds(at_a_rate, 1, quiet).document()


def test_the_ratio_is_that_of_the_pair_in_the_middle(limit: Measured) -> None:
    """Pairs are divided before the middle is taken: a machine that slows down in one round slows
    both sides of it."""

    def at(requests_per_s: float) -> Measured:
        return msgspec.structs.replace(limit, requests_per_s=requests_per_s)

    services = [at(60), at(20), at(55)]
    told = Rounds(services, [at(100), at(40), at(50)]).document()
    assert told["ratio_of_rounds"] == [0.6, 0.5, 1.1]
    assert told["ratio"] == 0.6
    assert told["limit"]["requests_per_s"] == 50
    assert told["limit"]["server_us"] == limit.server_us
