"""What clients were told, kept until the auditor has compared it with the journal."""

from __future__ import annotations

import msgspec

from laissez.model import Answer, Instruction, Notice


class Violation(AssertionError):
    """The service broke a promise; the sentence says which."""


class Acknowledged(msgspec.Struct, frozen=True):
    """A change that was answered: from now on it must never be lost."""

    author: str
    tenant: str | None
    key: str
    do: Instruction
    answer: Answer


class Billed(msgspec.Struct, frozen=True):
    """Bills as the service told them when it had come up to `sequence`."""

    sequence: int
    at: int
    charges: dict[str, int]
    is_complete: bool


class Missed(msgspec.Struct, frozen=True):
    """A part of a stream that a client did not get: after one sequence number, up to another."""

    after: int
    until: int
    resumed: bool


class Heard(msgspec.Struct):
    """One client's stream."""

    begun_after: int | None = None
    last: int = 0
    events: dict[int, tuple[Notice, ...]] = {}
    missed: list[Missed] = []


class Ledger(msgspec.Struct):
    acknowledged: list[Acknowledged] = []
    refused: list[tuple[str, str, str]] = []
    bills: list[Billed] = []
    violations: list[str] = []
    answers: int = 0
    retries: int = 0
    retries_that_had_acted: int = 0
    repeats: int = 0
    repeats_without_events: int = 0
    resumed: int = 0
    resynced: int = 0

    def check(self) -> None:
        if self.violations:
            raise Violation(self.violations[0])
