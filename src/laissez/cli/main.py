"""The entry point: which commands there are, and what becomes of their errors.

`COMMANDS` names every command, where it lives and what it does in one line. Its module is imported
when it is used: `laissez --help` needs none of them. The function in the module has the name of
the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from laissez import __version__
from laissez.cli.exits import MEANINGS, Exit, Failure, tell_failure, usage_failure


class Entry(NamedTuple):
    """A command: its name, its module, and its help in one line."""

    name: str
    module: str
    help: str


COMMANDS: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    (
        "The service",
        (
            Entry("up", "laissez.cli.up", "Start the service."),
            Entry("login", "laissez.cli.access", "Remember a service and the token for it."),
            Entry("logout", "laissez.cli.access", "Forget the service and the token."),
            Entry("status", "laissez.cli.access", "Say who you are, and where the market is."),
        ),
    ),
    (
        "Buying",
        (
            Entry("quote", "laissez.cli.orders", "Say what a resource would cost now."),
            Entry("buy", "laissez.cli.buying", "Order resources under a scope."),
            Entry("orders", "laissez.cli.orders", "List the orders that wait."),
            Entry("amend", "laissez.cli.orders", "Change the terms of an order."),
            Entry("cancel", "laissez.cli.orders", "End orders."),
        ),
    ),
    (
        "Holding",
        (
            Entry("holdings", "laissez.cli.holdings", "List what is held, and at what rate."),
            Entry("limit", "laissez.cli.holdings", "Set how far you follow a rate."),
            Entry("release", "laissez.cli.holdings", "Give held resources back."),
            Entry("bill", "laissez.cli.billing", "Say what is owed, and explain it."),
            Entry("events", "laissez.cli.events", "Follow what happens, as it happens."),
        ),
    ),
    (
        "Planning",
        (
            Entry(
                "deadline",
                "laissez.cli.deadline",
                "Finish in time on capacity that comes and goes.",
            ),
        ),
    ),
    (
        "Trading",
        (Entry("adapter", "laissez.cli.adapter", "Let an adapter trade for a workload."),),
    ),
    (
        "Evaluating",
        (
            Entry("sim", "laissez.cli.sim", "Try a market on your own cluster."),
            Entry(
                "reproduce",
                "laissez.cli.reproduce",
                "Run the simulations behind a figure, and show it.",
            ),
        ),
    ),
    (
        "Operating",
        (
            Entry("topology", "laissez.cli.topology", "Add, show and take out resources."),
            Entry("floor", "laissez.cli.steering", "Set and show floors."),
            Entry("inframap", "laissez.cli.inframap", "Let power, carbon and load set floors."),
            Entry("guard", "laissez.cli.steering", "Set and show volatility guards."),
            Entry("tenants", "laissez.cli.steering", "List who orders, holds or owes."),
            Entry("tokens", "laissez.cli.administration", "Create, list and revoke tokens."),
            Entry("webhooks", "laissez.cli.administration", "Add, list and remove webhooks."),
            Entry("journal", "laissez.cli.journal", "Check, export and copy a journal."),
            Entry("bench", "laissez.cli.bench", "Measure the service on this machine."),
        ),
    ),
    (
        "The shell",
        (Entry("completion", "laissez.cli.completion", "Print the script that completes words."),),
    ),
)

EXIT_CODES = "\b\nExit codes:\n" + "\n".join(
    f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items()
)


class LazyGroup(click.Group):
    """All commands, each imported when it is needed, and the end of every run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [entry.name for _, entries in COMMANDS for entry in entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for _, entries in COMMANDS:
            for entry in entries:
                if entry.name == cmd_name:
                    command: click.Command = getattr(import_module(entry.module), entry.name)
                    return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, entries in COMMANDS:
            with formatter.section(title):
                formatter.write_dl([(f"{entry.name:<10}", entry.help) for entry in entries])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(entry.name, help=entry.help)
            for _, entries in COMMANDS
            for entry in entries
            if entry.name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes once more on its way out; let it find somebody who listens.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(Exit.BROKEN_PIPE)

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Run one command to its exit code; whatever goes wrong becomes one sentence."""
        arguments = sys.argv[1:] if args is None else list(args)
        extra = extra | {"prog_name": "laissez", "standalone_mode": False}
        try:
            sys.exit(super().main(arguments, **extra) or Exit.OK)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(Exit.USAGE)
        except click.Abort:
            sys.exit(Exit.INTERRUPTED)
        except Exception as error:
            failure = _failure_of(error, arguments)
            tell_failure(failure, as_json="--json" in arguments)
            sys.exit(failure.exit_code)


def _failure_of(error: Exception, arguments: Sequence[str]) -> Failure:
    if isinstance(error, click.ClickException):
        return usage_failure(error)
    command = next((word for word in arguments if not word.startswith("-")), "")
    failure: Failure = import_module("laissez.cli.failures").failure_of(error, command)
    return failure


@click.group(
    cls=LazyGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, message="laissez %(version)s")
def cli() -> None:
    """A live market for compute: bid for GPUs, hold them, and pay by the microsecond.

    Every command prints for people, or with --json for programs. Rates are in dollars an hour: 3,
    3.2, 3.20 and '$3.20' are understood. Durations are written 90s, 30m, 2h, 1d.

    The service and the token come from LAISSEZ_URL and LAISSEZ_TOKEN or, where these are not set,
    from 'laissez login'. LAISSEZ_CA_FILE names the authority of a service that has its own.
    """


def main() -> NoReturn:
    cli.main()


if __name__ == "__main__":
    main()
