"""A voice for gangs that wait: where it is raised, how far, how long, and what comes of it."""

from pathlib import Path

import pytest

from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import TradingTerms
from laissez.adapters.training import TrainingAdapter
from laissez.adapters.view import OrderGang
from laissez.documents import BadDocument
from laissez.inframaps import Composition, Gangs, OperatorView, WaitingGang, gangs_among
from laissez.model import (
    ChangeFloor,
    OfferResource,
    OpenOrder,
    PlaceOrder,
    Release,
    Resource,
)
from laissez.performance.standing import Standing
from laissez.performance.training import Setup, TrainingJob, TrainingSpec
from laissez.runners.inframap_file import read_inframap
from laissez.simulation.kernel.steering import steer
from laissez.simulation.kernel.world import Tenant, World

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DOLLAR = 1_000_000
CHARGED = 3_600_000_000


def gang(tenant: str = "ada", limit: int = 8 * DOLLAR) -> WaitingGang:
    return WaitingGang(tenant, f"{tenant}-1", "h", 2, 2, limit)


def view(
    at_us: int,
    *gangs: WaitingGang,
    owners: dict[str, str],
    floors: dict[str, int] | None = None,
) -> OperatorView:
    """Domains a, b and c of two; what is held by bob at $3 is "bob:3"."""
    resources = []
    for leaf in ("a0", "a1", "b0", "b1", "c0", "c1"):
        owner, _, rate = owners.get(leaf, "").partition(":")
        path = f"h/{leaf[0]}/{leaf[1]}"
        resources.append(Resource(path, owner or None, int(rate or 2) * DOLLAR, {}))
    standing = {"h": 2 * DOLLAR} if floors is None else floors
    return OperatorView(at_us, tuple(resources), standing, gangs=gangs)


def test_gangs_are_found_among_orders() -> None:
    single = OpenOrder("ada", "1", "h", 3, 4, None)
    several = OpenOrder("ada", "2", "h/a", None, 4, None, 3, None)
    assert gangs_among([single, several]) == (WaitingGang("ada", "2", "h/a", 3, 2, 4),)


