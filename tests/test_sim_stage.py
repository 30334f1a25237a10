"""Tenants on a stage: when they step, when nodes reach them, and what happens on the way."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.adapters.econ import EconAdapter
from laissez.adapters.intent import TradingTerms
from laissez.simulation.kernel.stage import REACTION_US, Stage, Tenant
from laissez.simulation.kernel.streams import HANDOVER_US, Handovers
from toy import Crew

PERIOD_US = 1_000_000
NODE, OTHER = "h100/z0/g0", "h100/z0/g1"


class Watched(Crew):
    """A crew that writes down when it gains and loses nodes."""

    def __init__(self) -> None:
        super().__init__(need=9)
        self.told: list[tuple[str, str, int]] = []

    def gain(self, resource: str, at_us: int) -> None:
        assert at_us == self.at_us, "time passes before it is told"
        self.told.append(("gain", resource, at_us))
        super().gain(resource, at_us)

    def lose(self, resource: str, at_us: int) -> None:
        assert at_us == self.at_us, "time passes before it is told"
        assert resource in self.gained, "only what it has can be lost"
        self.told.append(("lose", resource, at_us))
        super().lose(resource, at_us)


class Watcher:
    """A witness that notes what the application had when it was called."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int, bool]] = []

    def loses(self, tenant: Tenant, resource: str, at_us: int) -> Callable[[], None]:
        self.seen.append(("loses", resource, at_us, resource in tenant.app.nodes))
        return lambda: self.seen.append(("lost", resource, at_us, resource in tenant.app.nodes))


class Theatre:
    """A stage that writes down who steps when, with what on its way."""

    def __init__(self, handover_us: Callable[[str], int], witness: Watcher | None = None) -> None:
        self.steps: list[tuple[str, int]] = []
        self.stage = Stage(self._step, handover_us=handover_us, witness=witness)

    def _step(self, tenant: Tenant, at_us: int) -> None:
        assert not tenant.arriving, "nobody steps while something is on its way to it"
        assert tenant.app.at_us == at_us, "time passes before it steps"
        self.steps.append((tenant.name, at_us))

    def join(self, name: str = "ada", begins_us: int = 0) -> tuple[Tenant, Watched]:
        app = Watched()
        tenant = Tenant(
            name, EconAdapter(TradingTerms("t", ("h100",), PERIOD_US), 1.0), app, begins_us
        )
        self.stage.join(tenant)
        return tenant, app

    def wins(self, tenant: Tenant, resource: str, at_us: int) -> None:
        """It will win a node at this instant."""
        self.stage.kernel.at(at_us, lambda now_us: self.stage.hand_over(tenant, resource, now_us))

    def loses(self, tenant: Tenant, resource: str, at_us: int) -> None:
        self.stage.kernel.at(at_us, lambda now_us: self.stage.take_away(tenant, resource, now_us))

    def steps_of(self, name: str = "ada") -> list[int]:
        return [at_us for who, at_us in self.steps if who == name]


def takes(*handovers_us: int) -> Callable[[str], int]:
    """Handovers that take so long, one after the other."""
    left = iter(handovers_us)
    return lambda tenant: next(left)


def test_steps_once_a_period_from_its_beginning_on() -> None:
    """A tenant steps at its own instant and then once a period, whoever else is there."""
    theatre = Theatre(takes())
    theatre.join("ada", 300_000)
    theatre.join("bob", 0)
    theatre.stage.run(2_300_000)
    assert theatre.steps_of("ada") == [300_000, 1_300_000, 2_300_000]
    assert theatre.steps_of("bob") == [0, 1_000_000, 2_000_000]


def test_a_node_arrives_after_its_handover_and_is_acted_on_after_the_reaction() -> None:
    """The application gains it when it arrives, not when it is won, and steps 20 ms later."""
    theatre = Theatre(takes(70_000))
    tenant, app = theatre.join()
    theatre.wins(tenant, NODE, 100_000)
    theatre.stage.run(169_999)
    assert (app.told, dict(tenant.arriving)) == ([], {NODE: 100_000})
    theatre.stage.run(500_000)
    assert app.told == [("gain", NODE, 170_000)]
    assert not tenant.arriving
    assert REACTION_US == 20_000
    assert theatre.steps_of() == [0, 190_000]


