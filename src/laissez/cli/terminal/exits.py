"""How a command ends: its exit code, and the sentence for whatever went wrong.

Programs rely on the codes, people on the sentence: `laissez: what is wrong, and what to do`. With
`--json` the sentence is a JSON object, with the stable code of the refusal beside it. A traceback
is shown to nobody but those who set LAISSEZ_DEBUG=1.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import traceback
from enum import IntEnum
from typing import NamedTuple

import click


class Exit(IntEnum):
    OK = 0
    REFUSED = 1
    USAGE = 2
    WAITING = 3
    UNREACHABLE = 4
    NOT_LOGGED_IN = 5
    UNSOUND = 6
    IN_USE = 7
    DEFECT = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    Exit.OK: "done",
    Exit.REFUSED: "refused by the market, by the service, or by you when asked",
    Exit.USAGE: "the command, or a file it was given, is not right",
    Exit.WAITING: "not filled yet, or not all; the orders wait",
    Exit.UNREACHABLE: "the service can't be reached",
    Exit.NOT_LOGGED_IN: "not logged in, or the token is no longer good",
    Exit.UNSOUND: "the journal is not sound",
    Exit.IN_USE: "another service runs on the folder",
    Exit.DEFECT: "a defect of laissez itself; please report it",
    Exit.INTERRUPTED: "interrupted with Ctrl-C",
    Exit.BROKEN_PIPE: "whoever read the output went away",
}


# As click ends a sentence: `. Did you mean 'a'?`, `. (Did you mean one of: 'a', 'b'?)`.
SUGGESTION = re.compile(r"\.? \(?Did you mean( one of:)? ('[^']*'( or |, )?)+\?\)?$")


class FileProblem(NamedTuple):
    """Something to mend in a file; line and column count from 1."""

    file: str
    line: int
    column: int
    message: str


class Failure(NamedTuple):
    """What is said of an error; for programs, also where in a file it is."""

    exit_code: int
    code: str
    message: str
    problems: tuple[FileProblem, ...] = ()


class BadFile(click.ClickException):
    """A file that somebody wrote, with all there is to mend."""

    def __init__(self, message: str, problems: tuple[FileProblem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class ExtraMissing(click.ClickException):
    """What was asked for needs a package that this installation lacks, and `extra` would bring.

    pip takes the extra of the version that is installed: it matters not where that came from.
    """

    def __init__(self, why: str, extra: str) -> None:
        super().__init__(f"{why}, which is not installed: pip install '{extra}'")


def _suggested(found: re.Match[str]) -> str:
    names = " or ".join(re.findall("'[^']*'", found[0]))
    return f"; did you mean {names}?"


def usage_failure(error: click.ClickException) -> Failure:
    """A command that was not written right, with the place where it says how to."""
    message = error.format_message()
    if isinstance(error, BadFile):
        return Failure(Exit.USAGE, "bad_file", message, error.problems)
    if isinstance(error, ExtraMissing):
        return Failure(Exit.USAGE, "extra_missing", message)
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "laissez"
        message = f"{message[:1].lower()}{message[1:].rstrip('.')}"
        # click says a second sentence where the house has one.
        message = SUGGESTION.sub(_suggested, message)
        message = (
            f"{message} See '{where} --help'"
            if message.endswith("?")
            else f"{message}; see '{where} --help'"
        )
    return Failure(Exit.USAGE, "usage", message)


def say_beside(text: str) -> None:
    """Say something on stderr; on a terminal no word is broken at the edge."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(
            textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
            for line in text.split("\n")
        )
    click.echo(text, err=True)


def tell_failure(failure: Failure, *, as_json: bool) -> None:
    """Say on stderr what went wrong."""
    if os.environ.get("LAISSEZ_DEBUG") == "1":
        traceback.print_exc()
    if as_json:
        said: dict[str, object] = {"code": failure.code, "message": failure.message}
        if failure.problems:
            said["problems"] = [each._asdict() for each in failure.problems]
        click.echo(json.dumps(said), err=True)
    else:
        say_beside(f"laissez: {failure.message}")
