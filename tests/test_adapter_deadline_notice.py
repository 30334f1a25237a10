"""Work with a deadline, and services, where there are notice and commitment."""

import pytest

from laissez.adapters.deadline import DeadlineAdapter, deadline_adapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.inference import inference_adapter
from laissez.adapters.intent import TradingTerms
from laissez.adapters.view import MarketView, Stay, TreeTerms, Vacate
from laissez.model import ChangeFloor, Filled, Holding, Lost, OfferResource, PlaceOrder, Release
from laissez.performance.batch import BatchJob, Work
from laissez.performance.inference import (
    Hardware,
    InferenceService,
    InferenceSpec,
    LoadTrace,
    preset,
)
from laissez.performance.standing import Standing
from laissez.simulation.kernel.world import Tenant, World

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DOLLAR = 1_000_000
PERIOD = 10 * SECOND
NODE = "h100/z/g0"


def job(hours: float = 2.0, due_hours: float = 8.0, save_s: float = 20.0) -> BatchJob:
    return BatchJob(
        Work(hours, {"h100": 1.0}),
        deadline_us=round(due_hours * HOUR),
        cold_start_s=120.0,
        checkpoint_every_s=600.0,
        save_s=save_s,
    )


def adapter_of(app: BatchJob) -> DeadlineAdapter:
    terms = TradingTerms("batch", ("h100",), PERIOD)
    return deadline_adapter(
        app,
        terms,
        micros_per_unit=6.0 * DOLLAR,
        checkpoint_every_us=10 * MINUTE,
        most_micros_per_hour=40 * DOLLAR,
    )


def cluster(*tenants: Tenant, nodes: int = 1, notice_s: int = 0, commit_s: int = 0) -> World:
    world = World(tenants)
    world.operate(ChangeFloor("h100", 2 * DOLLAR), 0)
    world.bind("h100", notice_us=notice_s * SECOND, commit_us=commit_s * SECOND)
    for number in range(nodes):
        world.operate(OfferResource(f"h100/z/g{number}"), 0)
    return world


def rival(at_us: int, nodes: int = 1) -> Tenant:
    adapter = Footprint(TradingTerms("rival", ("h100",), PERIOD), nodes, 99 * DOLLAR)
    return Tenant("rival", adapter, Standing(("h100",), nodes), at_us)


def told(world: World, kind: type) -> list[int]:
    return [line.at_us for line in world.log if line.who == "ada" and isinstance(line.what, kind)]


# Work that is saved -------------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_done_when_it_began_to_save_is_saved(restarts: bool) -> None:
    """Warm after 120 s; told at 400 s; saved at 420 s; lost at 430 s: 30 s are done again."""
    app = job()
    app.gain(NODE, 0)
    app.advance(400 * SECOND)
    assert app.since_checkpoint_s(NODE) == 280.0 and app.vacate_s(NODE) == 20.0
    app.vacate(NODE, 400 * SECOND)
    app.advance(410 * SECOND)
    if restarts:
        other = job()
        other.resume(app.state())
        app = other
    assert list(app.vacating) == [NODE] and app.vacate_s(NODE) == 10.0
    app.advance(430 * SECOND)
    assert app.vacate_s(NODE) == 0.0 and app.since_checkpoint_s(NODE) == 30.0
    app.lose(NODE, 430 * SECOND)
    assert app.done_share == pytest.approx(280 / 7_200) and list(app.vacating) == []


def test_a_checkpoint_that_comes_anyway_is_as_good() -> None:
    app = job()
    app.gain(NODE, 0)
    app.advance(710 * SECOND)  # a checkpoint is due at 720 s
    assert app.vacate_s(NODE) == 10.0
    app.vacate(NODE, 710 * SECOND)
    app.advance(720 * SECOND)
    assert app.vacate_s(NODE) == 0.0 and app.since_checkpoint_s(NODE) == 0.0
    app.advance(735 * SECOND)  # what it saved is older than the checkpoint, and takes nothing back
    assert app.since_checkpoint_s(NODE) == 15.0


def lost_with(notice_s: int, save_s: float = 20.0) -> tuple[float, World]:
    ada = Tenant("ada", adapter_of(app := job(save_s=save_s)), app)
    world = cluster(ada, rival(10 * MINUTE + 5 * SECOND), notice_s=notice_s)
    most = 0.0

    def note(at_us: int) -> None:
        nonlocal most
        app.advance(at_us)
        most = max(most, app.done_share)

    world.every(SECOND, note)
    world.run(12 * MINUTE)
    return round((most - app.done_share) * 7_200), world


