"""The picture of a study: its plot says which of the forms it takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from laissez.experiments.deadline.figures.bars import draw_groups, draw_hours
from laissez.experiments.deadline.figures.sweeps import draw_gap, draw_lines
from laissez.experiments.deadline.study import Result
from laissez.experiments.picture_file import BadPicture


def draw_study(
    result: Result, path: Path, *, availability: Mapping[str, float] | None = None
) -> None:
    """Draw a study's result; the availability of traces by name, if given, is in their titles."""
    plot = result.study.plot
    if not result.settings or not result.policies:
        raise BadPicture(
            f"the study {result.study.name!r} has no policy that ran in all settings; there is "
            "nothing to draw"
        )
    if plot.y == "gap_closed":
        draw_gap(result, path)
    elif plot.x is not None:
        draw_lines(result, path, plot.x, availability)
    elif plot.y == "hours":
        draw_hours(result, path)
    else:
        draw_groups(result, path)
