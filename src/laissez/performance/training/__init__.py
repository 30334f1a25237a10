"""Training: how fast it goes on which GPUs, the best way to use them, and a job that lives by it.

From the bottom: `profiles` and `gpus` are measured figures, `placement` reads distances off paths,
`splitting` and `iteration` say how long an iteration takes, `stock`, `options`, `search` and
`worth` find the best plan, `planner` is their face, `paces` asks it what would be with nodes more
or less, `outlook` says what these are worth, and `job` is the application.
"""

from laissez.performance.training.gpus import GPUS, Distance, Gpu
from laissez.performance.training.job import ReplicaRole, TrainingJob, TrainingSpec
from laissez.performance.training.placement import DEFAULT_LEVELS, distance, spot_of
from laissez.performance.training.planner import (
    Planner,
    Replica,
    TrainingPlan,
    Use,
    plan,
    planner_of,
)
from laissez.performance.training.profiles import MODELS
from laissez.performance.training.setup import Setup, TrainingError
from laissez.performance.training.stock import GpuGroup

__all__ = [
    "DEFAULT_LEVELS",
    "GPUS",
    "MODELS",
    "Distance",
    "Gpu",
    "GpuGroup",
    "Planner",
    "Replica",
    "ReplicaRole",
    "Setup",
    "TrainingError",
    "TrainingJob",
    "TrainingPlan",
    "TrainingSpec",
    "Use",
    "distance",
    "plan",
    "planner_of",
    "spot_of",
]
