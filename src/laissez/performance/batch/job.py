"""A batch job: so many hours of work for any node that will do, done by a deadline if it can be.

**Start-up.** A node is of use after its cold start (minutes: the machine, the data, the last
checkpoint). Then it is warm, and stays so.

**Who works.** At most `nodes_max` nodes at a time, the fastest of those that are warm; among equals
the one that came first. Who works changes at a checkpoint and at no other time, so a change costs
no work: the old node goes on while a better one starts up, hands over at the first checkpoint at
which that one is warm, and is redundant from then on.

**A loss** is the exception. If a node that works is lost, the job falls back to its last
checkpoint, and the others that worked with it start up anew. A spare that is warm goes on at once.
Told of a loss to come, it saves beside the work, which takes a while (`save_s`): then what was done
when it began is saved.

**Pace.** 1 is what one node of the reference kind does (laissez.performance.batch.work). All that
happens is integer arithmetic, and so exact to the microsecond; worth alone is in floats.

**Worth** is in pace, hours of work per hour, as if all nodes that have a part in it were warm and
the fastest of them worked. `now` counts pace as the deadline asks for it
(laissez.performance.pace), `full` all of it. A node to come is worth nothing if the rest is done at
the first checkpoint at which it would be warm: it would never work.

A job that reports its progress (`measure({"done": 0.4}, at)`) is believed: it goes on from there
in this reckoning, and is done when it says so, not before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import msgspec

from laissez.model.paths import tree_of
from laissez.performance.application import NO_WORTH, US_PER_S, Worth
from laissez.performance.batch.stretch import PPM, Stretch
from laissez.performance.batch.table import SERIAL_FRACTION
from laissez.performance.batch.work import BadBatch, Work, team_pace_ppm
from laissez.performance.pace import FULL_VALUE_UP_TO, needed_pace, useful_pace

COLD_START_S = 480.0
"""Between 240 and 720 s are usual (LaissezCloud, table 1, after "Can't Be Late")."""
CHECKPOINT_EVERY_S = 600.0
SAVE_S = 30.0


class BatchState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a job remembers. `ready_us` by node says when it is warm, in the order of gain;
    `workers` since when each that works has done so."""

    work: int
    now_us: int
    stretch: Stretch
    ready_us: dict[str, int]
    workers: dict[str, int]
    done_us: int | None
    is_measured: bool
    saving_since_us: int | None = None
    vacating_us: dict[str, int] = {}


