"""Adapters that trade for a workload: `laissez adapter`."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path

import click

from laissez.cli.terminal import clock
from laissez.cli.terminal.amounts import show_duration
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
from laissez.runners.adapter_file import KINDS, read_adapter
from laissez.runners.entries import EntryLog
from laissez.runners.live import run_adapter
from laissez.runners.memory import AdapterMemory, BadMemory, Remembered, alone_with, read_memory


class AdapterKind(Message, frozen=True):
    """A ready-made adapter."""

    adapter: str
    help: str


class AdapterChecked(Message, frozen=True):
    """What a file was understood to say."""

    adapter: str
    name: str
    scopes: tuple[str, ...]
    period_us: int
    budget_micros: int | None
    most_micros_per_hour: int | None
    message: str


@click.group()
def adapter() -> None:
    """Let an adapter trade for a workload.

    An adapter says to the market what a workload's nodes are worth, and follows the prices by
    itself. It is described in a file; examples are in examples/adapters.
    """


@adapter.command("run")
@click.argument("file", type=FILE)
@for_option
@click.option("--release", is_flag=True, help="When it is stopped, give back what it holds.")
@click.option("--fresh", is_flag=True, help="Forget earlier runs: budget and deadline begin now.")
@click.option(
    "--memory",
    "memory_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What it remembers between two runs; FILE.memory if left out.",
)
@dry_run_option
@json_option
def run(
    file: Path,
    for_us: int | None,
    release: bool,
    fresh: bool,
    memory_path: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Trade as FILE says, until the work is done or it is stopped.

    Everything that it does, wins or loses is a line of its log, with the reason. Ctrl-C, SIGTERM
    and --for stop it: it takes back its orders, and keeps what it holds unless --release is given.
    Started again it goes on where it was; a second one at the same time is refused.

    With --dry-run it takes one step, says what it would do, and sends nothing.
    """
    described = read_file(file, read_adapter)
    path = memory_path or file.with_name(f"{file.name}.memory")

    async def work(client: AsyncClient, stop: asyncio.Event, log: EntryLog) -> None:
        status = await client.status()
        if status.tenant is None:
            raise click.ClickException(
                f"an adapter trades for a tenant, and this token is of the role {status.role}; "
                "log in with a tenant's token"
            )
        kept = None if fresh else read_memory(path, described.spec.name)
        remembered = kept or Remembered(described.spec.name, status.at)
        with mistakes_shown(file):
            built = described.build(remembered.began_us, file.parent)
        await run_adapter(
            client,
            built.adapter,
            built.app,
            telemetry=built.telemetry,
            left_out_when_stale=built.left_out_when_stale,
            memory=AdapterMemory(remembered, path),
            stop=stop,
            log=log,
            release_on_stop=release,
            dry_run=dry_run,
        )

    try:
        with nullcontext() if dry_run else alone_with(path):
            run_until_stopped(work, for_us=for_us, as_json=as_json)
    except BadMemory as error:
        raise click.ClickException(str(error)) from None


@adapter.command("check")
@click.argument("file", type=FILE)
@json_option
def check(file: Path, as_json: bool) -> None:
    """Read FILE, and say what it means and what it may owe at most.

    Nothing is sent to the service. What is wrong with the file is shown at its line.
    """
    described = read_file(file, read_adapter)
    with mistakes_shown(file):
        described.build(clock.now_us(), file.parent)
    spec = described.spec
    message = f"it {spec.describe()}; it may owe {described.most_owed()}"
    if as_json:
        budget = None if spec.budget is None else spec.budget.total
        most = spec.most_per_hour()
        say_json(
            AdapterChecked(
                described.kind, spec.name, spec.scopes, spec.period, budget, most, message
            )
        )
        return
    every = show_duration(spec.period)
    say(f"{spec.name} ({described.kind}), under {', '.join(spec.scopes)}, a step every {every}")
    say(message)


@adapter.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the ready-made adapters."""
    if as_json:
        say_json([AdapterKind(name, help) for name, help in KINDS.items()])
        return
    say_table("adapter", "what it does", rows=KINDS.items(), nothing="there are none")
