"""The stream: what happens, one line each, as it happens."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from laissez.cli.terminal import connection
from laissez.cli.terminal.amounts import show_clock, show_rate
from laissez.cli.terminal.completing import complete_scope
from laissez.cli.terminal.output import json_option, say, say_json
from laissez.cli.terminal.sentences import sentence
from laissez.model import Happened, Quotes, Rates, Resync


@click.command()
@click.option("--after", type=click.IntRange(0), help="Begin after this sequence number.")
@click.option("--rates", is_flag=True, help="Also the rates of what you hold, once a second.")
@click.option(
    "--quotes",
    metavar="SCOPE",
    multiple=True,
    shell_complete=complete_scope,
    help="Also the quotes of a scope.",
)
@json_option
def events(after: int | None, rates: bool, quotes: tuple[str, ...], as_json: bool) -> None:
    """Follow what happens, as it happens.

    A tenant sees what concerns it, the operator everything. With --json each line is one message.
    Ctrl-C ends it.
    """
    with connection.connect() as client:
        for said in client.events(after=after, rates=rates, quotes=quotes):
            if as_json:
                say_json(said)
            else:
                for line in _lines(said):
                    say(line)
            sys.stdout.flush()


def _lines(said: Happened | Rates | Quotes | Resync) -> Iterator[str]:
    if isinstance(said, Happened):
        for event in said.events:
            yield f"{show_clock(event.at)}  {said.sequence:>8}  {sentence(event)}"
    elif isinstance(said, Rates):
        for resource, rate in said.rates.items():
            yield f"{show_clock(said.at)}  {'rate':>8}  {resource} costs {show_rate(rate)}"
    elif isinstance(said, Quotes):
        for scope, quote in said.quotes.items():
            if quote is None:
                told = "nothing to be had"
            else:
                told = f"{show_rate(quote.rate)}, {'free now' if quote.idle else 'held'}"
            yield f"{show_clock(said.at)}  {'quote':>8}  {scope}: {told}"
    else:
        yield f"what happened up to {said.sequence:,} is no longer kept: {said.message}"
