"""The orders of one `buy`, from placing to the last word on them.

An order waits, or what it has won is promised to it until a notice is over, or it is filled. An
order for several wins all at one instant, some perhaps by promise. Whatever happens meanwhile, an
interruption or a service that goes away, what is known of them is told: they are in the market,
whoever waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

import click
from msgspec import structs

from laissez.cli.tenant.gangs import KEPT_TOGETHER, WhatToBuy, level_hint
from laissez.cli.tenant.waiting import WaitingLine, waiting_shown
from laissez.cli.terminal import clock, listening
from laissez.cli.terminal.amounts import (
    counted,
    show_attributes,
    show_clock,
    show_duration,
    show_rate,
)
from laissez.cli.terminal.answers import MANY_PATIENCE_S, end_with, refusals_in
from laissez.cli.terminal.documents import Bought
from laissez.cli.terminal.exits import Exit
from laissez.cli.terminal.levels import NamedLevels, in_one
from laissez.cli.terminal.nearby import NOT_THERE, scope_meant
from laissez.cli.terminal.output import few, progress_bar, say, say_described, say_json, warn
from laissez.cli.terminal.sentences import LINES_MAX
from laissez.client import Client
from laissez.client.bulk import Outcomes
from laissez.client.errors import LaissezError
from laissez.model import (
    Amended,
    Answer,
    Cancelled,
    Code,
    Expired,
    Filled,
    Happened,
    Notice,
    Placed,
    PlaceOrder,
    Promised,
    Quotes,
    Refused,
    Resync,
    Unpromised,
)

OwnOrders: TypeAlias = Placed | Amended | Filled | Promised | Unpromised | Expired | Cancelled

US_PER_S = 1_000_000
LATE_US = US_PER_S


class Purchase:
    def __init__(self, client: Client, wanted: WhatToBuy, *, as_json: bool) -> None:
        self._client = client
        self._wanted = wanted
        self._as_json = as_json
        self._orders_wanted = 1 if wanted.is_gang else wanted.count
        self._outcomes: Outcomes = {}
        self._placed: dict[str, Placed | Amended] = {}
        self._placed_at: dict[str, int] = {}
        self._won: dict[str, dict[str, Filled]] = {}
        self._coming: dict[str, dict[str, Promised]] = {}
        self._ended: dict[str, None] = {}
        self._unknown: list[str] = []
        self._levels: NamedLevels = {}
        self._hint = ""
        self._was_cut_off = False

    @property
    def _waiting(self) -> list[str]:
        over = {*self._won, *self._coming, *self._ended, *self._unknown}
        return [order for order in self._placed if order not in over]

    @property
    def _filled(self) -> list[Filled]:
        return [filled for won in self._won.values() for filled in won.values()]

    @property
    def _promised(self) -> list[Promised]:
        return [promised for coming in self._coming.values() for promised in coming.values()]

    @property
    def _refused(self) -> tuple[Refused, ...]:
        return refusals_in([said for _, said in sorted(self._outcomes.items())])

    # Ordering ---------------------------------------------------------------------------------

    def order(self, price: int | None, limit: int | None, expires: int | None) -> None:
        wanted = self._wanted
        instruction = PlaceOrder(wanted.scope, price, limit, None, expires)
        if wanted.is_gang:
            instruction = structs.replace(
                instruction, count=wanted.count, within=wanted.within, together=wanted.together
            )
        is_quick = self._as_json or self._orders_wanted == 1
        try:
            with progress_bar("ordering", as_json=is_quick) as progress:
                self._client.send_all(
                    [instruction] * self._orders_wanted,
                    progress=progress,
                    outcomes=self._outcomes,
                    patience_s=MANY_PATIENCE_S,
                )
        except LaissezError:
            self._was_cut_off = True
            raise
        finally:
            self._read_outcomes()
        if wanted.is_gang:
            self._learn_levels()

    def _read_outcomes(self) -> None:
        told = [said for _, said in sorted(self._outcomes.items())]
        made = [answer for answer in told if isinstance(answer, Answer)]
        for answer in made:
            for event in answer.events:
                if isinstance(event, Placed):
                    self._placed[event.order] = event
                    self._placed_at[event.order] = answer.sequence
        # An order may be filled by what a later one set in motion, so all are placed by now.
        for answer in made:
            self._note(answer.events)

    # Waiting ----------------------------------------------------------------------------------

    def wait(self, length_us: int) -> None:
        """Until no order waits any longer and nothing is promised any more, or so long."""
        if not self._waiting and not self._coming:
            return
        until = clock.now_us() + length_us
        first = next(iter(self._placed.values()))
        with waiting_shown(
            self._client,
            first,
            length_us=length_us,
            filled=self._how_far,
            promised=self._what_comes,
            as_json=self._as_json,
        ) as line:
            after = min(self._placed_at.values()) - 1
            quotes = () if line is None else line.quotes
            for said in listening.listen(self._client, after=after, quotes=quotes):
                self._hear(said, line)
                if clock.now_us() >= until or not (self._waiting or self._coming):
                    return

    def _hear(self, said: listening.Heard | None, line: WaitingLine | None) -> None:
        if isinstance(said, Happened):
            self._note(said.events)
        elif isinstance(said, Resync):
            self._look_anew()
        elif isinstance(said, Quotes) and line is not None:
            line.note(said)
        if said is None:
            now = clock.now_us()
            if any(each.until + LATE_US < now for each in self._promised):
                self._look_anew()
            if line is not None and self._waiting:
                line.look(self._client)

    def _note(self, events: Sequence[Notice]) -> None:
        for event in events:
            if isinstance(event, OwnOrders) and event.order in self._placed:
                self._note_own(event)

    def _note_own(self, event: OwnOrders) -> None:
        order = event.order
        if isinstance(event, Filled):
            self._won.setdefault(order, {})[event.resource] = event
            self._comes_no_more(order, event.resource)
        elif isinstance(event, Promised):
            if event.resource not in self._won.get(order, ()):
                self._coming.setdefault(order, {})[event.resource] = event
        elif isinstance(event, Unpromised):
            self._comes_no_more(order, event.resource)
            if order not in {*self._won, *self._coming}:
                self._ended[order] = None
        elif isinstance(event, Expired | Cancelled):
            self._ended[order] = None
        else:  # placed again, because what was promised is off the market
            self._placed[order] = event
            self._coming.pop(order, None)
            self._ended.pop(order, None)

    def _comes_no_more(self, order: str, resource: str) -> None:
        coming = self._coming.get(order, {})
        coming.pop(resource, None)
        if not coming:
            self._coming.pop(order, None)

    def _look_anew(self) -> None:
        """Not all was heard."""
        live = {each.order for each in self._client.orders()}
        promised = {(each.order, each.resource) for each in self._client.promises()}
        held = {each.resource: each for each in self._client.holdings()}
        for each in self._promised:
            order, resource = each.order, each.resource
            if (order, resource) in promised:
                continue
            if resource in held:
                mine = held[resource]
                self._note_own(Filled(mine.since, order, resource, mine.attributes))
                continue
            self._comes_no_more(order, resource)
            if order not in {*self._won, *self._coming, *live}:
                self._unknown.append(order)
        for order in self._waiting:
            if order not in live:
                self._unknown.append(order)

    # Telling ----------------------------------------------------------------------------------

    def report(self) -> None:
        filled = self._filled
        if self._as_json:
            waiting = tuple(self._placed[order] for order in self._waiting)
            ended, unknown = tuple(self._ended), tuple(self._unknown)
            promised, refused = tuple(self._promised), self._refused
            scope, count = self._wanted.scope, self._wanted.count
            say_json(
                Bought(scope, count, tuple(filled), waiting, ended, unknown, refused, promised)
            )
            return
        if filled:
            self._show(filled[:LINES_MAX])
        if len(filled) > LINES_MAX:
            say(f"... and {len(filled) - LINES_MAX:,} more; --json has all")
        say(self._summary())
        if self._wanted.together and self._placed:
            say(KEPT_TOGETHER)

    def _show(self, filled: Sequence[Filled]) -> None:
        rates = self._rates()
        rows = [
            (
                each.resource,
                each.order,
                show_rate(rates.get(each.resource)),
                show_rate(self._placed[each.order].limit),
                show_attributes(each.attributes),
            )
            for each in filled
        ]
        columns = ("resource", "order", "rate", "limit", "attributes")
        say_described(*columns, rows=rows, right=("rate", "limit"), nothing="")

    def _rates(self) -> dict[str, int]:
        try:
            return {each.resource: each.rate for each in self._client.holdings()}
        except LaissezError:
            # What was won is told, even if the service went away meanwhile.
            return {}

    def _how_far(self) -> str:
        return f"{len(self._filled):,} of {self._wanted.count:,} filled"

    def _what_comes(self) -> str:
        promised = self._promised
        if not promised:
            return ""
        until = max(each.until for each in promised)
        left_us = max(0, until - clock.now_us())
        in_time = f"by {show_clock(until)} (in {show_duration(left_us - left_us % US_PER_S)})"
        return f"{len(promised):,} promised, here {in_time} at the latest"

    def _summary(self) -> str:
        parts = [self._how_far()]
        waiting = self._waiting
        if self._promised:
            parts.append(self._what_comes())
        if waiting and self._wanted.is_gang:
            placed = self._placed[waiting[0]]
            where = in_one(self._levels, placed.scope, placed.within)
            parts.append(f"{waiting[0]} waits for all {placed.count:,} {where} at one instant")
        elif waiting:
            verb = "waits" if len(waiting) == 1 else "wait"
            parts.append(f"{len(waiting):,} {verb}: {few(waiting)}")
        if self._ended:
            ended = list(self._ended)
            parts.append(f"{len(ended):,} ended unfilled: {few(ended)}")
        if self._unknown:
            gone = few(self._unknown)
            parts.append(f"of {gone} it is no longer known; see 'laissez holdings'")
        if self._refused:
            parts.append(f"{len(self._refused):,} refused")
        return "; ".join(parts)

    def _learn_levels(self) -> None:
        """While somebody answers: what is known is told, even if the service goes away later."""
        with suppress(LaissezError):
            self._levels = self._client.status().levels

    def say_what_lives_on(self) -> None:
        """For who waits no longer: what is left in the market, and how to take it back."""
        if self._as_json:
            return
        left = self._orders_wanted - len(self._outcomes)
        if left:
            told = f"laissez: stopped with {counted(left, 'order')} left"
            if self._was_cut_off:
                told += (
                    "; some may be in the market: 'laissez orders' and 'laissez holdings' show them"
                )
            warn(told)
        waiting = self._waiting
        if len(waiting) == 1 and self._wanted.is_gang:
            warn(
                f"laissez: the order waits on, for all {self._wanted.count:,} or none; "
                f"'laissez cancel {waiting[0]}' ends it"
            )
        elif len(waiting) == 1:
            warn(f"laissez: the order lives on; 'laissez cancel {waiting[0]}' ends it")
        elif waiting:
            words = "--all" if len(waiting) > LINES_MAX else " ".join(waiting)
            warn(f"laissez: the orders live on; 'laissez cancel {words}' ends them")
        if self._promised:
            warn(
                "laissez: what is promised comes by itself, when its holder leaves or its notice "
                "is over; 'laissez holdings' shows it"
            )

    def look_for_the_name(self) -> None:
        """A scope that is not there was perhaps mistyped, and so was a level."""
        wanted = self._wanted
        if any(each.code in NOT_THERE for each in self._refused):
            self._hint = scope_meant(self._client, wanted.scope)
        elif wanted.is_gang:
            for each in self._refused:
                self._hint = level_hint(self._levels, wanted.scope, wanted.within, each.code)
                if each.code == Code.BAD_COUNT:
                    self._hint = f"; --separately places {wanted.count:,} single orders"

    def leave(self) -> None:
        """End with the exit code that says how it went."""
        first = [
            Refused(each.id, each.code, f"{each.message}{self._hint}") for each in self._refused[:1]
        ]
        end_with(first, as_json=self._as_json)
        if len(self._filled) < self._wanted.count:
            click.get_current_context().exit(Exit.WAITING)
