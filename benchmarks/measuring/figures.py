"""Everything that one run has measured, as it is written to JSON."""

import msgspec

from measuring.comparison import ComparisonFigures
from measuring.machine import Machine
from measuring.mass import MassFigures
from measuring.memory import MemoryFigures
from measuring.operations import SizeFigures
from measuring.scale import Scale
from measuring.timing import Timing


class Figures(msgspec.Struct, frozen=True):
    """Times are in nanoseconds, memory in bytes; keys of `sizes` and the like are leaves.

    `took_ms` is how long each measurement took as a whole.
    """

    version: str
    machine: Machine
    seed: int
    quick: bool
    scale: Scale
    sizes: dict[int, SizeFigures]
    memory: dict[int, MemoryFigures]
    mass: dict[str, MassFigures]
    half_holder: dict[str, Timing]
    naive: dict[int, ComparisonFigures]
    took_ms: dict[str, int]
