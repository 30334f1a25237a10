"""Measuring the service on this machine: `laissez bench service`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from laissez.bench.service import TRADERS, ServiceLoad, all_loads, measure_rounds
from laissez.bench.trader import IN_FLIGHT_MAX
from laissez.cli.terminal.output import json_option


@click.group()
def bench() -> None:
    """Measure the service on this machine."""


@bench.command()
@click.option("--connections", type=int, help="How many; with it, only this load is run.")
@click.option("--rate", type=int, help="Requests offered per second, over all connections.")
@click.option(
    "--under-way",
    type=click.IntRange(1),
    default=TRADERS.under_way,
    show_default=True,
    help="Without --rate: requests under way, over all connections; at most 32 on each.",
)
@click.option(
    "--rounds", type=click.IntRange(1), default=3, show_default=True, help="Of which the median."
)
@click.option("--seconds", default=TRADERS.seconds, show_default=True, help="Length of a load.")
@click.option("--seed", default=1, show_default=True, help="For what the clients ask.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where the journal is put for the time: it is that disk which is measured.",
)
@json_option
def service(
    connections: int | None,
    rate: int | None,
    under_way: int,
    rounds: int,
    seconds: float,
    seed: int,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Measure a service under load.

    Starts a server and a load, each a process of its own, on this machine's loopback, and prints
    what the load saw as JSON; what is going on is said on stderr. Three loads are run: 200
    connections that send the next request when one is answered; under at_a_fixed_rate, as many
    that send at a rate, whatever the answers take; and under many_connections, 1,000 at a tenant's
    pace. At a rate, a latency counts from the instant at which the request was due.
    Of several rounds the one with the median p99 is shown, with the p99 of all beside it.
    'ratio' is what the service reached as a share of 'limit', the limit of this machine: a server
    that writes and sends back the same requests, without a market, measured in turns with the
    first load. It depends on the disk of --folder and on --under-way: on a slow disk both wait for
    it and the ratio goes to 1, on a fast one it is lowest. 'server_us_ratio' is the limit's
    processor time for a request as a share of the service's: steadier, and the one to compare
    between machines. 'folder' and 'under_way' say what was measured.
    'durable' says that every acknowledged command was found in the journal, which is synced before
    anything is acknowledged.
    """

    def say(sentence: str) -> None:
        if not as_json:
            click.echo(sentence, err=True)

    if under_way > IN_FLIGHT_MAX * (connections or TRADERS.connections):
        raise click.UsageError(f"at most {IN_FLIGHT_MAX} requests are under way on a connection")
    if connections is None and rate is None and under_way == TRADERS.under_way:
        found: object = all_loads(say, rounds=rounds, seconds=seconds, seed=seed, folder=folder)
    else:
        load = ServiceLoad(
            TRADERS.connections if connections is None else connections,
            rate,
            under_way,
            seconds,
            seed=seed,
        )
        found = measure_rounds(load, rounds, say, folder).document()
    click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
