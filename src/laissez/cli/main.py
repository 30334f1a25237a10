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
from laissez.cli.terminal.exits import MEANINGS, Exit, Failure, tell_failure, usage_failure


class CommandEntry(NamedTuple):
    """A command: its name, its module in this room, and its help in one line."""

    name: str
    module: str
    help: str


COMMANDS: tuple[tuple[str, tuple[CommandEntry, ...]], ...] = (
    (
        "The service",
        (
            CommandEntry("up", "operator.up", "Start the service."),
            CommandEntry("login", "everybody.access", "Remember a service and the token for it."),
            CommandEntry("logout", "everybody.access", "Forget the service and the token."),
            CommandEntry(
                "status",
                "everybody.access",
                "Say who you are, and where the market is.",
            ),
        ),
    ),
    (
        "Buying",
        (
            CommandEntry(
                "quote",
                "tenant.orders",
                "Say what a resource would cost now, or several at once.",
            ),
            CommandEntry("buy", "tenant.buying", "Order resources under a scope."),
            CommandEntry(
                "orders", "tenant.orders", "List the orders that wait, and what is promised."
            ),
            CommandEntry("amend", "tenant.orders", "Change the terms of an order."),
            CommandEntry("cancel", "tenant.orders", "End orders."),
        ),
    ),
    (
        "Holding",
        (
            CommandEntry("holdings", "tenant.holdings", "List what is held, and at what rate."),
            CommandEntry("limit", "tenant.holdings", "Set how far you follow a rate."),
            CommandEntry(
                "release",
                "tenant.holdings",
                "Give held resources back, or what is promised to you.",
            ),
            CommandEntry("bill", "tenant.billing", "Say what is owed, and explain it."),
            CommandEntry("events", "everybody.events", "Follow what happens, as it happens."),
        ),
    ),
    (
        "Planning",
        (
            CommandEntry(
                "deadline",
                "evaluator.deadline",
                "Finish in time on capacity that comes and goes.",
            ),
        ),
    ),
    (
        "Trading",
        (CommandEntry("adapter", "tenant.adapter", "Let an adapter trade for a workload."),),
    ),
    (
        "Evaluating",
        (
            CommandEntry("sim", "evaluator.sim", "Try a market on your own cluster."),
            CommandEntry(
                "reproduce",
                "evaluator.reproduce",
                "Run the simulations behind a figure, and show it.",
            ),
        ),
    ),
    (
        "Operating",
        (
            CommandEntry("topology", "operator.topology", "Add, show and take out resources."),
            CommandEntry("floor", "operator.steering", "Set and show floors."),
            CommandEntry(
                "inframap",
                "operator.inframap",
                "Let power, carbon and load set floors.",
            ),
            CommandEntry("guard", "operator.steering", "Set and show volatility guards."),
            CommandEntry("tenants", "operator.steering", "List who orders, holds or owes."),
            CommandEntry("tokens", "operator.administration", "Create, list and revoke tokens."),
            CommandEntry("webhooks", "operator.administration", "Add, list and remove webhooks."),
            CommandEntry("journal", "operator.journal", "Check, export and copy a journal."),
            CommandEntry("bench", "operator.bench", "Measure the service on this machine."),
        ),
    ),
    (
        "The shell",
        (
            CommandEntry(
                "completion",
                "everybody.completion",
                "Print the script that completes words.",
            ),
        ),
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
                    command: click.Command = getattr(
                        import_module(f"laissez.cli.{entry.module}"), entry.name
                    )
                    return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        # As click itself says it in groups whose commands it knows.
        near = import_module("difflib").get_close_matches(name, known)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise click.UsageError(f"No such command {name!r}.{hint}", ctx)

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
    failure: Failure = import_module("laissez.cli.terminal.failures").failure_of(error, command)
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