def test_a_voice_begins_after_a_while_rises_by_steps_and_ends() -> None:
    """From the floor of $2 to the limit of $8 in three steps of a minute; five minutes in all."""
    voice = Gangs(
        patience_us=2 * MINUTE, rise_us=3 * MINUTE, steps=3, lasts_us=5 * MINUTE, rests_us=HOUR
    )
    full = dict.fromkeys(("a0", "a1", "b0", "b1", "c0", "c1"), "bob:2")
    heard = [voice.lifts(view(at * MINUTE, gang(), owners=full), at * MINUTE) for at in range(8)]
    dollars = [each.get("h/a", 0) // DOLLAR for each in heard]
    assert dollars == [0, 0, 4, 6, 8, 8, 8, 0]
    assert all(each.keys() <= {"h/a"} for each in heard)
    again_us = 7 * MINUTE + HOUR
    assert voice.lifts(view(again_us - 1, gang(), owners=full), again_us - 1) == {}
    assert voice.lifts(view(again_us, gang(), owners=full), again_us) == {"h/a": 4 * DOLLAR}


def test_the_domain_is_where_the_fewest_leave_and_then_where_they_pay_least() -> None:
    def chosen(owners: dict[str, str]) -> set[str]:
        voice = Gangs(patience_us=0)
        return {*voice.lifts(view(0, gang(), owners=owners), 0)}

    full = dict.fromkeys(("a0", "a1", "b0", "b1", "c0", "c1"), "bob:3")
    assert chosen(full) == {"h/a"}
    assert chosen({**full, "c0": "bob:2"}) == {"h/c"}
    assert chosen({**full, "b1": "bob:9", "c0": ""}) == {"h/c"}
    assert chosen({**full, "a0": "ada:2", "b0": "ada:2"}) == {"h/c"}  # its own never count
    dear = {"h": 2 * DOLLAR, "h/a": 8 * DOLLAR}
    voice = Gangs(patience_us=0)
    assert {*voice.lifts(view(0, gang(), floors=dear, owners=full), 0)} == {"h/b"}


def test_two_gangs_never_fight_over_a_domain() -> None:
    full = dict.fromkeys(("a0", "a1", "b0", "b1", "c0", "c1"), "bob:3")
    gangs = tuple(gang(name) for name in ("ada", "eve", "kim", "zoe"))
    large = WaitingGang("tom", "t", "h", 4, 1, 8 * DOLLAR)
    for most, domains in ((1, 1), (2, 2), (9, 3)):
        voice = Gangs(patience_us=0, most=most)
        assert len(voice.lifts(view(0, *gangs, large, owners=full), 0)) == domains
    first = Gangs(patience_us=0, most=9)
    assert {*first.lifts(view(0, large, *gangs, owners=full), 0)} == {"h/a", "h/b", "h/c"} or {
        *first.lifts(view(0, large, *gangs, owners=full), 0)
    } == {"h"}


def test_a_tenant_has_one_voice_and_then_none_for_a_while() -> None:
    full = dict.fromkeys(("a0", "a1", "b0", "b1", "c0", "c1"), "bob:3")
    two = (gang(), WaitingGang("ada", "other", "h", 2, 2, 9 * DOLLAR))
    voice = Gangs(patience_us=0, most=9, rests_us=HOUR)
    assert len(voice.lifts(view(0, *two, owners=full), 0)) == 1
    gone = view(MINUTE, WaitingGang("ada", "third", "h", 2, 2, 9 * DOLLAR), owners=full)
    assert voice.lifts(gone, MINUTE) == {}


def test_what_cannot_be_is_refused() -> None:
    for wrong in ({"steps": 0}, {"most": 0}, {"lasts_us": MINUTE}):
        with pytest.raises(ValueError, match="gangs: give"):
            Gangs(**wrong)


def test_a_lift_is_a_floor_beside_others_and_prices_come_home() -> None:
    voice = Gangs(patience_us=0, rise_us=0, lasts_us=MINUTE)
    composition = Composition({"h": 2 * DOLLAR}, {}, ((1.0, voice),))
    full = dict.fromkeys(("a0", "a1", "b0", "b1", "c0", "c1"), "bob:3")
    (raised,) = composition.step({}, view(0, gang(), owners=full), 0)
    assert raised.do == ChangeFloor("h/a", 8 * DOLLAR)
    assert raised.why == "8.00 for a gang that waits"
    floors = {"h": 2 * DOLLAR, "h/a": 8 * DOLLAR}
    (home,) = composition.step({}, view(1, floors=floors, owners=full), 1)
    assert home.do == ChangeFloor("h/a", 0)


FILE = """
base: {h100: 2.00}
maps:
  - map: gangs
    patience: 5m
    rise: 4m
    steps: 2
    lasts: 20m
    rests: 2h
    most: 3
"""


def test_a_map_is_written_down() -> None:
    composition = read_inframap(FILE, file_name="map.yaml").build(Path()).composition
    assert composition.sees_gangs
    ((_, voice),) = composition.maps
    assert isinstance(voice, Gangs)
    assert (voice.patience_us, voice.rise_us, voice.steps) == (5 * MINUTE, 4 * MINUTE, 2)
    assert (voice.lasts_us, voice.rests_us, voice.most) == (20 * MINUTE, 2 * HOUR, 3)
    with pytest.raises(BadDocument, match="as long as it rises"):
        read_inframap(FILE.replace("20m", "3m"), file_name="map.yaml")


# In a market ------------------------------------------------------------------------------------


def crew_tenant() -> Tenant:
    """A job of 8 hours of work on 8 H100s, worth $5 each an hour to it."""
    setup = Setup(gpus=(("h100", "H100"),), levels=("rack", "nvlink"))
    app = TrainingJob(TrainingSpec(6_000_000, setup, 8 * HOUR, nodes_max=8))
    terms = TradingTerms("train", ("h100",), 10 * SECOND)
    return Tenant("crew", TrainingAdapter(terms, 5.0 * DOLLAR), app)


def scenario(is_heard: bool, notice_s: int = 120) -> tuple[World, list[tuple[float, str]]]:
    """Two domains of 8: one with services that pay $3, one with a crew that nobody presses on. At
    half an hour a gang of 8 comes that pays up to $8, and works for an hour once it has them."""
    world = World()
    world.operate(ChangeFloor("h100", 2 * DOLLAR), 0)
    world.bind("h100", notice_us=notice_s * SECOND, commit_us=notice_s * SECOND)
    for domain in (0, 1):
        for gpu in range(8):
            world.operate(OfferResource(f"h100/r0/n{domain}/g{gpu}"), 0)
    services = Footprint(TradingTerms("web", ("h100/r0/n0",), 10 * SECOND), 8, 12 * DOLLAR)
    world.join(Tenant("web", services, Standing(("h100",), 8)))
    world.join(crew_tenant())
    rest = PlaceOrder("h100/r0/n0", 3 * DOLLAR)
    world.at(10 * MINUTE, lambda at: world.act("rest", rest, at))
    order = OrderGang("h100", 8, 3, 8 * DOLLAR, "gang", None)
    world.at(HOUR // 2, lambda at: world._do("ada", order, at, ""))
    if is_heard:
        maps = ((1.0, Gangs()),)
        steer(world, Composition({"h100": 2 * DOLLAR}, {}, maps))
    told: list[tuple[float, str]] = []

    def watch(at_us: int) -> None:
        held = len(world.market.holdings("ada"))
        if held == 8 and not told:
            told.append((at_us / MINUTE, "filled"))
            world.at(at_us + HOUR, leave)

    def leave(at_us: int) -> None:
        for path in world.market.holdings("ada"):
            world.act("ada", Release(path), at_us)

    world.every(10 * SECOND, watch, begins_us=HOUR // 2)
    return world, told


def test_a_gang_that_would_wait_for_ever_is_filled_with_a_voice() -> None:
    """The numbers of docs/inframaps.md. Its voice begins at 40 minutes; the crew of 8, of which
    each node alone is kept up to far more, is worth no more than $6 a node to itself."""
    alone, told = scenario(is_heard=False)
    alone.run(4 * HOUR)
    assert told == [] and len(alone.market.orders("ada")) == 1
    heard, told = scenario(is_heard=True)
    heard.run(4 * HOUR)
    assert [(round(at), what) for at, what in told] == [(47, "filled")]
    assert heard.market.floors() == {"h100": 2 * DOLLAR}
    assert dollars(alone) == {"ada": 0.0, "crew": 64.0, "web": 94.67}
    assert dollars(heard) == {"ada": 32.09, "crew": 50.2, "web": 102.69}
    before, after = (world.tenants["crew"].app.samples_done for world in (alone, heard))
    assert round(after / before, 2) == 0.74


def vain(is_heard: bool) -> tuple[dict[str, float], float]:
    """The only domain is held by three up to $3 and five up to $12: no gang of 8 has it for $8.
    What everybody owes after four hours, and how many node hours nobody had."""
    world = World()
    world.operate(ChangeFloor("h100", 2 * DOLLAR), 0)
    for gpu in range(8):
        world.operate(OfferResource(f"h100/r0/n0/g{gpu}"), 0)
    for name, nodes, limit in (("weak", 3, 3), ("strong", 5, 12)):
        adapter = Footprint(TradingTerms(name, ("h100",), 10 * SECOND), nodes, limit * DOLLAR)
        world.join(Tenant(name, adapter, Standing(("h100",), nodes)))
    order = OrderGang("h100", 8, 3, 8 * DOLLAR, "gang", None)
    world.at(HOUR // 2, lambda at: world._do("ada", order, at, ""))
    if is_heard:
        steer(world, Composition({"h100": 2 * DOLLAR}, {}, ((1.0, Gangs()),)))
    idle = 0

    def count(_: int) -> None:
        nonlocal idle
        idle += sum(world.market.owner(path) is None for path in world.market.resources())

    world.every(MINUTE, count)
    world.run(4 * HOUR)
    assert world.market.holdings("ada") == ()
    return dollars(world), round(idle / 60, 1)


def test_a_voice_in_vain_costs_those_who_stay_and_drives_out_the_weak() -> None:
    """The numbers of docs/inframaps.md: three voices of half an hour."""
    assert vain(False) == ({"ada": 0.0, "strong": 40.0, "weak": 24.0}, 0.0)
    assert vain(True) == ({"ada": 0.0, "strong": 73.25, "weak": 16.39}, 3.9)


def dollars(world: World) -> dict[str, float]:
    return {
        who: round(world.market.bill(who, world.now_us) / CHARGED / DOLLAR, 2)
        for who in world.market.tenants()
        if who != "rest"
    }
