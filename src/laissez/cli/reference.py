"""docs/cli.md, made of what the commands say of themselves.

python -m laissez.cli.reference > docs/cli.md
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from laissez.cli.main import cli
from laissez.cli.terminal.exits import MEANINGS

WIDTH = 88

HEAD = """\
# The command line

This page is made by `python -m laissez.cli.reference > docs/cli.md` from the help of the commands.

Every command prints for people or, with `--json`, one JSON document (streams: one a line) whose
field names carry their units. Errors go to stderr, as `laissez: what is wrong, and what to do`, or
with `--json` as `{"code": ..., "message": ...}`. Colours are for terminals, and not with
`NO_COLOR`. `LAISSEZ_DEBUG=1` adds the traceback to an error.

The `code` of an error is one of the market's or the service's, if they refuse something. Else it is
`usage` (an option, or what it names), `bad_file` (a file that you wrote; `problems` has the `file`,
`line`, `column` and `message` of each), `bad_topology`, `file` (one that can't be opened),
`extra_missing` (a package that comes with an extra), `login_needed`, `unreachable`,
`journal_unsound`, `folder_in_use`, `stopped`, `refused` or `defect`. Ctrl-C ends without a word,
unless something goes on without the command.

## Exit codes

| code | meaning |
| ---: | --- |
"""


def commands(
    command: click.Command = cli, path: str = "laissez"
) -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that call it, groups before what is in them."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, f"{path} {name}")


def help_of(command: click.Command, path: str) -> str:
    context = click.Context(
        command, info_name=path, terminal_width=WIDTH, max_content_width=WIDTH, color=False
    )
    context.help_option_names = ["-h", "--help"]
    command._help_option = None  # remembered by click, perhaps from another context
    return command.get_help(context).rstrip()


def reference() -> str:
    """The whole page."""
    codes = "\n".join(f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items())
    parts = [f"{HEAD}{codes}\n"]
    for path, command in commands():
        parts.append(f"## {path}\n\n```text\n{help_of(command, path)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    click.echo(reference(), nl=False)
