"""What a user can get wrong when describing an inference service."""

from __future__ import annotations


class InferenceProblem(ValueError):
    """A sentence that says what is wrong and what to do."""
