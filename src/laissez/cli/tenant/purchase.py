"""The orders of one `buy`, from placing to the last word on them.

Whatever happens meanwhile, an interruption or a service that goes away, what is known of them is
told: they are in the market, whoever waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from laissez.cli.tenant.waiting import waiting_shown
from laissez.cli.terminal.amounts import counted, show_attributes, show_rate
from laissez.cli.terminal.answers import MANY_PATIENCE_S, end_with, refusals_in
from laissez.cli.terminal.documents import Bought
from laissez.cli.terminal.exits import Exit
from laissez.cli.terminal.nearby import NOT_THERE, scope_meant
from laissez.cli.terminal.output import few, progress_bar, say, say_described, say_json, warn
from laissez.cli.terminal.sentences import LINES_MAX
from laissez.client import Client, OrderEnd
from laissez.client.bulk import Outcomes
from laissez.client.errors import LaissezError
from laissez.model import (
    Answer,
    Cancelled,
    Expired,
    Filled,
    Notice,
    Placed,
    PlaceOrder,
    Refused,
)

US_PER_S = 1_000_000


class Purchase:
    def __init__(self, client: Client, scope: str, count: int, *, as_json: bool) -> None:
        self._client = client
        self._scope = scope
        self._count = count
        self._as_json = as_json
        self._outcomes: Outcomes = {}
        self._placed: dict[str, Placed] = {}
        self._placed_at: dict[str, int] = {}
        self._filled: dict[str, Filled] = {}
        self._ended: list[str] = []
        self._unknown: list[str] = []
        self._hint = ""
        self._was_cut_off = False

    @property
    def _waiting(self) -> list[str]:
        over = {*self._filled, *self._ended, *self._unknown}
        return [order for order in self._placed if order not in over]

    @property
    def _refused(self) -> tuple[Refused, ...]:
        return refusals_in([said for _, said in sorted(self._outcomes.items())])

    # Ordering and waiting ---------------------------------------------------------------------

    def order(self, price: int | None, limit: int | None, expires: int | None) -> None:
        instruction = PlaceOrder(self._scope, price, limit, None, expires)
        try:
            with progress_bar("ordering", as_json=self._as_json or self._count == 1) as progress:
                self._client.send_all(
                    [instruction] * self._count,
                    progress=progress,
                    outcomes=self._outcomes,
                    patience_s=MANY_PATIENCE_S,
                )
        except LaissezError:
            self._was_cut_off = True
            raise
        finally:
            self._read_outcomes()

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

    def _note(self, events: Sequence[Notice]) -> None:
        for event in events:
            if isinstance(event, Filled | Expired | Cancelled) and event.order in self._placed:
                if isinstance(event, Filled):
                    self._filled[event.order] = event
                elif event.order not in self._ended:
                    self._ended.append(event.order)

    def wait(self, length_us: int) -> None:
        """Until no order waits any longer, or so long."""
        waiting = self._waiting
        if not waiting:
            return
        first = self._placed[waiting[0]]
        after = min(self._placed_at[order] for order in waiting) - 1
        wait_s = length_us / US_PER_S
        with waiting_shown(
            self._client,
            self._scope,
            price=first.limit if first.price is None else first.price,
            limit=first.limit,
            length_us=length_us,
            filled=self._how_far,
            as_json=self._as_json,
        ):
            for end in self._client.follow_orders(waiting, after=after, wait_s=wait_s):
                self._note_end(end)

    def _note_end(self, end: OrderEnd) -> None:
        if end.filled is not None:
            self._filled[end.order] = end.filled
        elif end.fate == "unknown":
            self._unknown.append(end.order)
        else:
            self._ended.append(end.order)

    # Telling ----------------------------------------------------------------------------------

    def report(self) -> None:
        filled = tuple(self._filled.values())
        if self._as_json:
            waiting = tuple(self._placed[order] for order in self._waiting)
            ended, unknown = tuple(self._ended), tuple(self._unknown)
            say_json(
                Bought(self._scope, self._count, filled, waiting, ended, unknown, self._refused)
            )
            return
        if filled:
            self._show(filled[:LINES_MAX])
        if len(filled) > LINES_MAX:
            say(f"... and {len(filled) - LINES_MAX:,} more; --json has all")
        say(self._summary())

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
        return f"{len(self._filled):,} of {self._count:,} filled"

    def _summary(self) -> str:
        parts = [self._how_far()]
        waiting = self._waiting
        if waiting:
            verb = "waits" if len(waiting) == 1 else "wait"
            parts.append(f"{len(waiting):,} {verb}: {few(waiting)}")
        if self._ended:
            parts.append(f"{len(self._ended):,} ended unfilled: {few(self._ended)}")
        if self._unknown:
            gone = few(self._unknown)
            parts.append(f"of {gone} it is no longer known; see 'laissez holdings'")
        if self._refused:
            parts.append(f"{len(self._refused):,} refused")
        return "; ".join(parts)

    def say_what_lives_on(self) -> None:
        """For who waits no longer: what is left in the market, and how to take it back."""
        if self._as_json:
            return
        left = self._count - len(self._outcomes)
        if left:
            told = f"laissez: stopped with {counted(left, 'order')} left"
            if self._was_cut_off:
                told += (
                    "; some may be in the market: 'laissez orders' and 'laissez holdings' show them"
                )
            warn(told)
        waiting = self._waiting
        if len(waiting) == 1:
            warn(f"laissez: the order lives on; 'laissez cancel {waiting[0]}' ends it")
        elif waiting:
            words = "--all" if len(waiting) > LINES_MAX else " ".join(waiting)
            warn(f"laissez: the orders live on; 'laissez cancel {words}' ends them")

    def look_for_the_name(self) -> None:
        """A scope that is not there was perhaps mistyped."""
        if any(each.code in NOT_THERE for each in self._refused):
            self._hint = scope_meant(self._client, self._scope)

    def leave(self) -> None:
        """End with the exit code that says how it went."""
        first = [
            Refused(each.id, each.code, f"{each.message}{self._hint}") for each in self._refused[:1]
        ]
        end_with(first, as_json=self._as_json)
        if len(self._filled) < self._count:
            click.get_current_context().exit(Exit.WAITING)
