"""How policies and resources are drawn in every picture of deadline jobs.

A policy looks the same wherever it appears: colour, marker and dash are in one table, and any two
policies differ in more than the colour, so that a picture survives a copier and a colour-blind
reader. The colours are those of Okabe and Ito, and of Tol where these run out. How a resource is
sold has colours of its own, which no policy wears.
"""

from __future__ import annotations

import msgspec
from matplotlib.lines import Line2D

from laissez.deadline.job import Kind
from laissez.deadline.registry import POLICIES
from laissez.experiments.page import Dash

KIND_COLOURS = {Kind.SPOT: "#009e73", Kind.ON_DEMAND: "#4a4a4a"}
KIND_LABELS = {Kind.SPOT: "spot", Kind.ON_DEMAND: "on-demand"}


class PolicyLook(msgspec.Struct, frozen=True):
    """How a policy is drawn."""

    colour: str
    marker: str
    dash: Dash = "-"


LOOKS = {
    "on_demand": PolicyLook("#9a9a9a", "s", ":"),
    "greedy": PolicyLook("#e69f00", "v"),
    "time_sliced": PolicyLook("#cc79a7", "D"),
    "uniform_progress_plain": PolicyLook("#56b4e9", "<", "--"),
    "uniform_progress": PolicyLook("#0072b2", "o"),
    "lindy": PolicyLook("#d55e00", "*"),
    "shifted_greedy": PolicyLook("#999933", "^", "--"),
    "modified_shifted_greedy": PolicyLook("#882255", ">", "--"),
    "uniform_progress_oracle": PolicyLook("#332288", "p", "-."),
    "omniscient_slices": PolicyLook("#555555", "X", "-."),
    "omniscient": PolicyLook("#000000", "P", "--"),
}
UNKNOWN_LOOK = PolicyLook("#555555", ".")


def look(policy: str) -> PolicyLook:
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
