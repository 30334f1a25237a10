"""An application that is described by what a set of nodes does: the rest is worked out from that.

`utility` says what nodes would do together once all are warm, in the application's own unit an
hour, and `needed` how much of that is wanted now. What a node is worth is then a difference of two
utilities: all of it in full, and now as far as it is needed, with the margin of every deadline
(`pace`). A node without which nothing is less is redundant.

What it has to remember are numbers in `kept`: they go into its state, and a reading of the same
name replaces one. `work` changes them as time passes. There are no checkpoints: where a lost node
takes work with it, say so in `since_checkpoint_s` and take it off in `lose`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from math import inf, isfinite

import msgspec

from laissez.model.paths import tree_of
from laissez.performance.application import (
    NO_WORTH,
    US_PER_S,
    BadApplication,
    WithoutCheckpoints,
    Worth,
)
from laissez.performance.pace import useful_pace

US_PER_HOUR = 3_600 * US_PER_S
NODES_MAX = 64
"""More than so many are never asked for at once."""


class _State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    now_us: int | None
    ready_us: dict[str, int]
    kept: dict[str, float]


class SimpleApplication(WithoutCheckpoints):
    """An `Application`; see there what each method means. `kinds` are the trees that it can use,
    best first, and `kept` is what it remembers, by name."""

    def __init__(self, kinds: Sequence[str], *, cold_start_s: float = 60.0, **kept: float) -> None:
        self.kinds = tuple(kinds)
        self.kept = kept
        self._cold_start_s = cold_start_s
        self._now_us: int | None = None
        self._ready_us: dict[str, int] = {}

    # What an application has to say -----------------------------------------------------------

    @abstractmethod
    def utility(self, nodes: Sequence[str]) -> float:
        """What these nodes do together an hour; some may be scopes, for a node anywhere there."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """There is nothing left to do, now or later."""

    # What it may say --------------------------------------------------------------------------

    @property
    def needed(self) -> float:
        """How much utility is wanted now; all that there is, if it does not say."""
        return inf

    def work(self, nodes: Sequence[str], hours: float) -> None:
        """So much time passes, with these nodes at work; nothing changes, if it does not say."""

    # What happens to it -----------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """The last instant that it was told of."""
        return self._now_us or 0

    def advance(self, at_us: int) -> None:
        if self._now_us is None:
            self._now_us = at_us
        while self._now_us < at_us:
            now_us = self._now_us
            starts = (ready_us for ready_us in self._ready_us.values() if ready_us > now_us)
            self._now_us = min(at_us, min(starts, default=at_us))
            warm = [node for node, ready_us in self._ready_us.items() if ready_us <= now_us]
            self.work(warm, (self._now_us - now_us) / US_PER_HOUR)

    def gain(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        if tree_of(resource) in self.kinds:
            ready_us = self.now_us + round(self._cold_start_s * US_PER_S)
            self._ready_us.setdefault(resource, ready_us)

    def lose(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        self._ready_us.pop(resource, None)

    def measure(self, readings: Mapping[str, float], at_us: int) -> None:
        known = {name: value for name, value in readings.items() if name in self.kept}
        for name, value in known.items():
            if not isfinite(value):
                raise BadApplication(f"{name} can't be {value}; report a number")
        self.advance(at_us)
        self.kept.update(known)

    # The hooks --------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self._ready_us)

    def missing(self, kind: str) -> int:
        more: list[str] = []
        while kind in self.kinds and len(more) < NODES_MAX:
            enough = self.utility([*self.nodes, *more]) >= self.needed
            if enough or self.worth_of_gaining(kind, more).full <= 0:
                break
            more.append(kind)
        return len(more)

    def utility_gap(self) -> float:
        best = self.kinds[0]
        reachable = self.utility([*self.nodes, *[best] * self.missing(best)])
        return max(0.0, min(self.needed, reachable) - self.utility(self.nodes))

    def worth_of_gaining(self, scope: str, coming: Sequence[str] = ()) -> Worth:
        if tree_of(scope) not in self.kinds:
            return NO_WORTH
        others = [*self.nodes, *coming]
        return self._difference(others, [*others, scope])

    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        before = [node for node in self.nodes if node not in gone]
        return self._difference([node for node in before if node != resource], before)

    def is_redundant(self, resource: str) -> bool:
        """The youngest go first."""
        if resource not in self._ready_us or self.worth_of_losing(resource).full > 0:
            return False
        spare: list[str] = []
        for node in reversed(self.nodes):
            if self.worth_of_losing(node, spare).full <= 0:
                spare.append(node)
        return resource in spare

    def cold_start_s(self, place: str) -> float:
        ready_us = self._ready_us.get(place)
        if ready_us is None:
            return self._cold_start_s
        return max(0, ready_us - self.now_us) / US_PER_S

    def _difference(self, fewer: Sequence[str], more: Sequence[str]) -> Worth:
        low, high = self.utility(fewer), self.utility(more)
        now = useful_pace(high, self.needed) - useful_pace(low, self.needed)
        return Worth(max(0.0, now), max(0.0, high - low))

    # Its memory -------------------------------------------------------------------------------

    def state(self) -> bytes:
        return msgspec.json.encode(_State(self._now_us, self._ready_us, self.kept))

    def resume(self, state: bytes) -> None:
        try:
            remembered = msgspec.json.decode(state, type=_State)
        except msgspec.MsgspecError as error:
            raise BadApplication(f"this is no state of it ({error}); begin anew") from None
        self._now_us = remembered.now_us
        self._ready_us = dict(remembered.ready_us)
        self.kept = {**self.kept, **remembered.kept}
