"""What is held: looking at it, watching it, following the rate so far, giving it back."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import NamedTuple

import click

from laissez.cli.tenant.standing import (
    cost_in_words,
    counts_down,
    giving_back_costs,
    is_bound,
    is_called,
    leaving_costs,
    promises_in_words,
    standing_lines,
    together_in_words,
)
from laissez.cli.tenant.trying import check_is_tenant, not_held, own_holding
from laissez.cli.terminal import clock, connection, listening
from laissez.cli.terminal.amounts import (
    counted,
    show_attributes,
    show_duration,
    show_rate,
    show_time,
)
from laissez.cli.terminal.answers import (
    end_with,
    refusal_in,
    say_answer,
    say_answers,
    send_all_shown,
)
from laissez.cli.terminal.completing import complete_holding, complete_tenant
from laissez.cli.terminal.documents import WouldChange, WouldRelease
from laissez.cli.terminal.nearby import did_you_mean, near_names_shown, tenant_meant
from laissez.cli.terminal.output import (
    ask,
    dry_run_option,
    few,
    json_option,
    say,
    say_described,
    say_json,
    warn,
    yes_option,
)
from laissez.cli.terminal.parameters import dollars
from laissez.client import Client
from laissez.client.errors import Refusal
from laissez.model import Answer, ChangeLimit, Code, Holding, Promise, Refused, Release

TENTH_US = 100_000


@click.command()
@click.option("--watch", is_flag=True, help="Go on, and show every change; Ctrl-C ends it.")
@click.option(
    "--tenant",
    shell_complete=complete_tenant,
    help="Whose; for the operator, who sees all without it.",
)
@json_option
def holdings(watch: bool, tenant: str | None, as_json: bool) -> None:
    """List what is held, and at what rate.

    Below stands what is called and will be lost, until when you are bound, and what is promised to
    you, each with the time that is left. With --watch and --json each change is one line: the whole
    list as it is then; what is promised is in 'laissez orders --json'.
    """
    with connection.connect() as client:
        since = client.status().sequence if watch else None
        shown = _View(client.holdings(tenant), () if as_json else client.promises(tenant))
        if tenant is not None and not shown.held and (nobody := tenant_meant(client, tenant)):
            warn(nobody)
        _show(shown, as_json=as_json)
        if not watch:
            return
        looks_on = sys.stdout.isatty() and not as_json
        for said in listening.listen(client, after=since, rates=True):
            if said is None:
                # Nothing is new but the time.
                if looks_on and counts_down(*shown, clock.now_us()):
                    click.clear()
                    _show(shown, as_json=False)
                continue
            now = _View(client.holdings(tenant), () if as_json else client.promises(tenant))
            if now != shown:
                shown = now
                if sys.stdout.isatty():
                    click.clear()
                _show(shown, as_json=as_json)


class _View(NamedTuple):
    held: tuple[Holding, ...]
    promised: tuple[Promise, ...]


def _show(shown: _View, *, as_json: bool) -> None:
    if as_json:
        say_json(shown.held)
        return
    now = clock.now_us()
    rows = [
        (
            each.resource,
            show_rate(each.rate),
            show_rate(each.limit),
            f"{show_time(each.since, now)}{_safety(each, now)}",
            show_attributes(each.attributes),
        )
        for each in shown.held
    ]
    columns = ("resource", "rate", "limit", "charged since", "attributes")
    say_described(*columns, rows=rows, right=("rate", "limit"), nothing="nothing is held")
    for line in standing_lines(*shown, now):
        say(line)


def _safety(held: Holding, now_us: int) -> str:
    """How long a guard keeps it from being lost to price, if it still does."""
    left_us = (held.safe_until or 0) - now_us
    return f", safe for {show_duration(left_us - left_us % TENTH_US)}" if left_us > 0 else ""


@click.command()
@click.argument("resource", shell_complete=complete_holding)
@click.argument("amount", type=dollars)
@dry_run_option
@json_option
def limit(resource: str, amount: int, dry_run: bool, as_json: bool) -> None:
    """Set how far you follow a rate.

    RESOURCE stays yours until its rate is above AMOUNT; if it is already, it is lost at once, or as
    soon as no guard keeps it any longer.
    """
    with connection.connect() as client:
        if not dry_run:
            with near_names_shown(client, resource):
                answer = client.set_limit(resource, amount)
                held = () if as_json else client.holdings()
            say_answer(answer, as_json=as_json)
            for each in held:
                if each.resource == resource:
                    _say_how_long(each)
            return
        check_is_tenant(client, ChangeLimit)
        found = own_holding(client.holdings(), resource)
    rate, wanted = show_rate(found.rate), show_rate(amount)
    now = clock.now_us()
    if is_called(found):
        raise Refusal(Code.ALREADY_CALLED, _already_called(found))
    if is_bound(found, now) and amount < (found.bound_price or 0):
        until = show_time(found.bound_until, now)
        price = show_rate(found.bound_price)
        message = f"{resource} is bound at {price} until {until}; then its limit would be {wanted}"
    elif found.rate > amount:
        message = f"{resource} would be lost: its rate is {rate}, above {wanted}"
    else:
        message = f"{resource} would stay yours at {rate}, until the rate is above {wanted}"
    _say_would(WouldChange((resource,), message), as_json=as_json)


def _say_how_long(held: Holding) -> None:
    """A limit below the rate does nothing at first while a guard keeps what was won."""
    now = clock.now_us()
    if held.asked_limit is not None and is_bound(held, now):
        price, asked = show_rate(held.bound_price), show_rate(held.asked_limit)
        say(
            f"you are bound at {price} until {show_time(held.bound_until, now)}; then it is {asked}"
        )
        return
    safe = _safety(held, now).removeprefix(", ")
    if safe and held.rate > held.limit:
        say(f"it is below the rate, {show_rate(held.rate)}; {safe} more, then it goes")


def _already_called(held: Holding) -> str:
    return (
        f"{held.resource!r} is called, and its limit stays as it is until then; save your work and "
        "release it"
    )


def _say_would(would: WouldChange, *, as_json: bool) -> None:
    if as_json:
        say_json(would)
    else:
        say(would.message)


@click.command()
@click.argument("resources", metavar="[RESOURCE]...", nargs=-1, shell_complete=complete_holding)
@click.option("--all", "every", is_flag=True, help="All that you hold; asks first.")
@yes_option
@dry_run_option
@json_option
def release(
    resources: tuple[str, ...], every: bool, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Give held resources back, or what is promised to you.

    Who won something may be bound to it for a while: to leave earlier costs the rest of that time,
    and to give a promise back costs all of it. What was won with 'buy --together' goes together.
    What it costs and what else goes is said before, and asked for without --yes.
    """
    if every == bool(resources):
        raise click.UsageError("name the resources to give back, or say --all")
    resources = tuple(dict.fromkeys(resources))
    with connection.connect() as client:
        if dry_run:
            check_is_tenant(client, Release)
            view = _View(client.holdings(), client.promises())
            _say_what_would_go(view, resources, as_json=as_json)
            return
        view = _own_view(client)
        if every:
            resources = tuple(each.resource for each in view.held)
        _say_what_it_means(view, resources, every=every, yes=yes)
        wanted = [Release(resource) for resource in resources]
        answers = send_all_shown(client, wanted, "releasing", as_json=as_json)
        hints = _hints(client, resources, answers)
        still_coming = client.promises() if every and not as_json else ()
    if still_coming:
        names = few([each.resource for each in still_coming])
        warn(f"laissez: still promised to you: {names}; name it to give it back, too")
    say_answers(answers, as_json=as_json, nothing="nothing is held", hints=hints)


