"""The case that the paper opens with: two tenants, three kinds of hardware, three contracts.

A runs on any of the three, B on two of them; there is one node of each. Both would have HW1, where
they are cheapest, and A comes first. What becomes of them is a matter of the contract:

- first come, first served: A stays on HW1 to its end, and B makes do with HW2;
- spot: B may preempt A, and does so at once, whatever A is doing;
- the market: A has HW3 started up, and leaves HW1 when its checkpoint is taken.

Run times and costs are the paper's, and list prices per hour follow from them. How long a start
takes and how often a checkpoint is taken it does not say; for jobs of a quarter of an hour both are
short.
"""

from collections.abc import Collection
from typing import NamedTuple

import pytest

from laissez.adapters.budget import Budget
from laissez.adapters.deadline import deadline_adapter
from laissez.adapters.intent import TradingTerms
from laissez.model import ChangeFloor, Filled, Lost, OfferResource
from laissez.performance.batch import BatchJob, Work
from laissez.simulation.kernel.world import Tenant, World

S = 1_000_000
HOUR = 3_600 * S

HOURS = {
    "A": {"hw1": 0.35, "hw2": 0.51, "hw3": 0.30},
    "B": {"hw1": 0.23, "hw2": 0.32},
}
DOLLARS = {
    "A": {"hw1": 0.21, "hw2": 0.25, "hw3": 0.24},
    "B": {"hw1": 0.14, "hw2": 0.15},
}
LIST_MICROS_PER_HOUR = {"hw1": 600_000, "hw2": 480_000, "hw3": 800_000}
NODES = {kind: f"{kind}/g0" for kind in LIST_MICROS_PER_HOUR}

COLD_START_S = 60
CHECKPOINT_EVERY_S = 300
ARRIVES_US = {"A": 0, "B": 460 * S}
"""When B comes, A has worked for 400 s and saved 300 s of it."""


def job_of(tenant: str, deadline_us: int = HOUR) -> BatchJob:
    """With an hour from its arrival, there is time enough on any hardware."""
    return BatchJob(
        Work.of_hours(HOURS[tenant]),
        deadline_us=ARRIVES_US[tenant] + deadline_us,
        start_us=ARRIVES_US[tenant],
        cold_start_s=COLD_START_S,
        checkpoint_every_s=CHECKPOINT_EVERY_S,
    )


def run_time_us(tenant: str, kind: str) -> int:
    return round(HOURS[tenant][kind] * HOUR)


def test_list_prices_give_the_papers_costs() -> None:
    """At its list price, each run costs what the paper says, to the cent or nearly."""
    for tenant, costs in DOLLARS.items():
        for kind, dollars in costs.items():
            cost = HOURS[tenant][kind] * LIST_MICROS_PER_HOUR[kind] / 1_000_000
            assert cost == pytest.approx(dollars, abs=0.006)


# --- today's contracts --------------------------------------------------------------------------


class Stay(NamedTuple):
    """A tenant had a kind of hardware, from one instant to another."""

    tenant: str
    kind: str
    from_us: int
    to_us: int


class Cloud:
    """Whoever comes takes the hardware that costs it least, of what is free or may be preempted,
    and has it until it is done. Who is preempted comes again."""

    def __init__(self, may_preempt: Collection[str] = ()) -> None:
        self.may_preempt = may_preempt
        self.jobs: dict[str, BatchJob] = {}
        self.holders: dict[str, tuple[str, int]] = {}
        self.stays: list[Stay] = []

    def run(self) -> None:
        arrivals = sorted(ARRIVES_US, key=lambda tenant: ARRIVES_US[tenant])
        for tenant in arrivals:
            self.pass_time(ARRIVES_US[tenant])
            self.jobs[tenant] = job_of(tenant)
            self.admit(tenant, ARRIVES_US[tenant])
        self.pass_time(max(job.deadline_us for job in self.jobs.values()))

    def pass_time(self, at_us: int) -> None:
        for tenant, job in self.jobs.items():
            job.advance(at_us)
            for node in job.nodes if job.done_us is not None else ():
                assert job.done_us is not None
                self.release(tenant, node, job.done_us)

    def admit(self, tenant: str, at_us: int) -> None:
        takes = [
            kind for kind in HOURS[tenant] if kind not in self.holders or tenant in self.may_preempt
        ]
        kind = min(takes, key=lambda kind: DOLLARS[tenant][kind])
        victim, _ = self.holders.get(kind, (None, 0))
        if victim is not None:
            self.release(victim, NODES[kind], at_us)
        self.holders[kind] = (tenant, at_us)
        self.jobs[tenant].gain(NODES[kind], at_us)
        if victim is not None:
            self.admit(victim, at_us)

    def release(self, tenant: str, node: str, at_us: int) -> None:
        kind = node.partition("/")[0]
        _, from_us = self.holders.pop(kind)
        self.stays.append(Stay(tenant, kind, from_us, at_us))
        job = self.jobs[tenant]
        job.lose(node, max(at_us, job.now_us))


def test_first_come_first_served_leaves_b_on_hw2() -> None:
    """A, first, has HW1 until it is done; B takes HW2 and ends 0.09 h later than HW1 would have
    let it."""
    cloud = Cloud()
    cloud.run()
    a_ends_us = COLD_START_S * S + run_time_us("A", "hw1")
    b_ends_us = ARRIVES_US["B"] + COLD_START_S * S + run_time_us("B", "hw2")
    assert cloud.stays[0] == Stay("A", "hw1", 0, a_ends_us)
    assert cloud.stays[1][:3] == ("B", "hw2", ARRIVES_US["B"])
    # Speeds are rounded to millionths.
    assert cloud.stays[1].to_us == pytest.approx(b_ends_us, rel=1e-6)
    assert len(cloud.stays) == 2
    lost_us = b_ends_us - ARRIVES_US["B"] - COLD_START_S * S - run_time_us("B", "hw1")
    assert lost_us == round(0.09 * HOUR)


