"""What all pictures have in common: paper, colours, and the way to the file.

A policy looks the same wherever it appears: colour, marker and dash are in one table, and any two
policies differ in more than the colour, so that a picture survives a copier and a colour-blind
reader. The colours are those of Okabe and Ito, and of Tol where these run out. How a resource is
sold has colours of its own, which no policy wears.

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
import msgspec
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from laissez.deadline.job import Kind
from laissez.deadline.registry import POLICIES
from laissez.deadline.study import PICTURE_SUFFIXES

WIDTH_INCHES = 10.0
LEGEND_COLUMNS = 4

INK = "#222222"
FAINT = "#b8b8b8"
PAPER_GREY = "#ececec"
WARNING = "#aa0000"
KIND_COLOURS = {Kind.SPOT: "#009e73", Kind.ON_DEMAND: "#4a4a4a"}
KIND_LABELS = {Kind.SPOT: "spot", Kind.ON_DEMAND: "on-demand"}
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


class BadPicture(ValueError):
    """A picture that can't be drawn; the sentence says what to change."""


class Look(msgspec.Struct, frozen=True):
    """How a policy is drawn."""

    colour: str
    marker: str
    dash: Dash = "-"


LOOKS = {
    "on_demand": Look("#9a9a9a", "s", ":"),
    "greedy": Look("#e69f00", "v"),
    "time_sliced": Look("#cc79a7", "D"),
    "uniform_progress_plain": Look("#56b4e9", "<", "--"),
    "uniform_progress": Look("#0072b2", "o"),
    "lindy": Look("#d55e00", "*"),
    "shifted_greedy": Look("#999933", "^", "--"),
    "modified_shifted_greedy": Look("#882255", ">", "--"),
    "uniform_progress_oracle": Look("#332288", "p", "-."),
    "omniscient_slices": Look("#555555", "X", "-."),
    "omniscient": Look("#000000", "P", "--"),
}
UNKNOWN_LOOK = Look("#555555", ".")


def look(policy: str) -> Look:
    return LOOKS.get(policy, UNKNOWN_LOOK)


def label(policy: str) -> str:
    known = POLICIES.get(policy)
    return policy if known is None else known.label


def in_order(policies: set[str]) -> list[str]:
    """The policies as the registry lists them, those it doesn't know at the end."""
    return [name for name in POLICIES if name in policies] + sorted(policies - POLICIES.keys())


def line_key(policy: str) -> Line2D:
    """A policy's entry in a legend of lines."""
    its = look(policy)
    return Line2D(
        [], [], color=its.colour, linestyle=its.dash, marker=its.marker, label=label(policy)
    )


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