def test_a_batch_job_saves_and_leaves_when_it_is_called() -> None:
    at_once, _ = lost_with(0)
    in_order, world = lost_with(60)
    assert at_once in (605 - 120, 604 - 120)  # by the last second that was noted before
    assert told(world, Vacate) == [605 * SECOND + 20_000]
    assert told(world, Release) == told(world, Lost) == [630 * SECOND]
    assert in_order in (24, 25)
    too_slow, world = lost_with(60, save_s=90.0)
    assert told(world, Release) == [605 * SECOND + 20_000] and too_slow >= at_once


def test_a_limit_reckons_with_notice() -> None:
    app = job()
    adapter = adapter_of(app)
    app.gain(NODE, 0)
    app.advance(10 * MINUTE)

    def limit(notice_s: int) -> int:
        held = Holding(NODE, 0, 2 * DOLLAR, 9 * DOLLAR, None, {}, "ada", "demand")
        terms = {"h100": TreeTerms(notice_s * SECOND)}
        view = MarketView(10 * MINUTE, (held,), (), {}, terms=terms)
        (kept,) = adapter.decide(app, view).keep
        return kept.limit

    assert limit(21) < limit(20) == limit(0)


def test_a_job_that_is_done_keeps_a_node_that_it_is_bound_to_at_its_rate() -> None:
    """Bought at $2 for 3 hours when it needs 2: it bids less, and does not pay for leaving."""
    ada = Tenant("ada", adapter_of(app := job()), app)
    world = cluster(ada, commit_s=3 * 3_600)
    world.run(4 * HOUR)
    assert app.is_done and world.market.holdings("ada") == ()
    assert world.market.bill("ada", world.now_us) == 3 * HOUR * 2 * DOLLAR


# Services -----------------------------------------------------------------------------------------


def service(rate: float = 60.0) -> InferenceService:
    spec = InferenceSpec(
        model="Llama-3.1-8B",
        kinds={"h100": Hardware("h100_sxm")},
        objective=preset("planner-default"),
        drain_s=15.0,
    )
    return InferenceService(spec, LoadTrace(((0, rate, 1_000.0, 200.0),), end_us=HOUR))


def test_a_replica_that_is_drained_serves_nothing_more() -> None:
    app = service()
    for number in range(4):
        app.gain(f"h100/z/g{number}", 0)
    app.advance(5 * MINUTE)
    before, worth = app.quality(), app.worth_of_gaining("h100").full
    app.vacate(NODE, 5 * MINUTE)
    assert app.vacate_s(NODE) == 15.0 and list(app.vacating) == [NODE]
    assert app.worth_of_losing(NODE).full == 0.0 and NODE in app.nodes
    assert app.quality() != before and app.worth_of_gaining("h100").full >= worth
    again = service()
    again.resume(app.state())
    assert again.quality() == app.quality() and list(again.vacating) == [NODE]
    app.advance(5 * MINUTE + 15 * SECOND)
    assert app.vacate_s(NODE) == 0.0
    app.stay(NODE, 5 * MINUTE + 15 * SECOND)
    assert app.worth_of_losing(NODE).full > 0.0 and list(app.vacating) == []


def test_a_cold_replica_has_nothing_to_drain() -> None:
    app = service()
    app.gain(NODE, 0)
    app.advance(30 * SECOND)
    assert app.vacate_s(NODE) == 0.0


def test_a_service_drains_what_is_called_and_orders_another_at_once() -> None:
    terms = TradingTerms("chat", ("h100",), PERIOD)
    ada = Tenant("ada", inference_adapter(terms, 0.40 * DOLLAR), service(30.0))
    world = cluster(ada, rival(10 * MINUTE + 5 * SECOND), nodes=4, notice_s=60)
    world.run(10 * MINUTE)
    replicas = len(world.market.holdings("ada"))
    for number in range(4 - replicas):
        world.act("bob", PlaceOrder("h100", 2 * DOLLAR, 98 * DOLLAR, f"b{number}"), world.now_us)
    world.run(12 * MINUTE)
    (called_us,) = told(world, Vacate)
    (left_us,) = [at for at in told(world, Release) if at >= called_us]
    assert called_us == 605 * SECOND + 20_000 and left_us == 630 * SECOND
    assert min(at for at in told(world, PlaceOrder) if at >= called_us) == called_us + 20_000
    assert not told(world, Stay) and told(world, Filled)
