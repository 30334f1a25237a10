"""The clairvoyant: what no contract can exceed, whoever runs it and whatever it foresees.

It knows the whole future and what every node is worth to everybody, and gives nodes to whom it
likes, in parts and for moments, so that the mean retention is greatest, or, with weights, whatever
they make of it. That is a linear programme, and where it differs from the simulated world it is
kinder, never harsher: budgets don't matter; moves, checkpoints and cold starts cost nothing but the
first one of a project; places are as near to each other as the cluster has any.

**Pieces and ways.** Time is cut into slots. What a project can do in a slot are pieces of work,
each to be done in one of several ways or in a mixture of them. A way says what the whole piece
brings, and how many node-seconds of which kinds it takes.

- Inference: a piece is the requests of one step of the trace. A request is prefilled on one kind
  and decoded on one kind. To prefill on kind b what kind a decodes, where a is comparatively better
  at prefill, is never better than each doing both. So these ways are left out, and a mixture of the
  others does what `laissez.performance.inference.capacity` does. No more than that is in time
  (`delivery`).
- Training: pieces are the straight parts of the least concave curve above throughput by number of
  nodes, for each kind. Of nodes that come and go their mean brings no less. Two kinds together are
  never faster than the sum of both (`laissez.performance.training.worth`).
- Batch: one node at a time. The piece is that node's time, and there is a way for each kind.
- A rigid job: the same, of all its nodes at a time, though here they need not lie together, and a
  part of them does that part of the work.

What all pieces of a slot take of a kind is no more than there are nodes of it, for so long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from laissez.model.paths import tree_of
from laissez.performance.application import US_PER_S
from laissez.performance.batch import Work
from laissez.performance.inference import Load, LoadTrace, profile
from laissez.performance.inference.capacity import NodeRates, node_rates
from laissez.performance.training import Distance, Setup
from laissez.performance.training.options import options
from laissez.performance.training.search import fastest
from laissez.simulation.contracts.setting import Setting
from laissez.simulation.demand.projects import Project, Rigid, Serving, Training

if TYPE_CHECKING:
    from highspy import HighsLp

ROUNDING = 1e-6
"""A retention that the solver gives may be too small by so much."""


class Bound(msgspec.Struct, frozen=True):
    """The greatest mean retention, weighted if there are weights; by project, one way to have it,
    and the plain mean of that."""

    retention: Mapping[str, float]
    mean: float


class Way(NamedTuple):
    """What a whole piece of work brings, in the unit of performance, and what it takes."""

    units: float
    node_s: Mapping[str, float]


Piece = Sequence[Way]
Pieces = Callable[[int, int], Iterator[Piece]]
"""What can be done between two instants of one slot."""


def bound(
    setting: Setting,
    alone: Mapping[str, float],
    *,
    weights: Mapping[str, float] | None = None,
    slot_us: int = 60_000_000,
    is_integer: bool = False,
) -> Bound:
    """`alone` is what each project does with the whole cluster to itself, `weights` how much its
    retention counts, all the same if there are none. With `is_integer` a project has whole nodes in
    each slot: no bound any more, and slow."""
    programme = _Programme(Counter(map(tree_of, setting.resources)), is_integer=is_integer)
    for project in setting.projects:
        if not alone[project.name]:
            continue
        pieces, start_s = _work_of(project, setting)
        at_us = project.arrives_us + round(start_s * US_PER_S)
        weight = 1.0 if weights is None else weights[project.name]
        programme.begin(project.name, alone[project.name], weight)
        while at_us < min(project.ends_us, setting.horizon_us):
            slot = at_us // slot_us
            slot_end_us = min((slot + 1) * slot_us, setting.horizon_us)
            until_us = min(slot_end_us, project.ends_us)
            slot_s = (slot_end_us - slot * slot_us) / US_PER_S
            span_s = (until_us - at_us) / US_PER_S
            programme.add(slot, slot_s, span_s, pieces(at_us, until_us))
            at_us = until_us
    reached = programme.solve()
    # Whoever does nothing alone keeps all of it, as under every contract.
    retention = {project.name: reached.get(project.name, 1.0) for project in setting.projects}
    mean = sum(retention.values()) / len(retention) if retention else 1.0
    return Bound(retention, mean)


def _work_of(project: Project, setting: Setting) -> tuple[Pieces, float]:
    """What it can do, and how many seconds after its arrival at the earliest."""
    labour = project.labour
    kinds = tuple(dict.fromkeys(map(tree_of, setting.resources)))
    if isinstance(labour, Serving):
        return _requests(labour, kinds), labour.spec.cold_start_s
    if isinstance(labour, Training):
        return _samples(labour, setting.resources), labour.spec.reconfigure_s
    if isinstance(labour, Rigid):
        return _crew(labour.spec.work, kinds, labour.spec.count), labour.spec.cold_start_s
    return _crew(Work(labour.hours, labour.speeds), kinds, 1), labour.cold_start_s


# Inference ------------------------------------------------------------------------------------


def _requests(labour: Serving, kinds: tuple[str, ...]) -> Pieces:
    spec = labour.spec
    profiles = {
        kind: profile(spec.model, at.gpu, at.gpus)
        for kind, at in spec.kinds.items()
        if kind in kinds
    }

    @lru_cache
    def ways(load: Load) -> list[Way]:
        """Of one request."""
        return serving_ways(
            {kind: node_rates(each, load, spec.objective) for kind, each in profiles.items()}
        )

    def pieces(from_us: int, to_us: int) -> Iterator[Piece]:
        for load, span_us in _loads(labour.trace, from_us, to_us):
            count = load.requests_per_s * span_us / US_PER_S
            if count:
                yield [
                    Way(count, {kind: count * each for kind, each in way.node_s.items()})
                    for way in ways(load)
                ]

    return pieces


def _loads(trace: LoadTrace, from_us: int, to_us: int) -> Iterator[tuple[Load, int]]:
    """What is asked between two instants, and for how long each."""
    if trace.end_us is not None:
        to_us = min(to_us, trace.end_us)
    number = max(0, trace.number_at(from_us))
    while number < len(trace.steps) and trace.steps[number][0] < to_us:
        is_last = number + 1 == len(trace.steps)
        until_us = to_us if is_last else min(to_us, trace.steps[number + 1][0])
        yield Load(*trace.steps[number][1:]), until_us - max(from_us, trace.steps[number][0])
        number += 1


def serving_ways(rates: Mapping[str, NodeRates]) -> list[Way]:
    """Who prefills a request, and who decodes it."""
    by_advantage = sorted(
        (kind for kind, rate in rates.items() if rate.prefills_per_s + rate.decodes_per_s),
        key=lambda kind: (
            -rates[kind].prefills_per_s / (rates[kind].prefills_per_s + rates[kind].decodes_per_s)
        ),
    )
    ways = []
    for place, prefilling in enumerate(by_advantage):
        for decoding in by_advantage[place:]:
            prefills_per_s = rates[prefilling].prefills_per_s
            decodes_per_s = rates[decoding].decodes_per_s
            if prefills_per_s and decodes_per_s:
                node_s = {prefilling: 1 / prefills_per_s}
                node_s[decoding] = node_s.get(decoding, 0.0) + 1 / decodes_per_s
                ways.append(Way(1.0, node_s))
    return ways


# Training -------------------------------------------------------------------------------------


def _samples(labour: Training, resources: tuple[str, ...]) -> Pieces:
    setup = labour.spec.setup
    curves = {
        kind: training_curve(setup, kind, sizes)
        for kind, sizes in _sizes(resources, setup).items()
        if kind in setup.kinds
    }

    def pieces(from_us: int, to_us: int) -> Iterator[Piece]:
        span_s = (to_us - from_us) / US_PER_S
        for kind, curve in curves.items():
            for (fewer, slower), (more, faster) in pairwise(curve):
                units = (faster - slower) * span_s / labour.spec.samples
                if units > 0:
                    yield [Way(units, {kind: (more - fewer) * span_s})]

    return pieces


class Sizes(NamedTuple):
    """How many nodes of a kind there are in the largest domain, in the largest rack, in all."""

    domain: int
    rack: int
    total: int


def _sizes(resources: tuple[str, ...], setup: Setup) -> dict[str, Sizes]:
    found: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for resource in resources:
        spot = setup.spot(resource)
        domains, racks = found.setdefault(spot.kind, (Counter(), Counter()))
        domains[spot.domain or resource] += 1
        racks[spot.rack or resource] += 1
    return {
        kind: Sizes(max(domains.values()), max(racks.values()), racks.total())
        for kind, (domains, racks) in found.items()
    }


@lru_cache
def training_curve(setup: Setup, kind: str, sizes: Sizes) -> list[tuple[int, float]]:
    """The least concave curve above the samples per second with so many nodes: its corners.

    However many nodes a job wants, it uses those that it has; so all of the cluster count.
    """
    corners: list[tuple[int, float]] = []
    for nodes in range(sizes.total + 1):
        point = (nodes, samples_per_s(setup, kind, sizes, nodes))
        while len(corners) > 1 and _slope(corners[-2], point) >= _slope(*corners[-2:]):
            corners.pop()
        corners.append(point)
    return corners


def _slope(left: tuple[int, float], right: tuple[int, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def samples_per_s(setup: Setup, kind: str, sizes: Sizes, nodes: int) -> float:
    """At most, with so many nodes of a kind, wherever they are.

    Replicas in one domain, in one rack or anywhere exchange gradients at the rate of that distance,
    and a lone one lies in a rack. As many of the nodes as such a place can hold take part, and
    there they are supposed to be one domain, where the most replicas fit.
    """
    nodes_max = {
        None: sizes.rack,
        Distance.DOMAIN: sizes.domain,
        Distance.RACK: sizes.rack,
        Distance.FAR: sizes.total,
    }
    best = 0.0
    for span, most in nodes_max.items():
        count = min(nodes, most)
        found = fastest(options(setup, span, ((kind, ((count,),)),)), setup.batch)
        best = max(best, setup.batch / found.iteration_s) if found else best
    return best


# Batch and rigid jobs -------------------------------------------------------------------------


def _crew(work: Work, kinds: tuple[str, ...], count: int) -> Pieces:
    """So many nodes at a time."""
    speeds_ppm = {kind: ppm for kind, ppm in work.speeds_ppm.items() if kind in kinds}

    def pieces(from_us: int, to_us: int) -> Iterator[Piece]:
        span_us = to_us - from_us
        yield [
            Way(ppm * span_us / work.units, {kind: count * span_us / US_PER_S})
            for kind, ppm in speeds_ppm.items()
        ]

    return pieces


# The linear programme -------------------------------------------------------------------------


class _Programme:
    """Columns are the shares of ways, from 0 to 1; each row is a sum with an upper limit.

    Where a project lives for a part of a slot only, its nodes are a column, too, and its ways take
    of these: it can't have more nodes in that part than there are. With `is_integer` it is so in
    all slots. Elsewhere the programme is solved several times faster without.
    """

    def __init__(self, totals: Mapping[str, int], *, is_integer: bool) -> None:
        self._totals = totals
        self._is_integer = is_integer
        self._gains: list[float] = []
        self._tops: list[int] = []
        self._is_whole: list[bool] = []
        self._limits: list[float] = []
        self._entries: list[tuple[int, int, float]] = []
        self._capacities: dict[tuple[int, str], int] = {}
        self._projects: dict[str, int] = {}
        self._alone = 1.0
        self._weight = 1.0

    def begin(self, project: str, alone: float, weight: float) -> None:
        """What is added from now on is this project's; more than it does alone does not count."""
        self._alone = alone
        self._weight = weight
        self._projects[project] = self._row(1.0)

    def add(self, slot: int, slot_s: float, span_s: float, pieces: Iterator[Piece]) -> None:
        """What the project can do in its part of a slot."""
        project = self._row_of_project
        takes: dict[str, int] = {}
        for piece in pieces:
            whole = self._row(1.0)
            for way in piece:
                gain = way.units / self._alone
                column = self._column(gain * self._weight, 1)
                self._entries += [(project, column, gain), (whole, column, 1.0)]
                for kind, node_s in way.node_s.items():
                    if kind not in takes:
                        takes[kind] = self._row_of_nodes(slot, kind, span_s / slot_s)
                    self._entries.append((takes[kind], column, node_s / slot_s))

    @property
    def _row_of_project(self) -> int:
        return next(reversed(self._projects.values()))

    def _row_of_nodes(self, slot: int, kind: str, part: float) -> int:
        """The row that sums up what the project's ways take of a kind."""
        total = self._totals[kind]
        if (slot, kind) not in self._capacities:
            self._capacities[slot, kind] = self._row(total)
        capacity = self._capacities[slot, kind]
        if part == 1.0 and not self._is_integer:
            return capacity
        nodes, row = self._column(0.0, total, is_whole=True), self._row(0.0)
        self._entries += [(capacity, nodes, part), (row, nodes, -part)]
        return row

    def _row(self, limit: float) -> int:
        self._limits.append(limit)
        return len(self._limits) - 1

    def _column(self, gain: float, top: int, *, is_whole: bool = False) -> int:
        self._gains.append(gain)
        self._tops.append(top)
        self._is_whole.append(is_whole)
        return len(self._gains) - 1

    def solve(self) -> dict[str, float]:
        """Retention by project where the weighted sum is greatest."""
        import highspy  # noqa: PLC0415

        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.silent()
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.passModel(self._model())
        solver.run()
        status = solver.getModelStatus()
        if self._gains and status != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(f"the solver ends without an optimum: {status}")
        reached = solver.getSolution().row_value
        return {
            name: min(self._limits[row], max(0.0, reached[row]) + ROUNDING)
            for name, row in self._projects.items()
        }

    def _model(self) -> HighsLp:
        import highspy  # noqa: PLC0415
        import numpy as np  # noqa: PLC0415

        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self._gains), len(self._limits)
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = np.array(self._gains)
        model.col_lower_ = np.zeros(len(self._gains))
        model.col_upper_ = np.array(self._tops, dtype=float)
        model.row_lower_ = np.full(len(self._limits), -highspy.kHighsInf)
        model.row_upper_ = np.array(self._limits)
        entries = sorted(self._entries)
        rows = [row for row, _, _ in entries]
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.searchsorted(rows, np.arange(len(self._limits) + 1))
        model.a_matrix_.index_ = np.array([column for _, column, _ in entries])
        model.a_matrix_.value_ = np.array([value for _, _, value in entries])
        if self._is_integer:
            types = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            model.integrality_ = [types[is_whole] for is_whole in self._is_whole]
        return model
