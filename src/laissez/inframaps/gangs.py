"""A voice for gangs that wait: the floor of one domain is raised by steps, and taken back.

A gang presses on nobody, so whoever holds what it waits for pays as if it were not there, however
much it offers. This map lets a gang that has waited for a while speak for a while. It chooses the
domain that stands least in the way, by what an operator may know: where the fewest resources would
have to be left, and among these where the least is paid for them now. Retention limits are private
and play no part: what a holder pays is the least that the resource is worth to it. There the floor
goes up from where it stands to the gang's limit. What cannot be had at that price stays where it
is; everybody else there pays more, or leaves. When the gang is filled or gone, or its time is over,
the floor is taken back.

A domain has one voice at a time: none is raised that covers, or lies in, one that is raised. A
tenant has one voice at a time, too, and none for a while after it had one, whatever it calls its
orders: a voice costs its owner nothing, so nobody is to have it for long.

This map remembers since when gangs have waited and which have a voice. After a restart it begins
anew: what it had raised is taken back in the first step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from laissez.inframaps.floors import parent_of
from laissez.inframaps.forest import Forest, forest_of
from laissez.inframaps.policy import Levels
from laissez.inframaps.view import OperatorView, WaitingGang
from laissez.model.paths import covers
from laissez.model.questions import Resource

MINUTE_US = 60_000_000

GangKey = tuple[str, str]
"""Its tenant and its order."""


class Voice(NamedTuple):
    """Whose it is, since when, and at what floor it began."""

    gang: GangKey
    since_us: int
    floor: int


class Gangs:
    """`most` voices at a time; each rises by so many steps in `rise_us`, and ends at the latest
    `lasts_us` after it began."""

    label: ClassVar[str] = "gangs"

    def __init__(
        self,
        *,
        patience_us: int = 10 * MINUTE_US,
        rise_us: int = 10 * MINUTE_US,
        steps: int = 10,
        lasts_us: int = 30 * MINUTE_US,
        rests_us: int = 60 * MINUTE_US,
        most: int = 1,
    ) -> None:
        if steps < 1 or most < 1 or not 0 <= rise_us <= lasts_us:
            raise ValueError(
                "gangs: give at least 1 step and 1 voice, and a voice that lasts as long as it "
                "rises, or longer"
            )
        self.patience_us = patience_us
        self.rise_us = rise_us
        self.steps = steps
        self.lasts_us = lasts_us
        self.rests_us = rests_us
        self.most = most
        self._waits_since_us: dict[GangKey, int] = {}
        self._voices: dict[str, Voice] = {}
        self._rests_until_us: dict[str, int] = {}

    def adjustments(self, levels: Levels, view: OperatorView, at_us: int) -> dict[str, float]:
        return {}

    def lifts(self, view: OperatorView, at_us: int) -> dict[str, int]:
        waiting = {(gang.tenant, gang.order): gang for gang in view.gangs}
        since_us = self._waits_since_us
        self._waits_since_us = {key: since_us.get(key, at_us) for key in waiting}
        self._end_voices(waiting, at_us)
        self._begin_voices(waiting, view, at_us)
        return {
            domain: self._height(voice, waiting[voice.gang].limit, at_us)
            for domain, voice in self._voices.items()
        }

    def _end_voices(self, waiting: dict[GangKey, WaitingGang], at_us: int) -> None:
        for domain, voice in list(self._voices.items()):
            gang = waiting.get(voice.gang)
            is_over = at_us - voice.since_us >= self.lasts_us
            if gang is None or is_over or gang.limit <= voice.floor:
                del self._voices[domain]
                self._rests_until_us[voice.gang[0]] = at_us + self.rests_us
        rests = self._rests_until_us.items()
        self._rests_until_us = {tenant: until_us for tenant, until_us in rests if until_us > at_us}

    def _begin_voices(
        self, waiting: dict[GangKey, WaitingGang], view: OperatorView, at_us: int
    ) -> None:
        """Who has waited longest comes first, then who offers most."""
        forest = forest_of(tuple(each.resource for each in view.resources), tuple(view.inventory))
        by_path = {each.resource: each for each in view.resources}
        turn = sorted(
            waiting.values(),
            key=lambda gang: (self._waits_since_us[gang.tenant, gang.order], -gang.limit),
        )
        for gang in turn:
            key = (gang.tenant, gang.order)
            speakers = {voice.gang[0] for voice in self._voices.values()}
            if len(self._voices) == self.most:
                break
            if at_us - self._waits_since_us[key] < self.patience_us:
                break  # those who come after it have waited no longer
            if gang.tenant in speakers or gang.tenant in self._rests_until_us:
                continue
            domain = self._least_in_the_way(gang, forest, by_path, view)
            if domain is not None:
                self._voices[domain] = Voice(key, at_us, floor_of(domain, view))

    def _least_in_the_way(
        self,
        gang: WaitingGang,
        forest: Forest,
        by_path: dict[str, Resource],
        view: OperatorView,
    ) -> str | None:
        best: tuple[int, int] | None = None
        found = None
        for domain in _domains(gang, forest):
            if any(covers(each, domain) or covers(domain, each) for each in self._voices):
                continue
            there = [by_path[path] for path in forest.leaves_under(domain) if path in by_path]
            others = [each for each in there if each.owner != gang.tenant]
            if len(others) < gang.count or floor_of(domain, view) >= gang.limit:
                continue
            held = [each for each in others if each.owner is not None]
            leave = max(0, gang.count - (len(others) - len(held)))
            paid = sum(sorted(each.rate for each in held)[:leave])
            if best is None or (leave, paid) < best:
                best, found = (leave, paid), domain
        return found

    def _height(self, voice: Voice, limit: int, at_us: int) -> int:
        """The first step at once, the last when the rise is over."""
        gone_us = at_us - voice.since_us
        step = self.steps
        if gone_us < self.rise_us:
            step = min(self.steps, 1 + gone_us * self.steps // self.rise_us)
        return voice.floor + (limit - voice.floor) * step // self.steps


def floor_of(scope: str, view: OperatorView) -> int:
    """What stands over all of a scope."""
    floor = 0
    while scope:
        floor = max(floor, view.floors.get(scope, 0))
        scope = parent_of(scope)
    return floor


def _domains(gang: WaitingGang, forest: Forest) -> Iterator[str]:
    """The nodes at or under its scope whose paths have so many names."""
    below = [gang.scope] if gang.scope in forest else []
    while below:
        scope = below.pop(0)
        if scope.count("/") + 1 == gang.within:
            yield scope
        else:
            below += forest.children(scope)
