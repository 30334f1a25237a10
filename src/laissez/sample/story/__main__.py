"""`python -m laissez.sample.story`: the story from a command line, `make demo`.

On a terminal it plays, with pauses; into a pipe or a file it is written at once. `--json` gives
the same events as a program would get them, one JSON object a line.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from laissez.market import Market
from laissez.model import encode
from laissez.sample.story.scene import perform
from laissez.sample.story.screen import WIDTH_MAX, tell
from laissez.sample.story.script import SCRIPT

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.json:
            print_events()
        else:
            tell_on_terminal(options.speed)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print()
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
    return 0


def print_events() -> None:
    for scene in perform(Market(), SCRIPT):
        for event in scene.events:
            print(encode(event).decode())


def tell_on_terminal(times_as_fast: float) -> None:
    console = Console(highlight=False)
    console.width = min(console.width, WIDTH_MAX)
    waits = times_as_fast > 0 and sys.stdout.isatty()
    tell(console, lambda seconds: time.sleep(seconds / times_as_fast) if waits else None)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m laissez.sample.story",
        description="A minute of a small market for GPUs, told in the terminal.",
    )
    parser.add_argument(
        "--speed",
        type=speed,
        default=1.0,
        metavar="N",
        help="2 plays twice as fast, 0.5 half as fast, 0 without pauses",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the events as JSON lines instead"
    )
    return parser


def speed(text: str) -> float:
    number = float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError("give a number from 0 up")
    return number


def _forget_stdout() -> None:
    """Whoever read has gone: let the interpreter flush what is left into nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
