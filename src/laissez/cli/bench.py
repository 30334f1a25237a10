"""Measuring the service on this machine: `laissez bench service`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from laissez.bench.service import TRADERS, Load, all_loads, measure
from laissez.bench.trader import IN_FLIGHT_MAX
from laissez.cli.output import json_option


@click.group()
def bench() -> None:
    """Measure the service on this machine."""


@bench.command()
@click.option("--connections", type=int, help="How many; with it, only this load is run.")
@click.option("--rate", type=int, help="Requests offered per second, over all connections.")
@click.option(
    "--in-flight",
    type=click.IntRange(1, IN_FLIGHT_MAX),
    default=TRADERS.in_flight,
    show_default=True,
    help="Requests under way on each connection, without --rate.",
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
    in_flight: int,
    seconds: float,
    seed: int,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Measure a service under load.

    Starts a server and a load, each a process of its own, on this machine's loopback, and prints
    what the load saw as JSON; what is going on is said on stderr. Three loads are run: 200
    connections that each send the next request when the last is answered; under at_a_fixed_rate,
    as many that send at a rate, whatever the answers take; and under many_connections, 1,000 at a
    tenant's pace. At a rate, a latency counts from the instant at which the request was due.
    'durable' says that every acknowledged command was found in the journal, which is synced before
    anything is acknowledged.
    """

    def say(sentence: str) -> None:
        if not as_json:
            click.echo(sentence, err=True)

    if connections is None and rate is None and in_flight == TRADERS.in_flight:
        found: object = all_loads(say, seconds=seconds, seed=seed, folder=folder)
    else:
        load = Load(
            TRADERS.connections if connections is None else connections,
            rate,
            in_flight,
            seconds,
            seed=seed,
        )
        found = measure(load, say, folder)
    click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
