"""Pictures of runs, traces and studies, as PNG or SVG by the suffix of the path.

The only place that imports matplotlib: import it where a picture is wanted, not at the top.
"""

from laissez.deadline.figures.decisions import draw_decisions
from laissez.deadline.figures.page import BadPicture
from laissez.deadline.figures.study import draw_study
from laissez.deadline.figures.traces import draw_traces

__all__ = ["BadPicture", "draw_decisions", "draw_study", "draw_traces"]
