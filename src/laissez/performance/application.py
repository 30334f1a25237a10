"""The interface of every application, and the questions ("hooks") that a contract asks it.

An application is told what happens to it, in the order in which it happens: time passes, a node
is gained or lost, something is measured. Between two such words it answers questions, and a
question changes nothing: asked twice, it answers the same.

A node is a resource of the market; its path says what it is (the tree, `h100`) and where
(`h100/east/r1/h3/g0`). Utility is in a unit of the application's own, per unit of time: requests
within their objective per second, hours of work per hour. What it is worth in money is not known
here.

Time does not go back: what is told of an earlier instant happens now. Of a node of a kind that it
can't use an application takes no notice. What can't be true, it refuses with `BadApplication`, and
is as it was.

A node gained at an instant works after its cold start. What is lost with a node is the work since
the last checkpoint, and it has to be done again.

Who knows beforehand that it will lose a node can be told (`vacate`), and makes itself ready: it
saves, or takes no more requests there. It goes on with the node until it is lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

US_PER_S = 1_000_000


class Worth(NamedTuple):
    """What a node changes, in units of utility.

    `now` counts what is needed: work up to the pace that a deadline asks for, requests that come.
    `full` counts all that the node could do, as if that were needed; never less than `now`.
    """

    now: float
    full: float


NO_WORTH = Worth(0.0, 0.0)


class BadApplication(ValueError):
    """What an application was told, or made of, can't be; the sentence says what to do."""


class Application(Protocol):
    # What happens to it -----------------------------------------------------------------------

    def advance(self, at_us: int) -> None:
        """Let time pass until this instant, with the nodes that it has."""

    def gain(self, resource: str, at_us: int) -> None:
        """A node is its own from now on, and cold. One that it has already changes nothing."""

    def lose(self, resource: str, at_us: int) -> None:
        """A node is gone, whatever it was doing. One that it has not changes nothing."""

    def vacate(self, resource: str, at_us: int) -> None:
        """A node will be lost: get ready. One that it has not changes nothing."""

    def stay(self, resource: str, at_us: int) -> None:
        """It will not be lost after all."""

    def measure(self, readings: Mapping[str, float], at_us: int) -> None:
        """What was measured of the real application: its load, its progress."""

    # The hooks --------------------------------------------------------------------------------

    @property
    def kinds(self) -> tuple[str, ...]:
        """The trees in which it can use a node, best first."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """What it has, in the order in which it was gained."""

    @property
    def is_done(self) -> bool:
        """There is nothing left to do, now or later."""

    def missing(self, kind: str) -> int:
        """How many more nodes of this kind its autoscaler asks for, if all were of this kind."""

    def utility_gap(self) -> float:
        """How much utility is missing now, with the nodes that it has once all are warm."""

    def worth_of_gaining(self, scope: str, coming: Sequence[str] = ()) -> Worth:
        """What one more node somewhere under a scope adds, once it is warm.

        `coming` are scopes under which a node each is expected before this one. Where a node may
        come from anywhere, the least favourable place is assumed.
        """

    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        """What is lost with a node of its own, if those in `gone` are lost already."""

    def is_redundant(self, resource: str) -> bool:
        """It does without this node, and without every other node of which it says so."""

    def cold_start_s(self, place: str) -> float:
        """How long a node there takes to start working: all of it for a scope or a node that is
        not its own, what is left of it for one that is."""

    def at_stake(self, resource: str) -> float:
        """How much utility stands still if this node is lost, until another one works in its place:
        what it does, and what others do that can't go on without it."""

    def since_checkpoint_s(self, resource: str) -> float:
        """How much work would have to be done again if this node were lost now."""

    def till_checkpoint_s(self, resource: str) -> float | None:
        """How long until nothing would have to be done again; None if there are no checkpoints."""

    @property
    def vacating(self) -> Collection[str]:
        """The nodes for whose loss it gets ready, or is."""

    def vacate_s(self, resource: str) -> float | None:
        """How long it takes, from now, until this node can be lost with hardly anything to do
        again: 0 if it can now, None if nobody can say."""

    def ends_in_s(self, place: str) -> float | None:
        """How long it would still need a node there, its start included: one of its own, if nothing
        else changes, or one that it gains now. None if no end is in sight."""

    # Its memory -------------------------------------------------------------------------------

    def state(self) -> bytes:
        """All that it remembers, as JSON; a new one of the same make goes on from there."""

    def resume(self, state: bytes) -> None:
        """Go on from what another one of the same make remembered."""


class WithoutCheckpoints(ABC):
    """The hooks of an application in which a lost node stops what it does itself, and nothing has
    to be done again: it saves nothing, and no end of its need for a node is in sight."""

    @abstractmethod
    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        """See `Application`."""

    def vacate(self, resource: str, at_us: int) -> None:
        self.advance(at_us)

    def stay(self, resource: str, at_us: int) -> None:
        self.advance(at_us)

    @abstractmethod
    def advance(self, at_us: int) -> None:
        """See `Application`."""

    @property
    def vacating(self) -> Collection[str]:
        return ()

    def vacate_s(self, resource: str) -> float | None:
        return 0.0

    def at_stake(self, resource: str) -> float:
        return self.worth_of_losing(resource).now

    def since_checkpoint_s(self, resource: str) -> float:
        return 0.0

    def till_checkpoint_s(self, resource: str) -> float | None:
        return None

    def ends_in_s(self, place: str) -> float | None:
        return None
