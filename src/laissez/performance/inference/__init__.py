"""LLM inference: profiled latencies, a forecast of the load, an autoscaler and a queue.

    profiles_table  figures
    profile         how fast one node serves one model
    objective       what is promised, and what a broken promise gives back
    load, forecast  what is asked, and what will be
    demand          the two together, from readings or from a trace
    capacity        what a set of nodes can serve, and which of them do what
    queueing        formulas
    delivery        what requests really get
    spec, service   the application

It knows no money, and reads no file: the figures it needs are in its tables, with their source.
"""

from laissez.performance.inference.delivery import Quality, RequestTally
from laissez.performance.inference.load import Load, LoadTrace, trace_of_requests
from laissez.performance.inference.objective import PRESETS, Objective, preset, service_credit
from laissez.performance.inference.problem import InferenceProblem
from laissez.performance.inference.profile import Hardware, Profile, profile, profiled
from laissez.performance.inference.service import InferenceService
from laissez.performance.inference.spec import InferenceSpec

__all__ = [
    "PRESETS",
    "Hardware",
    "InferenceProblem",
    "InferenceService",
    "InferenceSpec",
    "Load",
    "LoadTrace",
    "Objective",
    "Profile",
    "Quality",
    "RequestTally",
    "preset",
    "profile",
    "profiled",
    "service_credit",
    "trace_of_requests",
]
