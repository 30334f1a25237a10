"""What is trained and on what: all that a plan depends on besides the GPUs at hand."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from laissez.model.paths import covers, tree_of
from laissez.performance.application import BadApplication
from laissez.performance.training.gpus import GPUS, Gpu
from laissez.performance.training.placement import DEFAULT_LEVELS, Spot, spot_of
from laissez.performance.training.profiles import MODELS


class TrainingError(BadApplication):
    """A training job that cannot be, or something that cannot happen to it."""


class Setup(msgspec.Struct, frozen=True):
    """A model, the trees that it can use, best first, each with its GPU, and the levels of paths.

    With `one_domain` each tree is one scale-up domain, and paths say nothing of distance.

    Without a global batch it is the one that the model's authors train with. The smaller it is,
    the oftener gradients are exchanged, and the more it matters where GPUs are.
    """

    model: str = "OPT-350"
    gpus: tuple[tuple[str, str], ...] = (("h100", "H100"), ("a100", "A100-80"))
    levels: tuple[str, ...] = DEFAULT_LEVELS
    global_batch: int | None = None
    one_domain: bool = False

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise TrainingError(f"model {self.model!r} has no profile; take {_any_of(MODELS)}")
        if not self.gpus:
            raise TrainingError("gpus names no tree; give at least one, as [h100, H100]")
        for tree, gpu in self.gpus:
            if gpu not in GPUS:
                raise TrainingError(
                    f"GPU {gpu!r} of tree {tree!r} has no profile; take {_any_of(GPUS)}"
                )
        if len({tree for tree, _ in self.gpus}) < len(self.gpus):
            raise TrainingError("gpus names a tree twice; name each once")
        if self.global_batch is not None and self.global_batch < 1:
            raise TrainingError(f"global_batch is {self.global_batch}; it must be at least 1")
        example = spot_of("/".join(("tree", *self.levels, "gpu")), self.levels)
        if example.domain and example.rack and not covers(example.rack, example.domain):
            raise TrainingError("levels go from the root down: the rack comes before the host")

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(tree for tree, _ in self.gpus)

    @property
    def batch(self) -> int:
        return self.global_batch or MODELS[self.model].global_batch

    def spot(self, path: str) -> Spot:
        """Where a GPU at or under a path is."""
        if self.one_domain:
            kind = tree_of(path)
            return Spot(kind, kind, kind)
        return spot_of(path, self.levels)

    def domain_names(self, kind: str) -> int | None:
        """How many names the path of a scale-up domain has; None if paths don't tell."""
        domain = self.spot("/".join((kind, *self.levels, "gpu"))).domain
        return None if domain is None else domain.count("/") + 1

    def gpu(self, kind: str) -> Gpu:
        return GPUS[dict(self.gpus)[kind]]


def _any_of(names: Iterable[str]) -> str:
    return " or ".join(names)
