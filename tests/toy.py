"""A toy application, small enough to be checked by hand: a crew of equal workers.

It needs a number of nodes, which may change with time; each warm node up to that number is worth
one unit of utility (times the speed of its kind). Work is checkpointed at fixed intervals.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from laissez.performance.application import US_PER_S, Worth


class Crew:
    def __init__(
        self,
        need: int = 1,
        *,
        speeds: Mapping[str, float] | None = None,
        needs: Mapping[int, int] | None = None,
        cold_start_s: float = 0.0,
        checkpoint_every_s: float | None = None,
        spare: float = 0.0,
        ends_us: int | None = None,
        vacate_s: float | None = 0.0,
    ) -> None:
        """`needs` says from which instant on how many are needed; `spare` what one more is worth
        in full; `vacate_s` how long it takes to get ready for the loss of a node."""
        self.speeds = dict(speeds or {"h100": 1.0})
        self.needs = dict(needs or {0: need})
        self.at_us = 0
        self.gained: dict[str, int] = {}
        self.lost: list[tuple[str, int]] = []
        self._cold_start_s = cold_start_s
        self._every_s = checkpoint_every_s
        self._spare = spare
        self._ends_us = ends_us
        self._vacate_s = vacate_s
        self.vacating: dict[str, int] = {}

    def advance(self, at_us: int) -> None:
        assert at_us >= self.at_us
        self.at_us = at_us

    def gain(self, resource: str, at_us: int) -> None:
        self.gained.setdefault(resource, at_us)

    def lose(self, resource: str, at_us: int) -> None:
        if self.gained.pop(resource, None) is not None:
            self.lost.append((resource, at_us))
        self.vacating.pop(resource, None)

    def vacate(self, resource: str, at_us: int) -> None:
        self.vacating.setdefault(resource, at_us)

    def stay(self, resource: str, at_us: int) -> None:
        self.vacating.pop(resource, None)

    def vacate_s(self, resource: str) -> float | None:
        if self._vacate_s is None or resource not in self.vacating:
            return self._vacate_s
        return max(0.0, self._vacate_s - (self.at_us - self.vacating[resource]) / US_PER_S)

    def measure(self, readings: Mapping[str, float], at_us: int) -> None:
        self.needs[at_us] = int(readings["need"])

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self.speeds)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.gained)

    @property
    def is_done(self) -> bool:
        return self._ends_us is not None and self.at_us >= self._ends_us

    @property
    def need(self) -> int:
        return self.needs[max(since for since in self.needs if since <= self.at_us)]

    def missing(self, kind: str) -> int:
        return max(0, self.need - len(self.gained))

    def utility_gap(self) -> float:
        return max(0.0, self.need - self._capacity(self.gained))

    def worth_of_gaining(self, scope: str, coming: Sequence[str] = ()) -> Worth:
        return self._worth([*self.gained, *coming], scope)

    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        left = [each for each in self.gained if each != resource and each not in gone]
        return self._worth(left, resource)

    def is_redundant(self, resource: str) -> bool:
        if self._spare:
            return False
        spare = len(self.gained) - self.need
        return spare > 0 and resource in list(self.gained)[-spare:]

    def cold_start_s(self, place: str) -> float:
        if place in self.gained:
            return max(0.0, self._cold_start_s - (self.at_us - self.gained[place]) / US_PER_S)
        return self._cold_start_s

    def at_stake(self, resource: str) -> float:
        return self.worth_of_losing(resource).now

    def ends_in_s(self, place: str) -> float | None:
        return None

    def since_checkpoint_s(self, resource: str) -> float:
        if self._every_s is None or resource not in self.gained:
            return 0.0
        return (self.at_us - self.gained[resource]) / US_PER_S % self._every_s

    def till_checkpoint_s(self, resource: str) -> float | None:
        return None if self._every_s is None else self._every_s - self.since_checkpoint_s(resource)

    def state(self) -> bytes:
        return msgspec.json.encode((self.at_us, self.gained))

    def resume(self, state: bytes) -> None:
        self.at_us, self.gained = msgspec.json.decode(state, type=tuple[int, dict[str, int]])

    def _capacity(self, nodes: Collection[str]) -> float:
        return sum(self.speeds.get(path.split("/")[0], 0.0) for path in nodes)

    def _worth(self, others: Collection[str], one: str) -> Worth:
        speed = self.speeds.get(one.split("/")[0], 0.0)
        gap = self.need - self._capacity(others)
        now = min(speed, max(0.0, gap))
        return Worth(now, max(now, self._spare * speed))
