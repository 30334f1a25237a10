"""Measuring the service on this machine: `laissez bench service`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from laissez.bench.service import TRADERS, Load, both, measure
from laissez.cli.output import json_option


@click.group()
def bench() -> None:
    """Measure the service on this machine."""


@bench.command()
@click.option("--connections", type=int, help="How many; with it, only this load is run.")
@click.option("--rate", type=int, help="Requests offered per second, over all connections.")
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
    seconds: float,
    seed: int,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Measure a service under load.

    Starts a server and a load, each a process of its own, on this machine's loopback, and prints
    what the load saw as JSON; what is going on is said on stderr. Two loads are run: 200 busy
    connections, and, under many_connections, 1,000 at a tenant's pace. A request's latency counts
    from the instant at which it was due. 'durable' says that every acknowledged command was found
    in the journal, which is synced before anything is acknowledged.
    """

    def say(sentence: str) -> None:
        if not as_json:
            click.echo(sentence, err=True)

    if connections is None and rate is None:
        found: object = both(say, seconds=seconds, seed=seed, folder=folder)
    else:
        load = Load(
            TRADERS.connections if connections is None else connections,
            TRADERS.requests_per_s if rate is None else rate,
            seconds,
            seed=seed,
        )
        found = measure(load, say, folder)
    click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
