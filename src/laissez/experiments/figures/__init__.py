"""The figures that `laissez reproduce` makes, by name; a file each."""

from laissez.experiments.figures.contention_tables import FIGURE as CONTENTION
from laissez.experiments.figures.figure import Figure
from laissez.experiments.figures.gangs import FIGURE as GANGS
from laissez.experiments.figures.notice import FIGURE as NOTICE
from laissez.experiments.figures.topology import FIGURE as TOPOLOGY

FIGURES: dict[str, Figure] = {
    "6": CONTENTION,
    "10": TOPOLOGY,
    "gangs": GANGS,
    "notice": NOTICE,
}