def _own_view(client: Client) -> _View:
    """Empty for who is no tenant, and is refused."""
    if client.status().tenant is None:
        return _View((), ())
    return _View(client.holdings(), client.promises())


class _Going(NamedTuple):
    """What goes if some is given back: that itself, and what it was won together with."""

    held: tuple[Holding, ...]
    promised: tuple[Promise, ...]
    others: _View

    @property
    def other_names(self) -> tuple[str, ...]:
        held = [each.resource for each in self.others.held]
        return (*held, *(each.resource for each in self.others.promised))

    def owed(self, now_us: int) -> int:
        held = sum(leaving_costs(each, now_us) for each in (*self.held, *self.others.held))
        promised = (*self.promised, *self.others.promised)
        return held + sum(giving_back_costs(each) for each in promised)

    def in_words(self, now_us: int) -> str:
        costs = (
            together_in_words(self.other_names),
            cost_in_words((*self.held, *self.others.held), now_us),
            promises_in_words((*self.promised, *self.others.promised)),
        )
        return "\n".join(each for each in costs if each)


def _going(view: _View, resources: Collection[str]) -> _Going:
    """What is held under a name goes rather than what is promised under it."""
    held = tuple(each for each in view.held if each.resource in resources)
    at_hand = {each.resource for each in held}
    named = set(resources) - at_hand
    promised = tuple(each for each in view.promised if each.resource in named)
    orders = {(each.tenant, each.together) for each in held if each.together is not None}
    orders |= {(each.tenant, each.order) for each in promised if each.together}
    others = _View(
        tuple(
            each
            for each in view.held
            if (each.tenant, each.together) in orders and each not in held
        ),
        tuple(
            each
            for each in view.promised
            if each.together and (each.tenant, each.order) in orders and each not in promised
        ),
    )
    return _Going(held, promised, others)


def _say_what_it_means(view: _View, resources: Sequence[str], *, every: bool, yes: bool) -> None:
    """Before it is done. Whoever leaves what it may leave, and names it all, is not asked."""
    going = _going(view, set(resources))
    now = clock.now_us()
    told = going.in_words(now)
    if not yes and (going.owed(now) or going.other_names or (every and resources)):
        count = len(going.held) + len(going.promised) + len(going.other_names)
        ask(f"Give back {counted(count, 'resource')}?", after=told)
    elif told:
        warn(f"laissez: {told}")


def _hints(
    client: Client, resources: Sequence[str], answers: Sequence[Answer | Refused]
) -> tuple[str, ...]:
    """For each that does not exist, what may have been meant. What was lost a moment ago was meant,
    and nothing else."""
    unknown = [
        (no := refusal_in(each)) is not None and no.code == Code.UNKNOWN_RESOURCE
        for each in answers
    ]
    if not any(unknown):
        return ()
    held = [each.resource for each in client.holdings()]
    pairs = zip(resources, unknown, strict=False)
    return tuple(did_you_mean(each, held) if is_unknown else "" for each, is_unknown in pairs)


def _say_what_would_go(view: _View, resources: Sequence[str], *, as_json: bool) -> None:
    """All that is held where nothing is named."""
    known = {each.resource for each in view.promised}
    refused = not_held(view.held, [each for each in resources if each not in known])
    going = _going(view, set(resources) or {each.resource for each in view.held})
    held = tuple(each.resource for each in going.held)
    back = tuple(each.resource for each in going.promised)
    now = clock.now_us()
    parts = []
    if held:
        parts.append(f"{counted(len(held), 'resource')} would be given back: {few(held)}")
    parts.append(going.in_words(now))
    message = "\n".join(each for each in parts if each) or "nothing is held"
    if as_json:
        say_json(WouldRelease(held, back, going.owed(now), message, going.other_names))
    elif held or back or not resources:
        say(message)
    end_with(refused, as_json=as_json)
