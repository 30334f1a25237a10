"""From the state that an older version wrote to the state of this one.

`RULES` is the version of the market's rules and of the state that they keep. It goes up by one
whenever the same commands would give another state, other events, or the same state in other
bytes. Every snapshot says with which version it was written.

What an upgrade may do: turn the whole state of one version into a whole state of the next that
means the same to everybody (who holds what, with which limit; who waits, in which order; who owes
what, to the unit; what falls due, and when), with everything that is new in it switched off. It is
a pure function from bytes to bytes, so that it gives the same anywhere. It never executes a
command, and never lets time pass: a journal's commands mean what they meant under the rules that
wrote them, so they are replayed by the version that wrote them, or not at all.

What an upgrade may not promise: a digest. It covers every field of the state and the version, so
digests are compared within one version only. What can be compared across an upgrade is what people
can ask: holdings, orders, bills, floors, guards.

There is one converter per step, in `CONVERTERS` under the version that it reads; a snapshot that
is three versions old goes through three. The structs of an old version are frozen as they were, in
a file of their own beside this one with the converter that reads them (`upgrade_from_1` and so
on): a converter never uses today's structs for yesterday's bytes, since these will change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from laissez.market.upgrade_from_1 import to_2

FORMAT = "laissez-market"

RULES = 2
"""The version of the market's rules and state."""

Converter = Callable[[bytes], bytes]

CONVERTERS: dict[int, Converter] = {1: to_2}
"""By the version that it reads, what makes of its snapshot one of the next version."""


class UnknownRules(ValueError):
    """A snapshot of a version that is newer than this program."""

    def __init__(self, version: int, known: int = RULES) -> None:
        super().__init__(
            f"this was written under version {version} of the market's rules, and this laissez "
            f"knows them up to version {known}; install a newer laissez"
        )
        self.version = version
        self.known = known


class _Header(msgspec.Struct):
    format: str = ""
    version: int = 0


def rules_of(data: bytes) -> int:
    """The version of the rules under which a snapshot was written; `ValueError` if it is none."""
    try:
        header = msgspec.json.decode(data, type=_Header)
    except msgspec.DecodeError as error:
        raise ValueError(f"these bytes are not a market snapshot: {error}") from error
    if header.format != FORMAT:
        raise ValueError(f"this is {header.format or 'something'}, and not a {FORMAT} snapshot")
    return header.version


def upgraded(
    data: bytes, *, to: int = RULES, converters: Mapping[int, Converter] | None = None
) -> bytes:
    """A snapshot as this version writes it, by one converter after the other."""
    version = rules_of(data)
    if version > to:
        raise UnknownRules(version, to)
    converters = CONVERTERS if converters is None else converters
    while version < to:
        if version not in converters:
            raise ValueError(
                f"this is {FORMAT} of version {version}, and this program reads version {to} and "
                "what can be converted to it; use the program that wrote it"
            )
        data = converters[version](data)
        version += 1
        if rules_of(data) != version:
            raise AssertionError(f"the converter to version {version} wrote {rules_of(data)}")
    return data
