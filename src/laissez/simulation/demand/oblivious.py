"""A training job in the eyes of somebody who knows nothing of distances.

What is bid, what is kept and what is given back follows from a belief: all nodes of a tree are as
good as neighbours. What gets done follows from where they are, in the best configuration that
there is for them. The belief is told what is really done, as a job that is live would report it.
So its owner sees that it falls behind, and not why.
"""

from __future__ import annotations

import msgspec

from laissez.performance.training import TrainingJob, TrainingSpec


class ObliviousJob(TrainingJob):
    """Answers as it is believed to be; `real` is what it is."""

    def __init__(self, spec: TrainingSpec, at_us: int = 0) -> None:
        self.real = TrainingJob(spec, at_us)
        setup = msgspec.structs.replace(spec.setup, one_domain=True)
        super().__init__(msgspec.structs.replace(spec, setup=setup), at_us)

    def advance(self, at_us: int) -> None:
        self.real.advance(at_us)
        super().advance(at_us)
        self._report(at_us)

    def gain(self, resource: str, at_us: int) -> None:
        self.real.gain(resource, at_us)
        super().gain(resource, at_us)
        self._report(at_us)

    def lose(self, resource: str, at_us: int) -> None:
        self.real.lose(resource, at_us)
        super().lose(resource, at_us)
        self._report(at_us)

    def vacate(self, resource: str, at_us: int) -> None:
        self.real.vacate(resource, at_us)
        super().vacate(resource, at_us)
        self._report(at_us)

    def stay(self, resource: str, at_us: int) -> None:
        self.real.stay(resource, at_us)
        super().stay(resource, at_us)
        self._report(at_us)

    @property
    def samples_done(self) -> float:
        return self.real.samples_done

    def _report(self, at_us: int) -> None:
        super().measure({"samples": self.real.samples_done}, at_us)
