"""The page that shows how to write an adapter: its code runs, is short, and does what it says."""

import asyncio
import contextlib
import io
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import laissez
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import TradingTerms
from laissez.model import ChangeFloor, OfferResource
from laissez.performance.application import NO_WORTH, Application, BadApplication, Worth
from laissez.performance.simple import NODES_MAX, SimpleApplication
from laissez.performance.standing import Standing
from laissez.simulation.kernel.world import Tenant, World
from serving import served

PAGE = Path(__file__).resolve().parent.parent / "docs" / "write-an-adapter.md"
LINES_MAX = 40
SECOND, HOUR, DOLLAR = 1_000_000, 3_600_000_000, 1_000_000

FENCED = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def blocks(info: str) -> list[str]:
    found = FENCED.finditer(PAGE.read_text())
    return [block["code"] for block in found if block["info"].strip() == info]


def the_page() -> tuple[dict[str, Any], str]:
    """The names that the page defines, and what it prints."""
    namespace: dict[str, Any] = {"__name__": "page"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks("python"):
            exec(compile(block, str(PAGE), "exec"), namespace)
    return namespace, printed.getvalue()


# --- the page -----------------------------------------------------------------------------------


def test_the_new_adapter_is_short() -> None:
    """Application and adapter, with imports, names and docstrings, are under 40 lines."""
    application, adapter = blocks("python")[:2]
    assert "class RenderFarm" in application
    assert "EconAdapter(" in adapter
    lines = [line for line in (application + adapter).splitlines() if line.strip()]
    assert len(lines) < LINES_MAX


def test_the_page_prints_what_it_says() -> None:
    """The simulated hours on the page are what its code gives."""
    _, printed = the_page()
    assert blocks("text") == [printed]


def played(rival_limit: int, until_us: int) -> tuple[World, Any]:
    """The page's market, with a rival that offers so much."""
    page, _ = the_page()
    farm = page["RenderFarm"](frames=300, deadline_us=4 * HOUR)
    rival = Footprint(TradingTerms("rival", ("h100",), 10 * SECOND), nodes=2, limit=rival_limit)
    world = World(
        [
            Tenant("studio", page["render_adapter"](["h100", "a100"], 0.07), farm),
            Tenant("rival", rival, Standing(("h100",), 2), begins_us=HOUR // 2),
        ]
    )
    for path, floor in (("h100/r1/g0", 2), ("h100/r1/g1", 2), ("a100/r1/g0", 1)):
        world.operate(ChangeFloor(path.partition("/")[0], floor * DOLLAR), at_us=0)
        world.operate(OfferResource(path), at_us=0)
    world.run(until_us)
    return world, farm


def test_the_page_tells_why() -> None:
    """At first the farm keeps the H100 that it can spare up to a quarter above its floor of $2.00,
    and the other up to a quarter above its value, 60 frames of 7 cents: it is cold when the limit
    is set, and has nothing to lose but 20 ms of its start. Then the farm pays the rival's $2.75 for
    the one that it needs, and at last the A100 does alone what is left."""
    early, _ = played(2_750_000, HOUR // 4)
    limits = [early.market.limit(f"h100/r1/g{number}") for number in (0, 1)]
    assert limits == [2_500_000, int(60 * 70_000 * (1 + 0.02 / 600) * 1.25)]
    later, _ = played(2_750_000, HOUR)
    assert later.market.owner("h100/r1/g1") == "studio"
    assert later.market.rate("h100/r1/g1") == 2_750_000
    _, farm = played(2_750_000, 29 * HOUR // 10)
    assert farm.nodes == ("a100/r1/g0",)
    assert farm.needed <= 25
    done, farm = played(2_750_000, 4 * HOUR)
    assert (farm.is_done, done.market.holdings("studio")) == (True, ())


def test_value_is_no_guarantee() -> None:
    """A rival who offers $20 has both H100s, and then the frames are late."""
    _, farm = played(20 * DOLLAR, 4 * HOUR)
    assert farm.kept["frames_left"] > 0


def test_the_same_adapter_trades_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's three lines buy what the farm needs from a real service, and leave nothing behind
    when the work is done."""
    page, _ = the_page()
    page["FRAMES_PER_HOUR"]["h100"] = 3_600_000.0  # 300 frames take 0.3 s
    farm = page["RenderFarm"](300, int(time.time() * SECOND) + HOUR)
    farm._cold_start_s = 0
    said: list[Any] = []
    page["log"] = said.append
    with (
        served(tmp_path, "operator", "studio") as service,
        laissez.Client(service.url, service.secrets["operator"]) as operator,
    ):
        operator.set_floor("h100", "2.00")
        operator.add_resource("h100/r1/g0")
        monkeypatch.setenv("LAISSEZ_URL", service.url)
        monkeypatch.setenv("LAISSEZ_TOKEN", service.secrets["studio"])
        adapter = page["render_adapter"](["h100"], 0.07)
        adapter = type(adapter)(
            TradingTerms("render", ("h100",), period_us=SECOND // 2), adapter.micros_per_unit
        )
        asyncio.run(asyncio.wait_for(page["trade"](adapter, farm), 30))
        assert operator.holdings() == ()
        assert operator.orders() == ()
        assert operator.bill("studio").charge > 0
    assert farm.is_done
    told = [entry.what for entry in said]
    assert (told[0], told[-1]) == ("begins", "ends")
    assert "won" in told


# --- what the page builds on --------------------------------------------------------------------


class Bakers(SimpleApplication):
    """Loaves an hour: ten by a big oven, four by a small one, and never more than `most`."""

    def __init__(self, most: float = 100.0, **kept: float) -> None:
        super().__init__(("big", "small"), cold_start_s=60, **kept)
        self._most = most
        self.stretches: list[tuple[tuple[str, ...], float]] = []

    def utility(self, nodes: Sequence[str]) -> float:
        return min(self._most, sum(10.0 if node.startswith("big") else 4.0 for node in nodes))

    @property
    def needed(self) -> float:
        return self.kept.get("wanted", float("inf"))

    @property
    def is_done(self) -> bool:
        return False

    def work(self, nodes: Sequence[str], hours: float) -> None:
        self.stretches.append((tuple(nodes), hours))


def bakers(*nodes: str, most: float = 100.0, **kept: float) -> Bakers:
    app = Bakers(most, **kept)
    for node in nodes:
        app.gain(node, 0)
    return app


def test_a_simple_application_is_an_application() -> None:
    """It answers every hook of the protocol."""
    app: Application = bakers()
    assert app.nodes == ()
    assert app.kinds == ("big", "small")


def test_worth_is_a_difference_of_utilities() -> None:
    """12 loaves are wanted: the second big oven adds 10, but now only what is needed counts in
    full, up to 13.2 with the margin, and a tenth of the 6.8 beyond."""
    app = bakers("big/a", wanted=12)
    assert app.worth_of_gaining("big") == pytest.approx((3.2 + 0.68, 10.0))
    assert app.worth_of_gaining("small", coming=["big"]) == pytest.approx((0.4, 4.0))
    assert app.worth_of_losing("big/a") == Worth(10.0, 10.0)
    assert app.worth_of_gaining("tent") == NO_WORTH


def test_nodes_that_are_gone_already_do_not_count() -> None:
    """With the first oven gone, the second is worth all that is baked."""
    app = bakers("big/a", "big/b", wanted=10)
    assert app.worth_of_losing("big/b").now == pytest.approx(1.0 + 0.9)
    assert app.worth_of_losing("big/b", gone=["big/a"]).now == 10.0


def test_what_stands_still_with_a_node_is_what_it_does() -> None:
    """At stake is what is lost with it and no other, and no end is in sight."""
    app = bakers("big/a", "big/b", wanted=10)
    assert app.at_stake("big/b") == app.worth_of_losing("big/b").now == pytest.approx(1.9)
    assert app.at_stake("big/z") == 0.0
    assert app.ends_in_s("big/b") is None
    assert app.ends_in_s("big") is None


def test_the_youngest_of_what_adds_nothing_is_redundant() -> None:
    """Of three big ovens two bake all that can be sold; of two, none is redundant."""
    app = bakers("big/a", "big/b", "big/c", most=20)
    assert [app.is_redundant(node) for node in app.nodes] == [False, False, True]
    app.lose("big/c", 0)
    assert [app.is_redundant(node) for node in app.nodes] == [False, False]
    assert not app.is_redundant("big/z")


def test_what_is_missing() -> None:
    """25 wanted and 10 there: two more big ovens, or four small ones, and 15 are missing. Without
    a need it asks for what adds something, and never for more than a bound."""
    app = bakers("big/a", wanted=25)
    assert (app.missing("big"), app.missing("small"), app.missing("tent")) == (2, 4, 0)
    assert app.utility_gap() == 15.0
    assert bakers("big/a", most=30).missing("big") == 2
    assert bakers("big/a", most=30).utility_gap() == 20.0
    assert bakers(most=1e9).missing("big") == NODES_MAX


def test_nodes_work_when_they_are_warm() -> None:
    """A node gained at 0 works from 60 s on, one gained at 30 s from 90 s on."""
    app = bakers("big/a")
    app.gain("small/b", 30 * SECOND)
    assert app.cold_start_s("big/a") == 30.0
    assert app.cold_start_s("big") == 60.0
    app.advance(120 * SECOND)
    assert app.cold_start_s("big/a") == 0.0
    worked = [(nodes, round(hours * 3_600)) for nodes, hours in app.stretches]
    assert worked == [((), 30), ((), 30), (("big/a",), 30), (("big/a", "small/b"), 30)]


def test_what_is_measured_replaces_what_is_kept() -> None:
    """A reading that it knows by name counts from then on; another is left alone."""
    app = bakers(wanted=25)
    app.measure({"wanted": 40.0, "rain": 1.0}, SECOND)
    assert app.kept == {"wanted": 40.0}
    assert app.now_us == SECOND
    with pytest.raises(BadApplication, match="wanted can't be nan"):
        app.measure({"wanted": float("nan")}, 2 * SECOND)
    assert (app.kept, app.now_us) == ({"wanted": 40.0}, SECOND)


def test_a_new_one_goes_on_from_the_state_of_another() -> None:
    """Nodes, their warmth, the clock and what is kept come back; other states are refused."""
    app = bakers("big/a", wanted=25)
    app.measure({"wanted": 40.0}, 45 * SECOND)
    other = bakers(wanted=25)
    other.resume(app.state())
    assert (other.nodes, other.now_us, other.kept) == (("big/a",), 45 * SECOND, {"wanted": 40.0})
    assert other.cold_start_s("big/a") == 15.0
    with pytest.raises(BadApplication, match="unknown field"):
        other.resume(b'{"now_us":0,"ready_us":{},"kept":{},"loaves":3}')


def test_what_is_told_twice_changes_nothing() -> None:
    """A node gained again stays as warm as it was; one that it has not cannot be lost."""
    app = bakers("big/a")
    app.gain("big/a", 50 * SECOND)
    assert app.cold_start_s("big/a") == 10.0
    app.lose("small/z", 50 * SECOND)
    assert app.nodes == ("big/a",)


def test_what_is_of_no_use_or_from_the_past() -> None:
    """A node of another kind is not taken notice of, and what is told late happens now."""
    app = bakers()
    app.advance(100 * SECOND)
    app.gain("tent/a", 100 * SECOND)
    app.gain("big/a", 40 * SECOND)
    assert (app.nodes, app.now_us) == (("big/a",), 100 * SECOND)
    assert app.cold_start_s("big/a") == 60.0
