"""The script performed: each beat's commands given to one market, with what they caused.

A scene is played only when it is asked for, and remembers how the cluster looked before each
command and after the last: a reason names the limit that a holder had, not the one it has.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from laissez.market import Market
from laissez.model import Command, Event
from laissez.sample.story.cluster import ClusterView, look
from laissez.sample.story.script import CAST, Beat


class PlayedTurn(NamedTuple):
    """One command and its answer."""

    before: ClusterView
    command: Command
    events: tuple[Event, ...]


class PlayedScene(NamedTuple):
    beat: Beat
    turns: tuple[PlayedTurn, ...]
    after: ClusterView

    @property
    def before(self) -> ClusterView:
        return self.turns[0].before

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(event for turn in self.turns for event in turn.events)


def perform(market: Market, script: Iterable[Beat]) -> Iterator[PlayedScene]:
    for beat in script:
        turns = tuple(_turn(market, command) for command in beat.commands)
        yield PlayedScene(beat, turns, look(market, CAST))


def _turn(market: Market, command: Command) -> PlayedTurn:
    return PlayedTurn(look(market, CAST), command, market.apply(command))
