"""An application that simply wants its nodes, for ever: what on-demand and spot contracts serve.

It knows nothing of what runs on its nodes. Every node is worth the same, starts at once, and has
nothing to lose.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from laissez.model.paths import tree_of
from laissez.performance.application import NO_WORTH, BadApplication, WithoutCheckpoints, Worth

WANTED = Worth(1.0, 1.0)


class BadStanding(BadApplication):
    """Nodes that cannot be wanted, or a memory that is not its own."""


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    kinds: tuple[str, ...]
    nodes: list[str]


class Standing(WithoutCheckpoints):
    """`wanted` nodes of any of these kinds."""

    def __init__(self, kinds: Sequence[str], wanted: int) -> None:
        if wanted < 0 or not kinds:
            raise BadStanding(
                f"{wanted} nodes of {', '.join(kinds) or 'no kind'} cannot be wanted; "
                "say 0 or more, and at least one kind"
            )
        self._kinds = tuple(kinds)
        self._wanted = wanted
        self._nodes: dict[str, None] = {}

    # What happens to it -----------------------------------------------------------------------

    def advance(self, at_us: int) -> None:
        pass

    def gain(self, resource: str, at_us: int) -> None:
        if tree_of(resource) in self._kinds:
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
        usable = sum(tree_of(place) in self._kinds for place in (*coming, scope))
        wants_it = len(self._nodes) + usable <= self._wanted
        return WANTED if wants_it and tree_of(scope) in self._kinds else NO_WORTH

    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        left = [node for node in self._nodes if node not in gone]
        return WANTED if resource in left and len(left) <= self._wanted else NO_WORTH

    def is_redundant(self, resource: str) -> bool:
        """What came after it had all that it wants, and what it does not have."""
        return resource not in list(self._nodes)[: self._wanted]

    def cold_start_s(self, place: str) -> float:
        return 0.0

    def vacate_s(self, resource: str) -> float | None:
        """Nobody knows what runs there."""
        return None

    # Its memory -------------------------------------------------------------------------------

    def state(self) -> bytes:
        return msgspec.json.encode(_Kept(self._kinds, list(self._nodes)))

    def resume(self, state: bytes) -> None:
        try:
            past = msgspec.json.decode(state, type=_Kept)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadStanding(f"this is not the state of standing nodes: {error}") from error
        if past.kinds != self._kinds or not {*map(tree_of, past.nodes)} <= {*self._kinds}:
            raise BadStanding("this is the state of other nodes; resume it with the same kinds")
        self._nodes = dict.fromkeys(past.nodes)
