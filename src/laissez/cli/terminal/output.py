"""What a command prints, in its two forms: for people by rich, for programs as JSON.

Everything goes to stdout as one piece of text. What comes from others (an order's id, a note, an
attribute) is shown without control characters, so that nobody can play with a reader's terminal.
Colours are for terminals only, and not with NO_COLOR; what is not a terminal is as wide as its
content, so that a pipe loses nothing.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from laissez.cli.terminal.exits import Exit, say_beside
from laissez.model.message import Message
from laissez.model.wire import encode, encode_all

PIPE_WIDTH = 100_000
FEW = 5
HEADING_LINES = 2
YES = ("y", "yes")
NO = ("", "n", "no")

ShownProgress = Callable[[int, int], None]
"""Told how much is done, and of how much."""

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])


def json_option(function: CommandFunction) -> CommandFunction:
    """The option that every command has."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        function
    )


def dry_run_option(function: CommandFunction) -> CommandFunction:
    return click.option(
        "--dry-run", is_flag=True, help="Say what would happen, and change nothing."
    )(function)


def yes_option(function: CommandFunction) -> CommandFunction:
    return click.option("--yes", is_flag=True, help="Don't ask.")(function)


def say_json(said: Message | Sequence[Message]) -> None:
    """One JSON document on a line of its own."""
    encoded = encode(said) if isinstance(said, Message) else encode_all(said)
    click.echo(encoded)


def say(shown: RenderableType) -> None:
    """A sentence or a table, for people."""
    if isinstance(shown, str):
        shown = Text(printable(shown))
    click.echo(_rendered(shown), nl=False)


def warn(sentence: str) -> None:
    """Something beside the result, which stays out of a pipe."""
    say_beside(printable(sentence))


def printable(text: str) -> str:
    """The text without what would steer a terminal; line breaks stay."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text)


def table(
    *columns: str,
    rows: Iterable[Sequence[str]],
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
    title: str = "",
) -> Table:
    """Rows under their headings; amounts, named in `right`, stand to the right. What names a row
    stays whole, and so do the columns named in `whole`; the rest is folded where a terminal is
    narrow."""
    made = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        header_style="dim",
        title=printable(title) or None,
        title_justify="left",
        title_style="bold",
    )
    for at, column in enumerate(columns):
        justify: JustifyMethod = "right" if column in right else "left"
        made.add_column(
            column, justify=justify, overflow="fold", no_wrap=at == 0 or column in whole
        )
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    return made


def say_table(
    *columns: str,
    rows: Iterable[Sequence[str]],
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
    title: str = "",
    nothing: str,
) -> None:
    """A table, or the sentence that says that there is nothing to show."""
    made = table(*columns, rows=rows, right=right, whole=whole, title=title)
    say(made if made.row_count else nothing)


def say_described(
    *columns: str,
    rows: Sequence[Sequence[str]],
    right: Sequence[str] = (),
    nothing: str,
) -> None:
    """As `say_table`, where the last column is for copying: if it does not fit into the width, each
    row is followed by its last cell, on a line of its own."""
    made = table(*columns, rows=rows, right=right)
    if made.row_count == 0 or _natural_width(made) <= _width():
        say(made if made.row_count else nothing)
        return
    lines = _rendered(table(*columns[:-1], rows=[row[:-1] for row in rows], right=right)).split(
        "\n"
    )
    heading, rest = lines[:HEADING_LINES], lines[HEADING_LINES:]
    for line in heading:
        click.echo(line)
    if len(rest) == len(rows) + 1:  # and the end of the last line
        for line, row in zip(rest, rows, strict=False):
            click.echo(line)
            if row[-1]:
                click.echo(f"  {printable(row[-1])}")
        return
    # Too narrow even so: nothing is left but to fold.
    click.echo("\n".join(rest), nl=False)
    for row in rows:
        if row[-1]:
            click.echo(f"{printable(row[0])}: {printable(row[-1])}")


def _natural_width(shown: Table) -> int:
    return Console(width=PIPE_WIDTH).measure(shown).maximum


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH


def _rendered(shown: RenderableType) -> str:
    is_terminal = sys.stdout.isatty()
    file = io.StringIO()
    console = Console(
        file=file,
        force_terminal=is_terminal,
        width=_width(),
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(shown, soft_wrap=isinstance(shown, Text) and not is_terminal)
    lines = file.getvalue().split("\n")
    return "\n".join(line.rstrip() for line in lines)


def few(names: Sequence[str]) -> str:
    """The first few of many names, and how many more there are."""
    if len(names) <= FEW + 1:
        return ", ".join(names)
    return f"{', '.join(names[:FEW])} and {len(names) - FEW:,} more"


def ask(question: str, *, after: str = "") -> None:
    """Go on after a yes only, having said what it means; who can't be asked has to say it
    beforehand."""
    if after:
        warn(after)
    if not _is_agreed(question):
        warn("laissez: nothing was changed")
        click.get_current_context().exit(Exit.REFUSED)


def _is_agreed(question: str) -> bool:
    """Ask until there is an answer. All of it is on stderr: stdout is for what a command prints."""
    while True:
        click.echo(f"{question} [y/N] ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            click.echo(err=True)
            command = click.get_current_context().command
            can_look = any(each.name == "dry_run" for each in command.params)
            look = ", or look with --dry-run" if can_look else ""
            raise click.UsageError(f"{question} There is nobody to answer; say --yes{look}")
        word = line.strip().lower()
        if word in YES or word in NO:
            return word in YES
        warn("laissez: that is no answer; type y or n")


@contextmanager
def progress_bar(title: str, *, as_json: bool) -> Iterator[ShownProgress]:
    """A function to be told `(done, total)`, which draws a bar where somebody can see it.

    As long as there is nothing to do, there is no bar.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    hidden = as_json or not console.is_terminal
    with Bars(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(title, total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=total > 0)
