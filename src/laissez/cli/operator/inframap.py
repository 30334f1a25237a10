"""The operator's maps, which turn telemetry into floors: `laissez inframap`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from laissez.cli.terminal.amounts import show_duration, show_rate
from laissez.cli.terminal.output import dry_run_option, json_option, say, say_json, say_table
from laissez.cli.terminal.running import (
    FILE,
    for_option,
    mistakes_shown,
    read_file,
    run_until_stopped,
)
from laissez.client import AsyncClient
from laissez.model.message import Message
from laissez.runners.entries import EntryLog
from laissez.runners.inframap_file import read_inframap
from laissez.runners.operating import run_inframap


class InfraMapChecked(Message, frozen=True):
    """What a file was understood to say; prices are in micro-dollars per hour."""

    name: str
    base_micros_per_hour: dict[str, int]
    cost_micros_per_hour: dict[str, int]
    period_us: int
    maps: tuple[str, ...]
    telemetry: tuple[str, ...]
    inventory: int | None


@click.group()
def inframap() -> None:
    """Let power, carbon and load set floors.

    Maps turn telemetry and maintenance windows into prices: floors around a base price, at any
    scope, never below cost.
    They are described in a file; an example is in examples/inframaps.
    """


@inframap.command("run")
@click.argument("file", type=FILE)
@for_option
@click.option("--restore", is_flag=True, help="When it is stopped, set the base prices.")
@dry_run_option
@json_option
def run(file: Path, for_us: int | None, restore: bool, dry_run: bool, as_json: bool) -> None:
    """Steer floors as FILE says, until it is stopped.

    Every change of a floor is a line of its log, with the reason; so is telemetry that can't be
    read, once. Ctrl-C, SIGTERM and --for stop it: the floors stay as they are, unless --restore
    is given.

    With --dry-run it takes one step, says what it would do, and sends nothing.
    """
    described = read_file(file, read_inframap)
    with mistakes_shown(file):
        built = described.build(file.parent)

    async def work(client: AsyncClient, stop: asyncio.Event, log: EntryLog) -> None:
        status = await client.status()
        if status.role != "operator":
            raise click.ClickException(
                f"floors are set by the operator, and this token is of the role {status.role}; "
                "log in with an operator's token"
            )
        await run_inframap(
            client,
            built.composition,
            name=described.spec.name,
            telemetry=built.telemetry,
            inventory=built.inventory,
            scopes=built.scopes,
            restore_to=built.at_rest if restore else None,
            stop=stop,
            log=log,
            dry_run=dry_run,
        )

    run_until_stopped(work, for_us=for_us, as_json=as_json)


@inframap.command("check")
@click.argument("file", type=FILE)
@json_option
def check(file: Path, as_json: bool) -> None:
    """Read FILE, and say what it means.

    Nothing is sent to the service. What is wrong with the file is shown at its line.
    """
    described = read_file(file, read_inframap)
    with mistakes_shown(file):
        built = described.build(file.parent)
    spec = described.spec
    maps = tuple(getattr(each, "label", type(each).__name__) for _, each in built.composition.maps)
    bases = spec.base_prices()
    inventory = None if built.inventory is None else len(built.inventory)
    if as_json:
        telemetry = tuple(spec.telemetry)
        say_json(
            InfraMapChecked(
                spec.name, bases, dict(spec.cost), spec.every, maps, telemetry, inventory
            )
        )
        return
    say(f"{spec.name}: {', '.join(maps) or 'no maps'}, a step every {show_duration(spec.every)}")
    say_table(
        "scope",
        "base",
        "never below",
        rows=[
            (scope, show_rate(bases.get(scope)), show_rate(spec.cost.get(scope)))
            for scope in dict.fromkeys((*bases, *spec.cost))
        ],
        right=("base", "never below"),
        nothing="there are no prices",
    )
