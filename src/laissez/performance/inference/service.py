"""An LLM inference service: the application that a contract drives.

Its utility is requests per second within their objective. The autoscaler wants so much capacity
that nodes are busy for a given share of their time at the rate that it prepares for (`demand.py`).
If that rate came all the time, nodes would serve as much of it as they have of that capacity:
linear in requests, and that is their worth in full. But rates change. `now` is what nodes would
have served on average at the rates of the last while: the first nodes are always busy, and one that
only the highest rate needs is worth little. To follow the forecast alone would be worse: a burst is
over when a node that was bought for it is warm. A node that is still cold counts as if it were
warm; only what is delivered meanwhile is without it.

A node is redundant if the service does without it and still has what it needs with a margin on
top, so that a small rise does not buy back what was just given up. Cold nodes go first, then those
that serve least alone; among equals the youngest. A cold node goes if the others suffice once they
are warm, a warm one only if warm ones do.

A node that will be lost is drained: it takes no more requests, so it is reckoned with no longer,
and another one in its place is worth having at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from laissez.model.paths import tree_of
from laissez.performance.application import NO_WORTH, US_PER_S, WithoutCheckpoints, Worth
from laissez.performance.inference.capacity import ROUNDING, Pool, node_rates
from laissez.performance.inference.delivery import Quality, RequestTally, quality
from laissez.performance.inference.demand import NEVER_US, RATE, READ, Demand, LoadMemory
from laissez.performance.inference.load import Load, LoadTrace
from laissez.performance.inference.problem import InferenceProblem
from laissez.performance.inference.profile import profile
from laissez.performance.inference.spec import InferenceSpec


class ServiceMemory(msgspec.Struct, forbid_unknown_fields=True):
    """All that a service remembers."""

    now_us: int | None
    """None until it is told of an instant."""
    warm_from_us: dict[str, int]
    """Its nodes, in the order in which they were gained."""
    tally: RequestTally
    seen: LoadMemory
    drained_us: dict[str, int] = {}
    """The nodes that take no more requests, and since when."""


class InferenceService(WithoutCheckpoints):
    """An `Application`; see there what each method means. The few requests that are cut off with a
    node are asked again elsewhere, so nothing of it has to be saved."""

    def __init__(self, spec: InferenceSpec, load: LoadTrace | None = None) -> None:
        self.spec = spec
        self._demand = Demand(
            load,
            expected=spec.expected,
            interval_us=round(spec.interval_s * US_PER_S),
            keep_us=round(spec.keep_s * US_PER_S),
            is_constant=spec.predictor == "constant",
        )
        self._profiles = [profile(spec.model, at.gpu, at.gpus) for at in spec.kinds.values()]
        self._numbers = {kind: number for number, kind in enumerate(spec.kinds)}
        usual = self._pool(spec.expected).rates
        self._kinds = tuple(
            sorted(spec.kinds, key=lambda kind: -usual[self._numbers[kind]].requests_per_s)
        )
        self._now_us: int | None = None
        self._warm_from_us: dict[str, int] = {}
        self._drained_us: dict[str, int] = {}
        self._tally = RequestTally()
        # What follows from all this, kept until that changes.
        self._present: Pool | None = None
        self._quality: Quality | None = None
        self._redundant: frozenset[str] | None = None
        self._missing: dict[str, int] = {}
        self._foresee()

    # What happens to it -----------------------------------------------------------------------

    def advance(self, at_us: int) -> None:
        if self._now_us is None:
            self._begin(at_us)
        now_us = self._present_us
        while now_us < at_us:
            until_us = min(at_us, self._changes_us)
            self._deliver(until_us - now_us)
            self._now_us = now_us = until_us
            if until_us >= self._changes_us:
                self._turn()

    def gain(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        if tree_of(resource) in self._numbers and resource not in self._warm_from_us:
            cold_us = round(self.spec.cold_start_s * US_PER_S)
            self._warm_from_us[resource] = self._present_us + cold_us
            self._recount()

    def lose(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        if self._warm_from_us.pop(resource, None) is not None:
            self._drained_us.pop(resource, None)
            self._recount()

    def vacate(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        if resource in self._warm_from_us and resource not in self._drained_us:
            self._drained_us[resource] = self._present_us
            self._recount()

    def stay(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        if self._drained_us.pop(resource, None) is not None:
            self._recount()

    def measure(self, readings: Mapping[str, float], at_us: int) -> None:
        """The means since the last reading: `requests_per_s`, and where there were requests
        `prompt_tokens` and `output_tokens`. What is not given stays as it was."""
        load = self._demand.told_by(readings) if READ & readings.keys() else None
        self.advance(at_us)
        if load is not None:
            self._demand.measure(load, self._present_us, has_rate=RATE in readings)
            self._foresee()

    # The hooks --------------------------------------------------------------------------------

    @property
    def kinds(self) -> tuple[str, ...]:
        """By what a single node serves of the expected load."""
        return self._kinds

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self._warm_from_us)

    @property
    def is_done(self) -> bool:
        return self._now_us is not None and self._demand.is_over(self._now_us)

    def missing(self, kind: str) -> int:
        known = self._missing.get(kind)
        if known is None:
            number = self._numbers.get(kind)
            known = (
                0 if number is None else self._ahead.missing(self._held, number, self._needed_per_s)
            )
            self._missing[kind] = known
        return known

    def utility_gap(self) -> float:
        return max(0.0, self._rate_per_s - self._utility(self._held))

    def worth_of_gaining(self, scope: str, coming: Sequence[str] = ()) -> Worth:
        """All places in a tree are alike: replicas hardly talk to each other."""
        number = self._numbers.get(tree_of(scope))
        if number is None:
            return NO_WORTH
        counts = list(self._held)
        for other in coming:
            coming_number = self._numbers.get(tree_of(other))
            if coming_number is not None:
                counts[coming_number] += 1
        counts[number] += 1
        return self._worth_of_one(tuple(counts), number)

    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        kind_of = self._kind_of
        if resource not in kind_of or resource in gone:
            return NO_WORTH
        counts = list(self._held)
        for other in gone:
            if other in kind_of:
                counts[kind_of[other]] -= 1
        return self._worth_of_one(tuple(counts), kind_of[resource])

    def is_redundant(self, resource: str) -> bool:
        if self._redundant is None:
            self._redundant = frozenset(self._find_redundant())
        return resource in self._redundant

    def cold_start_s(self, place: str) -> float:
        warm_from_us = self._warm_from_us.get(place)
        if warm_from_us is None:
            return self.spec.cold_start_s
        return max(0, warm_from_us - self._present_us) / US_PER_S

    @property
    def vacating(self) -> Collection[str]:
        return self._drained_us.keys()

    def vacate_s(self, resource: str) -> float | None:
        """One that is cold has no requests yet."""
        since_us = self._drained_us.get(resource, self._present_us)
        if resource not in self._warm_from_us or self._warm_from_us[resource] > since_us:
            return 0.0
        return max(0.0, self.spec.drain_s - (self._present_us - since_us) / US_PER_S)

    # Beyond the interface ---------------------------------------------------------------------

    @property
    def tally(self) -> RequestTally:
        """What became of the requests so far; an SLA is about its attainment."""
        return self._tally

    @property
    def forecast(self) -> Load:
        """The load of the next interval."""
        return self._demand.forecast()

    def goodput_per_s(self) -> float:
        """Requests per second within their objective at the forecast rate, once all is warm."""
        return self._utility(self._held)

    def quality(self) -> Quality:
        """How requests fare at present, with the nodes that are warm."""
        if self._quality is None:
            load = self._demand.present()
            if self._present is None:
                self._present = self._pool(load)
            self._quality = quality(self._present, self._warm, load, self.spec.objective)
        return self._quality

    # Its memory -------------------------------------------------------------------------------

    def state(self) -> bytes:
        memory = ServiceMemory(
            self._now_us, self._warm_from_us, self._tally, self._demand.seen, self._drained_us
        )
        return msgspec.json.encode(memory)

    def resume(self, state: bytes) -> None:
        try:
            memory = msgspec.json.decode(state, type=ServiceMemory)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InferenceProblem(f"this is no state of an inference service ({error})") from None
        for node in memory.warm_from_us:
            if tree_of(node) not in self._numbers:
                raise InferenceProblem(
                    f"this state is of a service with {node}; this one knows "
                    f"{', '.join(self._numbers)} only"
                )
        self._now_us = memory.now_us
        self._warm_from_us = memory.warm_from_us
        self._drained_us = memory.drained_us
        self._tally = memory.tally
        self._demand.seen = memory.seen
        self._foresee()

    # How time passes --------------------------------------------------------------------------

    @property
    def _present_us(self) -> int:
        return self._now_us or 0

    def _begin(self, at_us: int) -> None:
        """Its life begins with its trace, or when it is first told anything."""
        starts_us = self._demand.starts_us
        self._now_us = at_us if starts_us is None else min(at_us, starts_us)
        self._turn()

    def _deliver(self, span_us: int) -> None:
        load = self._demand.seen.now
        arrivals_per_s = load.requests_per_s if load else 0.0
        self._tally.add(self.quality(), arrivals_per_s, span_us, self.spec.patience_s)
        self._demand.count(span_us)

    def _turn(self) -> None:
        """Something changes by itself: the load, an interval ends, a node has become warm."""
        before = self._demand.seen.now
        if self._demand.turn(self._present_us):
            self._foresee()
            return
        if self._demand.seen.now is not before:
            self._present = None
        self._recount()

    # What follows from what it remembers ------------------------------------------------------

    def _pool(self, load: Load) -> Pool:
        return Pool([node_rates(at, load, self.spec.objective) for at in self._profiles])

    def _foresee(self) -> None:
        """The forecast has changed."""
        ahead = self._demand.to_prepare_for()
        self._ahead = self._pool(ahead)
        self._rate_per_s = 0.0 if self.is_done else ahead.requests_per_s
        self._needed_per_s = self._rate_per_s / self.spec.utilisation
        self._rates_per_s = [0.0] if self.is_done else self._demand.recent_rates()
        self._worths: dict[tuple[tuple[int, ...], int], Worth] = {}
        self._present = None
        self._recount()

    def _recount(self) -> None:
        """The nodes have changed, or become warm, or are wanted for something else."""
        now_us = self._present_us
        held, warm = [0] * len(self._numbers), [0] * len(self._numbers)
        next_warm_us = NEVER_US
        at_work = {at: us for at, us in self._warm_from_us.items() if at not in self._drained_us}
        self._kind_of = {at: self._numbers[tree_of(at)] for at in at_work}
        for resource, warm_from_us in at_work.items():
            number = self._kind_of[resource]
            held[number] += 1
            if warm_from_us <= now_us:
                warm[number] += 1
            else:
                next_warm_us = min(next_warm_us, warm_from_us)
        self._held, self._warm = tuple(held), tuple(warm)
        self._changes_us = min(next_warm_us, self._demand.changes_us(now_us))
        self._missing = {}
        self._redundant = None
        self._quality = None

    def _utility(self, counts: tuple[int, ...]) -> float:
        return min(self._rate_per_s, self._ahead.capacity_per_s(counts) * self.spec.utilisation)

    def _expected_utility(self, counts: tuple[int, ...]) -> float:
        capacity = self._ahead.capacity_per_s(counts) * self.spec.utilisation
        served = [min(rate, capacity) for rate in self._rates_per_s]
        return sum(served) / len(served)

    def _worth_of_one(self, counts: tuple[int, ...], number: int) -> Worth:
        """What one of the nodes of a kind is worth among so many."""
        known = self._worths.get((counts, number))
        if known is None:
            without = (*counts[:number], counts[number] - 1, *counts[number + 1 :])
            full = max(0.0, self._utility(counts) - self._utility(without))
            now = self._expected_utility(counts) - self._expected_utility(without)
            known = self._worths[counts, number] = Worth(min(full, max(0.0, now)), full)
        return known

    def _find_redundant(self) -> Iterator[str]:
        now_us = self._present_us
        kept_per_s = self._needed_per_s * self.spec.margin
        left, warm_left = list(self._held), list(self._warm)
        for resource in self._by_worth():
            number = self._kind_of[resource]
            is_warm = self._warm_from_us[resource] <= now_us
            if self._spares(left, number, kept_per_s) and (
                not is_warm or self._spares(warm_left, number, kept_per_s)
            ):
                left[number] -= 1
                warm_left[number] -= is_warm
                yield resource

    def _spares(self, counts: list[int], number: int, kept_per_s: float) -> bool:
        """Whether one node less leaves what is to be kept, or all that there is."""
        before = tuple(counts)
        after = (*before[:number], before[number] - 1, *before[number + 1 :])
        enough = min(kept_per_s, self._ahead.capacity_per_s(before)) * (1 - ROUNDING)
        return self._ahead.capacity_per_s(after) >= enough

    def _by_worth(self) -> list[str]:
        """Whom it would miss least first: cold ones, then those that serve least alone."""

        def rank(resource: str) -> tuple[float, float]:
            number = self._kind_of[resource]
            return -self.cold_start_s(resource), self._ahead.rates[number].requests_per_s

        youngest_first = list(reversed(self._kind_of))
        return sorted(youngest_first, key=rank)
