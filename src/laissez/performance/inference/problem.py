"""What can be wrong with an inference service: how it is described, or what it is told."""

from __future__ import annotations

from laissez.performance.application import BadApplication


class InferenceProblem(BadApplication):
    """A sentence that says what is wrong and what to do."""
