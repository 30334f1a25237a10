"""What all pictures have in common: paper, ink, and the way to the file.

The pictures are drawn through matplotlib's objects: no window, no state that outlives a call. The
same input gives the same bytes, so an SVG holds no date and its identifiers are salted, not random.
Its text stays text: it can be searched, and read aloud.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from laissez.experiments.picture_file import PICTURE_SUFFIXES, BadPicture

WIDTH_INCHES = 10.0
LEGEND_COLUMNS = 4

INK = "#222222"
FAINT = "#b8b8b8"
PAPER_GREY = "#ececec"
WARNING = "#aa0000"
HATCH = "//////"

RC: dict[Any, Any] = {
    "text.parse_math": False,  # a dollar is a dollar
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "figure.dpi": 130,
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "laissez",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


Dash = Literal["-", "--", "-.", ":"]


@contextmanager
def sheet(path: Path, *, height_inches: float, title: str) -> Iterator[Figure]:
    """A figure to draw on; it is written to the path when the drawing is done."""
    suffix = path.suffix.lower()
    if suffix not in PICTURE_SUFFIXES:
        raise BadPicture(
            f"a picture is written as {' or '.join(PICTURE_SUFFIXES)}, not as "
            f"{suffix or 'nothing'}; change the name {path.name!r}"
        )
    with matplotlib.rc_context({}):
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
        yield figure
        metadata = {"Date": None} if suffix == ".svg" else None
        figure.savefig(path, format=suffix[1:], metadata=metadata)


def legend_below(
    sheet_part: Figure | SubFigure,
    keys: list[Artist],
    *,
    columns: int = LEGEND_COLUMNS,
    footnote: str | None = None,
) -> None:
    """One legend for the whole sheet, under the data, and above it how the data came to be."""
    sheet_part.legend(
        handles=keys,
        loc="outside lower center",
        ncols=min(columns, len(keys)),
        title=footnote,
        title_fontsize=8.5,
    )


def bare(axes: Axes) -> None:
    """Lanes need no frame: their labels hold them."""
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