def test_spot_preemption_interrupts_a_between_checkpoints() -> None:
    """B takes HW1 from A in the middle of things: the 100 s since A's checkpoint are lost, A pays
    for a second start on HW3, and ends later than undisturbed, faster hardware or not."""
    cloud = Cloud(may_preempt={"B"})
    interrupted = job_of("A")
    interrupted.gain(NODES["hw1"], 0)
    interrupted.advance(ARRIVES_US["B"])
    assert interrupted.since_checkpoint_s(NODES["hw1"]) == 100
    assert interrupted.till_checkpoint_s(NODES["hw1"]) == 200

    cloud.run()
    preempted, b_on_hw1, a_on_hw3 = sorted(cloud.stays, key=lambda stay: (stay.from_us, stay.kind))
    assert preempted == ("A", "hw1", 0, ARRIVES_US["B"])
    assert b_on_hw1 == ("B", "hw1", ARRIVES_US["B"], (460 + 60 + 828) * S)
    assert a_on_hw3[:3] == ("A", "hw3", ARRIVES_US["B"])
    # Of 1260 s on HW1, 300 s are saved; the rest takes 0.30/0.35 of its time on HW3.
    a_ends_us = (460 + 60) * S + round(960 * S * 0.30 / 0.35)
    assert a_on_hw3.to_us == pytest.approx(a_ends_us, rel=1e-6)
    assert a_on_hw3.to_us > COLD_START_S * S + run_time_us("A", "hw1")


def test_a_hand_over_at_the_checkpoint_would_cost_a_nothing() -> None:
    """What the market makes possible, with no market in it: A starts HW3 up when B comes, moves at
    its checkpoint, and ends earlier than under either contract; B has HW1 from then on, and ends
    earlier than first come, first served lets it."""
    moved = job_of("A")
    moved.gain(NODES["hw1"], 0)
    moved.gain(NODES["hw3"], ARRIVES_US["B"])
    assert moved.works_from_us(NODES["hw3"]) == 660 * S
    moved.advance(660 * S)
    assert moved.is_redundant(NODES["hw1"])
    moved.lose(NODES["hw1"], 660 * S)
    assert moved.work_left_us("hw1") == 660 * S
    b = job_of("B")
    b.gain(NODES["hw1"], 660 * S)
    for job in (moved, b):
        job.advance(job.deadline_us)

    ends = {}
    for contract, may_preempt in (("fcfs", ()), ("spot", ("B",))):
        cloud = Cloud(may_preempt)
        cloud.run()
        ends[contract] = {tenant: job.done_us or HOUR for tenant, job in cloud.jobs.items()}
    assert moved.done_us is not None
    assert b.done_us is not None
    assert moved.done_us < ends["fcfs"]["A"] < ends["spot"]["A"]
    assert ends["spot"]["B"] < b.done_us < ends["fcfs"]["B"]


# --- the market ---------------------------------------------------------------------------------


def test_the_market_moves_a_right_after_its_checkpoint() -> None:
    """B is in a hurry: on HW2 it would be late. So it bids for HW1, and begins on HW2 meanwhile.

    A's limit is above B's bid, and A is not interrupted; but its rate has risen to the bid, and
    the rest of its work costs less on HW3 now. It has HW3 started, goes on meanwhile, and leaves
    HW1 with its checkpoint in second 660. B has HW1 from then on, at its list price, and leaves HW2
    once HW1 has taken over. A ends when the hand-over without a market let it, and B even earlier.
    """
    world = World()
    for kind, micros_per_hour in LIST_MICROS_PER_HOUR.items():
        world.operate(ChangeFloor(kind, micros_per_hour), 0)
        world.operate(OfferResource(NODES[kind]), 0)
    jobs = {"A": job_of("A", round(0.65 * HOUR)), "B": job_of("B", 1190 * S)}
    for tenant, dollars in (("A", 1.50), ("B", 0.42)):
        budget = Budget(round(dollars * 1_000_000))
        terms = TradingTerms("job", tuple(HOURS[tenant]), 10 * S, budget)
        adapter = deadline_adapter(
            jobs[tenant],
            terms,
            micros_per_unit=3_000_000.0,
            checkpoint_every_us=CHECKPOINT_EVERY_S * S,
            released_us=ARRIVES_US[tenant],
        )
        world.join(Tenant(tenant, adapter, jobs[tenant], ARRIVES_US[tenant]))
    world.run(HOUR)

    moves = [
        (said.who, type(said.what).__name__, said.what.resource, said.at_us // S)
        for said in world.log
        if isinstance(said.what, Filled | Lost)
    ]
    assert moves == [
        ("A", "Filled", "hw1/g0", 0),
        ("B", "Filled", "hw2/g0", 460),
        ("A", "Filled", "hw3/g0", 460),
        ("A", "Lost", "hw1/g0", 660),
        ("B", "Filled", "hw1/g0", 660),
        ("B", "Lost", "hw2/g0", 820),
        ("A", "Lost", "hw3/g0", 1230),
        ("B", "Lost", "hw1/g0", 1440),
    ]
    ends = {tenant: (job.done_us or HOUR) // S for tenant, job in jobs.items()}
    assert ends == {"A": 1225, "B": 1432}
    assert all(job.done_us <= job.deadline_us for job in jobs.values() if job.done_us)