def test_a_step_is_skipped_while_a_node_is_on_its_way() -> None:
    """Its turn passes; it steps when the node is there, and its next turn is where it was."""
    theatre = Theatre(takes(50_000))
    tenant, _ = theatre.join()
    theatre.wins(tenant, NODE, 990_000)
    theatre.stage.run(2_000_000)
    assert theatre.steps_of() == [0, 1_060_000, 2_000_000]


def test_a_reaction_is_skipped_too_and_comes_after_the_last_arrival() -> None:
    """Of two nodes on their way, the first to arrive wakes nobody; the last does."""
    theatre = Theatre(takes(10_000, 100_000))
    tenant, app = theatre.join()
    theatre.wins(tenant, NODE, 200_000)
    theatre.wins(tenant, OTHER, 200_000)
    theatre.stage.run(900_000)
    assert app.told == [("gain", NODE, 210_000), ("gain", OTHER, 300_000)]
    assert theatre.steps_of() == [0, 320_000]


def test_a_node_lost_on_its_way_never_arrives() -> None:
    """The application hears of neither; the tenant steps 20 ms after the loss."""
    watcher = Watcher()
    theatre = Theatre(takes(80_000), watcher)
    tenant, app = theatre.join()
    theatre.wins(tenant, NODE, 200_000)
    theatre.loses(tenant, NODE, 230_000)
    theatre.stage.run(900_000)
    assert (app.told, watcher.seen) == ([], [])
    assert theatre.steps_of() == [0, 250_000]


def test_a_node_lost_on_its_way_and_won_again_arrives_by_its_second_handover() -> None:
    """Once, and neither earlier nor again when the first handover would have ended."""
    theatre = Theatre(takes(50_000, 100_000))
    tenant, app = theatre.join()
    theatre.wins(tenant, NODE, 200_000)
    theatre.loses(tenant, NODE, 220_000)
    theatre.wins(tenant, NODE, 230_000)
    theatre.stage.run(900_000)
    assert app.told == [("gain", NODE, 330_000)]
    assert theatre.steps_of() == [0, 350_000]


def test_a_node_that_is_there_is_lost_at_once() -> None:
    """No handover delays a loss; two losses at one instant are reacted to once."""
    theatre = Theatre(takes(10_000, 10_000))
    tenant, app = theatre.join()
    for node in (NODE, OTHER):
        theatre.wins(tenant, node, 0)
        theatre.loses(tenant, node, 500_000)
    theatre.stage.run(900_000)
    assert app.told[2:] == [("lose", NODE, 500_000), ("lose", OTHER, 500_000)]
    assert theatre.steps_of() == [0, 30_000, 520_000]


def test_a_witness_sees_before_and_after() -> None:
    """It is called before a tenant is told of a loss, and after that once more."""
    watcher = Watcher()
    theatre = Theatre(takes(10_000), watcher)
    tenant, _ = theatre.join()
    theatre.wins(tenant, NODE, 100_000)
    theatre.loses(tenant, NODE, 400_000)
    theatre.stage.run(900_000)
    assert watcher.seen == [
        ("loses", NODE, 400_000, True),
        ("lost", NODE, 400_000, False),
    ]


def test_who_has_left_steps_no_more() -> None:
    """Neither in its turn, nor in reaction, nor for a node on its way, which never arrives."""
    theatre = Theatre(takes(90_000, 10_000))
    tenant, app = theatre.join()
    theatre.join("bob")
    theatre.wins(tenant, OTHER, 700_000)
    theatre.wins(tenant, NODE, 770_000)
    theatre.stage.kernel.at(785_000, lambda _: theatre.stage.leave("ada"))
    theatre.stage.run(3_000_000)
    assert theatre.steps_of("ada") == [0]
    assert app.told == [("gain", NODE, 780_000)]
    assert len(theatre.steps_of("bob")) == 4


