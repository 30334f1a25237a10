"""What a gang is in words: so many resources of one domain at one instant, or none.

While it waits it presses on nobody, so what helps is not what helps a single order: its limit may
be raised, it may ask for fewer, or for a wider domain. All that is said follows from the quote of
so many, which never shows what a holder would bear.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
import msgspec

from laissez.cli.tenant.trying import say_if_unseen
from laissez.cli.terminal.amounts import show_rate
from laissez.cli.terminal.documents import Previewed
from laissez.cli.terminal.levels import (
    NamedLevels,
    in_one,
    levels_for_several,
    names_in,
    within_of,
)
from laissez.cli.terminal.nearby import did_you_mean
from laissez.cli.terminal.output import say, say_json
from laissez.client import Client
from laissez.client.errors import Refusal
from laissez.model import Code, OpenOrder, Quoted

NO_PRICE = "several at once have no price: they press on nobody while they wait; say --limit alone"

KEPT_TOGETHER = "when one of them goes, the exchange releases the others"


class WhatToBuy(msgspec.Struct, frozen=True):
    """So many under a scope: by single orders, or as a gang within a level."""

    scope: str
    count: int
    is_gang: bool = False
    within: int | str | None = None
    together: bool = False


def check_terms(
    count: int,
    within: str | None,
    price: int | None,
    limit: int | None,
    *,
    separately: bool,
    together: bool,
) -> None:
    """Do the options of an order fit each other? For several at once they are not those of one."""
    if together and (separately or count == 1):
        raise click.UsageError(
            "--together is for several that are won at once; say how many, without --separately: "
            "--count 8 --together"
        )
    if within is not None and separately:
        raise click.UsageError(
            "--within is for resources that are won together, and --separately are single orders; "
            "say one of them"
        )
    if within is not None and count == 1:
        raise click.UsageError(
            f"--within is for several at once; say how many: --count 8 --within {within}"
        )
    if count > 1 and not separately and price is not None:
        raise click.UsageError(
            f"{NO_PRICE}, or --separately for {count:,} single orders, which do press"
        )
    if price is None and limit is None:
        more = "" if count > 1 and not separately else ", --price 3.00 or both"
        raise click.UsageError(f"say what you would pay an hour: --limit 3.20{more}")


def level_hint(levels: NamedLevels, scope: str, within: int | str | None, code: str) -> str:
    """Beside a refusal because of a level: the one that may have been meant."""
    if code != Code.BAD_WITHIN or not isinstance(within, str):
        return ""
    return did_you_mean(within, levels_for_several(levels, scope))


@contextmanager
def near_levels_shown(levels: NamedLevels, scope: str, within: int | str | None) -> Iterator[None]:
    """A refusal because of a level says which one may have been meant."""
    try:
        yield
    except Refusal as refused:
        hint = level_hint(levels, scope, within, refused.code)
        raise Refusal(refused.code, f"{refused.message}{hint}", refused.retry_after_ms) from None


def quote_of_several(
    client: Client, scope: str, count: int, within: int | str | None, levels: NamedLevels
) -> Quoted | None:
    """None where whoever asks may not see it; a wrong level says which one was meant."""
    try:
        with near_levels_shown(levels, scope, within):
            return client.quote(scope, count=count, within=within)
    except Refusal as refused:
        if refused.code == Code.SCOPE_NOT_VISIBLE:
            return None
        raise


def why_gang_waits(order: OpenOrder, quote: Quoted | None, levels: NamedLevels) -> str:
    """What a gang waits for, and what would help, for who has never heard of one."""
    where = in_one(levels, order.scope, order.within)
    wanted = f"{order.count:,} {where}"
    limit = show_rate(order.limit)
    takes = (
        f"it takes {wanted} at one instant, or none: those that are free, and those whose holders "
        f"would not pay your limit of {limit}"
    )
    if quote is None:
        return f"{takes}; how much there is now can't be said, because you see no quote there"
    if quote.rate is None:
        return (
            f"{takes}; now there are not so many that are neither yours nor about to change hands"
        )
    rate = show_rate(quote.rate)
    if quote.idle and quote.rate > order.limit:
        return (
            f"{wanted} are free, but at up to {rate} each, above your limit of {limit}; "
            f"'laissez amend {order.order} --limit' raises it"
        )
    if quote.idle:
        return f"{wanted} have just become free, within your limit; look at your holdings"
    return (
        f"{takes}; not so many are free, and where it is cheapest they are charged up to {rate} "
        "each; raise the limit, ask for fewer or for a wider place, or wait until somebody leaves"
    )


def say_gang_preview(client: Client, wanted: WhatToBuy, limit: int, *, as_json: bool) -> None:
    """What a gang would do now, as far as its tenant can see."""
    scope, count, within = wanted.scope, wanted.count, wanted.within
    levels = client.status().levels
    names = within_of(levels, scope, within)
    if names is not None and names < names_in(scope):
        known = ", ".join(levels_for_several(levels, scope)) or "none finer"
        raise Refusal(Code.BAD_WITHIN, f"{within} is no level at or under {scope}: {known}")
    quote = quote_of_several(client, scope, count, within, levels)
    if quote is None:
        say_if_unseen(client, scope)
    fills = quote is not None and quote.idle and (quote.rate or 0) <= limit
    told = _forecast(scope, count, within, limit, quote, levels)
    if wanted.together:
        told = f"{told}; {KEPT_TOGETHER}"
    if not as_json:
        say(told)
        return
    rate, idle = (None, False) if quote is None else (quote.rate, quote.idle)
    say_json(Previewed(scope, None, limit, rate, idle, fills, told, count, names, wanted.together))


def _forecast(
    scope: str,
    count: int,
    within: int | str | None,
    limit: int,
    quote: Quoted | None,
    levels: NamedLevels,
) -> str:
    wanted = f"{count:,} {in_one(levels, scope, within)}"
    rests = (
        "the order would wait, pressing on nobody, until all are free or held by others whose "
        f"limits are below {show_rate(limit)}"
    )
    if quote is None:
        return f"you see no quote of {scope}; if not {wanted} are free at your limit, {rests}"
    if quote.rate is None:
        return f"there are not {wanted} that are not yours already; {rests}"
    rate = show_rate(quote.rate)
    if quote.idle and quote.rate <= limit:
        most = show_rate(quote.rate * count)
        return f"{wanted} are free: all are yours now, at up to {rate} each, {most} together"
    if quote.idle:
        return f"{wanted} are free, but at up to {rate} each, above your limit; {rests}"
    return (
        f"not {wanted} are free; where it is cheapest they are charged up to {rate} each; {rests}, "
        "which may be so now: what holders would bear is not shown"
    )
