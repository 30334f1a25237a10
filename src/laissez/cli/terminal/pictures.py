"""Pictures that a command is asked for: what can't be drawn is refused before anything is computed.

What draws them is imported by whoever draws, and not before: only who wants a picture waits for
matplotlib, and only they need it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from laissez.cli.terminal.exits import ExtraMissing
from laissez.experiments.picture_file import PICTURE_SUFFIXES

PICTURE = click.Path(path_type=Path, dir_okay=False)


def check_picture(path: Path | None, extra: str) -> None:
    """Whether it can be drawn and written, if any; `extra` is where matplotlib comes with."""
    if path is None:
        return
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise click.BadParameter(
            f"a picture is a {' or '.join(PICTURE_SUFFIXES)}, not "
            f"{path.suffix or 'a file without an ending'!r}",
            param_hint="--plot",
        )
    if not path.parent.is_dir():
        raise click.BadParameter(
            f"there is no folder {str(path.parent)!r} for the picture; make it first",
            param_hint="--plot",
        )
    need_matplotlib(extra)


def need_matplotlib(extra: str) -> None:
    if find_spec("matplotlib") is None:
        raise ExtraMissing("pictures are drawn by matplotlib", extra)