def test_a_new_tenant_of_an_old_name_steps_alone() -> None:
    """What was planned for the one that has left is not done by the one that came."""
    theatre = Theatre(takes())
    theatre.join("ada", 0)
    theatre.stage.run(1_500_000)
    theatre.stage.leave("ada")
    theatre.join("ada", 1_700_000)
    theatre.stage.run(3_000_000)
    assert theatre.steps_of() == [0, 1_000_000, 1_700_000, 2_700_000]


def test_nobody_leaves_twice() -> None:
    """To leave is for those who are there."""
    theatre = Theatre(takes())
    theatre.join()
    theatre.stage.leave("ada")
    with pytest.raises(KeyError):
        theatre.stage.leave("ada")


def test_at_once_needs_no_time() -> None:
    """A handover of no time arrives within the instant; the reaction still takes its own."""
    theatre = Theatre(lambda tenant: 0)
    tenant, app = theatre.join()
    theatre.wins(tenant, NODE, 5_000)
    theatre.stage.run(100_000)
    assert app.told == [("gain", NODE, 5_000)]
    assert theatre.steps_of() == [0, 25_000]


def test_at_the_end_of_a_run_time_has_passed_for_all() -> None:
    """Applications are as of the end of a run, also of those who have not begun."""
    theatre = Theatre(takes())
    _, early = theatre.join("ada", 0)
    _, late = theatre.join("bob", 9_000_000)
    theatre.stage.run(1_234_567)
    assert (early.at_us, late.at_us) == (1_234_567, 1_234_567)
    assert theatre.steps_of("bob") == []


@given(st.lists(st.integers(1, 60_000), max_size=30), st.integers(0, 9))
def test_what_is_won_and_lost_arrives_or_does_not(pauses_us: list[int], seed: int) -> None:
    """A node that is won and lost in turn arrives 10 to 100 ms after each win, if it is still the
    tenant's by then; and whatever happened last is reacted to."""
    theatre = Theatre(Handovers(seed))
    tenant, app = theatre.join()
    drawn = Handovers(seed)
    at_us, expected = 0, []
    instants = [at_us := at_us + pause_us for pause_us in pauses_us]
    for won_us, lost_us in zip(instants[::2], [*instants[1::2], None], strict=False):
        theatre.wins(tenant, NODE, won_us)
        handover_us = drawn("ada")
        assert HANDOVER_US[0] <= handover_us <= HANDOVER_US[1]
        if lost_us is not None:
            theatre.loses(tenant, NODE, lost_us)
        if lost_us is None or won_us + handover_us < lost_us:
            expected.append(("gain", NODE, won_us + handover_us))
            if lost_us is not None:
                expected.append(("lose", NODE, lost_us))
        elif won_us + handover_us == lost_us:
            return  # the order within an instant is not what this is about
    theatre.stage.run(10_000_000)
    assert app.told == expected
    assert not tenant.arriving
    changes_us = [change[2] for change in expected] + instants[1::2]
    if changes_us:
        last_us = max(changes_us)
        assert any(last_us < step_us <= last_us + REACTION_US for step_us in theatre.steps_of())


def test_a_node_won_back_in_the_instant_has_never_left() -> None:
    """Whoever wins what it has goes on with it: nothing is on its way, and no work stops."""
    theatre = Theatre(takes(10_000, 90_000))
    tenant, app = theatre.join()
    theatre.wins(tenant, NODE, 0)
    theatre.wins(tenant, NODE, 500_000)
    theatre.stage.run(500_000)
    assert not tenant.arriving
    assert app.nodes == (NODE,)
    assert not [each for each in app.told if each[0] == "lose"]
    theatre.stage.run(1_000_000)
    assert theatre.steps_of() == [0, 30_000, 520_000, 1_000_000]
