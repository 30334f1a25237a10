"""Pictures of runs, traces and studies, as PNG or SVG by the suffix of the path.

All of them need matplotlib: import this where a picture is wanted, not at the top.
"""

from laissez.experiments.deadline.figures.decisions import draw_decisions
from laissez.experiments.deadline.figures.study import draw_study
from laissez.experiments.deadline.figures.traces import draw_traces
from laissez.experiments.picture_file import BadPicture

__all__ = ["BadPicture", "draw_decisions", "draw_study", "draw_traces"]