class BatchJob:
    """`cold_start_s` is the same for all kinds of node, or by kind. A job that saves nothing on
    its way has a `checkpoint_every_s` longer than itself. Times are absolute, in microseconds."""

    def __init__(
        self,
        work: Work,
        *,
        deadline_us: int,
        start_us: int = 0,
        cold_start_s: float | Mapping[str, float] = COLD_START_S,
        checkpoint_every_s: float = CHECKPOINT_EVERY_S,
        save_s: float = SAVE_S,
        nodes_max: int = 1,
        serial_fraction: float = SERIAL_FRACTION,
    ) -> None:
        _check_running(checkpoint_every_s, save_s, nodes_max, serial_fraction)
        self._save_us = round(save_s * US_PER_S)
        self._work = work.units
        self._speeds = work.speeds_ppm
        self._kinds = tuple(sorted(self._speeds, key=lambda kind: -self._speeds[kind]))
        self._cold_us = {kind: _cold_start_us(kind, cold_start_s) for kind in self._speeds}
        self._nodes_max = nodes_max
        self._serial_fraction = serial_fraction
        self._paces: dict[tuple[int, ...], int] = {}
        self._pace_max = self._pace((self._speeds[self._kinds[0]],) * nodes_max)
        self.deadline_us = deadline_us

        self._now_us = start_us
        self._stretch = Stretch(start_us, 0, 0, round(checkpoint_every_s * US_PER_S))
        self._ready_us: dict[str, int] = {}
        self._workers: dict[str, int] = {}
        self._saving_since_us: int | None = None
        self._vacating_us: dict[str, int] = {}
        self._done_us: int | None = None
        self._is_measured = False
        self._look_ahead()

    # What happens to it -----------------------------------------------------------------------

    def advance(self, at_us: int) -> None:
        """Time doesn't go back: what is told of an earlier instant happens now."""
        while self.next_change_us is not None and self.next_change_us <= at_us:
            self._now_us = self.next_change_us
            if self._stretch.done(self._now_us) >= self._work and not self._is_measured:
                self._stop(self._work)
                self._done_us = self._now_us
            elif self._saved_us == self._now_us:
                self._end_saving()
            else:
                self._choose_workers()
            self._look_ahead()
        self._now_us = max(self._now_us, at_us)

    def gain(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        kind = tree_of(resource)
        if resource in self._ready_us or kind not in self._speeds:
            return
        self._ready_us[resource] = self._now_us + self._cold_us[kind]
        self._look_ahead()
        self.advance(self._now_us)

    def lose(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        if self._ready_us.pop(resource, None) is None:
            return
        self._vacating_us.pop(resource, None)
        if resource in self._workers:
            others = [worker for worker in self._workers if worker != resource]
            self._stop(self._saved())
            for other in others:
                self._ready_us[other] = self._now_us + self._cold_us[tree_of(other)]
        self._look_ahead()
        self.advance(self._now_us)

    def vacate(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        if resource in self._ready_us and resource not in self._vacating_us:
            since_us = self._saves_from_us
            self._vacating_us[resource] = since_us
            if self.since_checkpoint_s(resource):
                self._saving_since_us = since_us
                self._look_ahead()
                self.advance(self._now_us)

    def stay(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        self._vacating_us.pop(resource, None)

    def measure(self, readings: Mapping[str, float], at_us: int) -> None:
        """`done`: which part of the work is done."""
        share = readings.get("done")
        if share is not None and not 0 <= share <= 1:
            raise BadBatch(f"{share} of a job cannot be done; report a share between 0 and 1")
        self.advance(at_us)
        if share is None:
            return
        self._is_measured = True
        if share == 1:
            self._stop(self._work)
            self._done_us = self._done_us if self._done_us is not None else self._now_us
        else:
            done = min(round(share * self._work), self._work - 1)
            self._stretch = self._stretch.corrected(self._now_us, done)
            self._done_us = None
        self._look_ahead()
        self.advance(self._now_us)

    # The hooks --------------------------------------------------------------------------------

    @property
    def kinds(self) -> tuple[str, ...]:
        return self._kinds

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self._ready_us)

    @property
    def is_done(self) -> bool:
        return self._done_us is not None

    def missing(self, kind: str) -> int:
        """The fewest that lift it to the pace that counts in full, or as near as this kind can,
        also in the place of slower ones; none where they would come too late."""
        speed = self._speeds.get(kind)
        if speed is None or self.is_done or self._is_too_late_for(kind):
            return 0
        most = self._pace((*self._used_speeds, *(speed,) * self._nodes_max))
        enough = min(FULL_VALUE_UP_TO * self.needed_pace(), most)
        counts = range(self._nodes_max + 1)
        paces = (self._pace((*self._used_speeds, *(speed,) * count)) for count in counts)
        return next(count for count, pace in zip(counts, paces, strict=True) if pace >= enough)

    def utility_gap(self) -> float:
        return max(0.0, self.needed_pace() - self._pace(self._used_speeds))

    def worth_of_gaining(self, scope: str, coming: Sequence[str] = ()) -> Worth:
        kind = tree_of(scope)
        speed = self._speeds.get(kind)
        if speed is None or self.is_done or self._is_too_late_for(kind):
            return NO_WORTH
        before = self._used_speeds
        if coming:
            before += tuple(self._speeds.get(tree_of(other), 0) for other in coming)
        return self._worth_between(self._pace((*before, speed)), self._pace(before))

    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        if self.is_done or resource not in self._ready_us or resource in gone:
            return NO_WORTH
        if self.is_redundant(resource) and all(map(self.is_redundant, gone)):
            return NO_WORTH  # it will not work; it would if one were gone that does
        speeds = [self._speeds[tree_of(each)] for each in self._ready_us if each not in gone]
        before = self._pace(speeds)
        speeds.remove(self._speeds[tree_of(resource)])
        return self._worth_between(before, self._pace(speeds))

    def is_redundant(self, resource: str) -> bool:
        return resource not in self._workers and resource not in self._joins_us

    def cold_start_s(self, place: str) -> float:
        ready_us = self._ready_us.get(place)
        if ready_us is not None:
            return max(0, ready_us - self._now_us) / US_PER_S
        return self.cold_start_us(tree_of(place)) / US_PER_S

    def at_stake(self, resource: str) -> float:
        """If one that works is gone, all stand still."""
        return self._stretch.pace_ppm / PPM if resource in self._workers else 0.0

    def since_checkpoint_s(self, resource: str) -> float:
        if resource not in self._workers:
            return 0.0
        return (self._done() - self._saved()) / self._stretch.pace_ppm / US_PER_S

    def till_checkpoint_s(self, resource: str) -> float | None:
        """The end of the job is as good as a checkpoint."""
        if resource not in self._workers:
            return 0.0
        till_us = self._stretch.checkpoint_us(self._now_us)
        end_us = self.finish_us
        if end_us is not None and self._now_us < end_us:
            till_us = min(till_us, end_us)
        return (till_us - self._now_us) / US_PER_S

    @property
    def vacating(self) -> Collection[str]:
        return self._vacating_us.keys()

    def vacate_s(self, resource: str) -> float | None:
        """Until it has saved, because it was asked to or because it does anyway, or is done."""
        since_us = self._vacating_us.get(resource, self._saves_from_us)
        if not self.since_checkpoint_s(resource) or self._last_saved_us >= since_us:
            return 0.0
        saved_s = max(0, since_us + self._save_us - self._now_us) / US_PER_S
        return min(saved_s, self.till_checkpoint_s(resource) or 0.0)

    def ends_in_s(self, place: str) -> float | None:
        """Until it is done, but not beyond its deadline as long as that is not past."""
        end_us = self._stretch.reaches_us(self._work) if place in self._workers else None
        if end_us is None:
            kind = tree_of(place)
            if kind not in self._speeds:
                return 0.0
            cold_us = round(self.cold_start_s(place) * US_PER_S)
            end_us = self._now_us + cold_us + self.work_left_us(kind)
        if self._now_us < self.deadline_us:
            end_us = min(end_us, self.deadline_us)
        return max(0, end_us - self._now_us) / US_PER_S

    # What a plan for the deadline needs to know -------------------------------------------------

    next_change_us: int | None
    """When it is done or others begin to work, if nothing is gained or lost before."""

    @property
    def now_us(self) -> int:
        return self._now_us

    @property
    def is_started(self) -> bool:
        return bool(self._workers) or self._done() > 0

    @property
    def done_share(self) -> float:
        return self._done() / self._work

    @property
    def done_us(self) -> int | None:
        """The instant at which it was done."""
        return self._done_us

    @property
    def finish_us(self) -> int | None:
        """When it is done if the nodes that work now go on; None if none works."""
        return self._done_us if self.is_done else self._stretch.reaches_us(self._work)

    @property
    def workers(self) -> tuple[str, ...]:
        """The nodes that work now."""
        return tuple(self._workers)

    def works_from_us(self, resource: str) -> int | None:
        """Since when a node has worked, or when it will begin to; None if it has no part."""
        since_us = self._workers.get(resource)
        return since_us if since_us is not None else self._joins_us.get(resource)

    def work_left_us(self, kind: str) -> int:
        """How long one warm node of this kind takes for what is left, if it never stops."""
        if kind not in self._speeds:
            raise BadBatch(f"{kind} cannot be used; only nodes of {', '.join(self._kinds)} can")
        return -((self._done() - self._work) // self._speeds[kind])

    def pace_of(self, kind: str) -> float:
        """The pace of one warm node of this kind."""
        return self._speeds.get(kind, 0) / PPM

    def cold_start_us(self, kind: str) -> int:
        """For a kind that it cannot use, the longest of those that it can."""
        return self._cold_us.get(kind, max(self._cold_us.values()))

    def needed_pace(self) -> float:
        left_us = (self._work - self._done()) / PPM
        return needed_pace(left_us, self.deadline_us - self._now_us, self._pace_max)

    # Its memory -------------------------------------------------------------------------------

    def state(self) -> bytes:
        return msgspec.json.encode(
            BatchState(
                self._work,
                self._now_us,
                self._stretch,
                self._ready_us,
                self._workers,
                self._done_us,
                self._is_measured,
                self._saving_since_us,
                self._vacating_us,
            )
        )

    def resume(self, state: bytes) -> None:
        try:
            past = msgspec.json.decode(state, type=BatchState)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadBatch(f"this is not the state of a batch job: {error}") from error
        if past.work != self._work or not {*map(tree_of, past.ready_us)} <= self._speeds.keys():
            raise BadBatch("this is the state of another job; resume it with the same make")
        self._now_us = past.now_us
        self._stretch = past.stretch
        self._ready_us = past.ready_us
        self._workers = past.workers
        self._done_us = past.done_us
        self._is_measured = past.is_measured
        self._saving_since_us = past.saving_since_us
        self._vacating_us = past.vacating_us
        self._look_ahead()

    # How it goes on ---------------------------------------------------------------------------

    def _done(self) -> int:
        done = self._stretch.done(self._now_us)
        return min(done, self._work - 1) if self._is_measured and not self.is_done else done

    def _saved(self) -> int:
        return max(0, self._done() - self._stretch.unsaved(self._now_us))

    def _will_be_done_by(self, at_us: int) -> bool:
        end_us = self._stretch.reaches_us(self._work)
        return end_us is not None and end_us <= at_us

    @property
    def _last_saved_us(self) -> int:
        """When the last of its checkpoints was."""
        return self._now_us - (self._now_us - self._stretch.from_us) % self._stretch.every_us

    @property
    def _saves_from_us(self) -> int:
        """What is done by then is saved by a save that is asked for now."""
        return self._now_us if self._saving_since_us is None else self._saving_since_us

    @property
    def _saved_us(self) -> int | None:
        since_us = self._saving_since_us
        return None if since_us is None else since_us + self._save_us

    def _end_saving(self) -> None:
        """What was done when it began to save is saved; it went on meanwhile."""
        since_us, self._saving_since_us = self._saving_since_us, None
        if since_us is not None and self._workers and since_us > self._last_saved_us:
            self._stretch = self._stretch.saved_at(since_us)

    def _stop(self, done: int) -> None:
        self._workers = {}
        self._saving_since_us = None
        self._stretch = Stretch(self._now_us, done, 0, self._stretch.every_us)

    def _choose_workers(self) -> None:
        """At a checkpoint, or while nothing runs: nothing has to be done again."""
        warm = [each for each in self._ranked if self._ready_us[each] <= self._now_us]
        chosen = warm[: self._nodes_max]
        pace_ppm = self._pace_ppm(tuple(self._speeds[tree_of(each)] for each in chosen))
        self._workers = {each: self._workers.get(each, self._now_us) for each in chosen}
        self._stretch = Stretch(self._now_us, self._done(), pace_ppm, self._stretch.every_us)

    def _look_ahead(self) -> None:
        """Who will begin to work, and when, and so when something changes next.

        What was found holds until something else happens: the nodes that are warm only become
        more, so a node that finds `nodes_max` better ones warm at its first chance has no part.
        """
        self._ranked = sorted(
            self._ready_us,
            key=lambda each: -self._speeds[tree_of(each)],
        )
        self._joins_us: dict[str, int] = {}
        if not self.is_done:
            for place, resource in enumerate(self._ranked):
                if resource in self._workers:
                    continue
                chance_us = self._chance_us(self._ready_us[resource])
                better = [self._ready_us[each] <= chance_us for each in self._ranked[:place]]
                if sum(better) < self._nodes_max and not self._will_be_done_by(chance_us):
                    self._joins_us[resource] = chance_us
        self._used_speeds = tuple(
            self._speeds[tree_of(each)] for each in self._ranked if not self.is_redundant(each)
        )
        changes = list(self._joins_us.values())
        if self._saved_us is not None:
            changes.append(self._saved_us)
        if self.finish_us is not None and not self._is_measured and not self.is_done:
            changes.append(self.finish_us)
        self.next_change_us = min(changes, default=None)

    def _chance_us(self, ready_us: int) -> int:
        """The first instant at which a node that is warm then could begin to work."""
        ready_us = max(ready_us, self._now_us)
        return self._stretch.checkpoint_us(ready_us) if self._workers else ready_us

    def _is_too_late_for(self, kind: str) -> bool:
        """A node gained now would find nothing left to do when it could begin."""
        return self._will_be_done_by(self._chance_us(self._now_us + self._cold_us[kind]))

    # Pace -------------------------------------------------------------------------------------

    def _pace_ppm(self, speeds: tuple[int, ...]) -> int:
        pace_ppm = self._paces.get(speeds)
        if pace_ppm is None:
            at_work = sorted(speeds, reverse=True)[: self._nodes_max]
            pace_ppm = self._paces[speeds] = team_pace_ppm(at_work, self._serial_fraction)
        return pace_ppm

    def _pace(self, speeds: Sequence[int]) -> float:
        return self._pace_ppm(tuple(speeds)) / PPM

    def _worth_between(self, more: float, less: float) -> Worth:
        if more <= less:
            return NO_WORTH
        needed = self.needed_pace()
        now = useful_pace(more, needed) - useful_pace(less, needed)
        return Worth(now, more - less)


def _cold_start_us(kind: str, cold_start_s: float | Mapping[str, float]) -> int:
    if isinstance(cold_start_s, Mapping):
        if kind not in cold_start_s:
            raise BadBatch(f"no cold start is given for {kind}; say its seconds, or one for all")
        cold_start_s = cold_start_s[kind]
    if not 0 <= cold_start_s < math.inf:
        raise BadBatch(f"a cold start cannot take {cold_start_s} s; say 0 or more")
    return round(cold_start_s * US_PER_S)


def _check_running(
    checkpoint_every_s: float, save_s: float, nodes_max: int, serial_fraction: float
) -> None:
    if not 0 <= save_s < math.inf:
        raise BadBatch(f"to save cannot take {save_s} s; say 0 or more")
    if not US_PER_S**-1 <= checkpoint_every_s < math.inf:
        raise BadBatch(f"checkpoints every {checkpoint_every_s} s cannot be; say more than 0")
    if nodes_max < 1:
        raise BadBatch(f"a job on {nodes_max} nodes never ends; say at least 1")
    if not 0 <= serial_fraction <= 1:
        raise BadBatch(f"a serial part of {serial_fraction} makes no sense; say between 0 and 1")
