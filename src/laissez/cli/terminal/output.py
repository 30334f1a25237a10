"""What a command prints, in its two forms: for people by rich, for programs as JSON.

Everything goes to stdout as one piece of text. What comes from others (an order's id, a note, an
attribute) is shown without control characters, so that nobody can play with a reader's terminal.
Colours are for terminals only, and not with NO_COLOR; what is not a terminal is as wide as its
content, so that a pipe loses nothing.
"""

from __future__ import annotations

import io
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
    *columns: str, rows: Iterable[Sequence[str]], right: Sequence[str] = (), title: str = ""
) -> Table:
    """Rows under their headings; amounts, named in `right`, stand to the right."""
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
        # What names a row stays whole; the rest is folded where a terminal is narrow.
        justify: JustifyMethod = "right" if column in right else "left"
        made.add_column(column, justify=justify, overflow="fold", no_wrap=at == 0)
    for row in rows:
        made.add_row(*(Text(printable(cell)) for cell in row))
    return made


def say_table(
    *columns: str,
    rows: Iterable[Sequence[str]],
    right: Sequence[str] = (),
    title: str = "",
    nothing: str,
) -> None:
    """A table, or the sentence that says that there is nothing to show."""
    made = table(*columns, rows=rows, right=right, title=title)
    say(made if made.row_count else nothing)


def _rendered(shown: RenderableType) -> str:
    is_terminal = sys.stdout.isatty()
    file = io.StringIO()
    console = Console(
        file=file,
        force_terminal=is_terminal,
        width=None if is_terminal else PIPE_WIDTH,
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
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise click.UsageError(
                f"{question} There is nobody to answer; say --yes, or look with --dry-run"
            ) from None
        raise
    if not agreed:
        warn("laissez: nothing was changed")
        click.get_current_context().exit(Exit.REFUSED)


@contextmanager
def progress_bar(title: str, *, as_json: bool) -> Iterator[ShownProgress]:
    """A function to be told `(done, total)`, which draws a bar where somebody can see it."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    hidden = as_json or not console.is_terminal
    with Bars(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
