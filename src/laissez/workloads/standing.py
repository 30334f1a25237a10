"""An application that simply wants its nodes, for ever: what on-demand and spot contracts serve.

It knows nothing of what runs on its nodes. Every node is worth the same, starts at once, and has
nothing to lose.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from laissez.workloads.application import Worth


class _Kept(msgspec.Struct):
    nodes: list[str]


class Standing:
    """`wanted` nodes of any of these kinds."""

    def __init__(self, kinds: Sequence[str], wanted: int) -> None:
        self._kinds = tuple(kinds)
        self._wanted = wanted
        self._nodes: dict[str, None] = {}

    # What happens to it -----------------------------------------------------------------------

    def advance(self, at_us: int) -> None:
        pass

    def gain(self, resource: str, at_us: int) -> None:
        self._nodes[resource] = None

    def lose(self, resource: str, at_us: int) -> None:
        self._nodes.pop(resource, None)

    def measure(self, readings: Mapping[str, float], at_us: int) -> None:
        pass

    # The hooks --------------------------------------------------------------------------------

    @property
    def kinds(self) -> tuple[str, ...]:
        return self._kinds

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self._nodes)

    @property
    def is_done(self) -> bool:
        return False

    def missing(self, kind: str) -> int:
        return max(0, self._wanted - len(self._nodes)) if kind in self._kinds else 0

    def utility_gap(self) -> float:
        return float(max(0, self._wanted - len(self._nodes)))

    def worth_of_gaining(self, scope: str, coming: Sequence[str] = ()) -> Worth:
        wants_more = len(self._nodes) + len(coming) < self._wanted
        is_of_use = wants_more and scope.partition("/")[0] in self._kinds
        return Worth(1.0, 1.0) if is_of_use else Worth(0.0, 0.0)

    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        left = [node for node in self._nodes if node not in gone]
        is_missed = resource in left and len(left) <= self._wanted
        return Worth(1.0, 1.0) if is_missed else Worth(0.0, 0.0)

    def is_redundant(self, resource: str) -> bool:
        return resource in list(self._nodes)[self._wanted :]

    def cold_start_s(self, place: str) -> float:
        return 0.0

    def since_checkpoint_s(self, resource: str) -> float:
        return 0.0

    def till_checkpoint_s(self, resource: str) -> float | None:
        return None

    # Its memory -------------------------------------------------------------------------------

    def state(self) -> bytes:
        return msgspec.json.encode(_Kept(list(self._nodes)))

    def resume(self, state: bytes) -> None:
        self._nodes = dict.fromkeys(msgspec.json.decode(state, type=_Kept).nodes)
