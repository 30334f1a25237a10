"""A frame that can't be read: what its sender is told.

A frame is refused whole. Its sender finds the refusal by the id of each request in it, as far as
the ids can be made out; where they can't, or where looking for them would be much work, one refusal
without an id says why.
"""

from __future__ import annotations

import contextlib

import msgspec

from laissez.model import Refused, ServiceCode

SEARCHED_BYTES_MAX = 64 * 1024
"""In a longer frame nobody looks for ids."""

REASON_MAX = 300
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _OnlyId(msgspec.Struct):
    id: int | None = None


def refuse_unreadable(data: bytes, why: str, *, requests_max: int) -> list[Refused]:
    """A refusal for each request of a frame."""
    found: _OnlyId | list[_OnlyId] = _OnlyId()
    if len(data) <= SEARCHED_BYTES_MAX:
        with contextlib.suppress(*UNREADABLE):
            found = msgspec.json.decode(data, type=_OnlyId | list[_OnlyId])
    requests = found if isinstance(found, list) else [found]
    if not 0 < len(requests) <= requests_max:
        requests = [_OnlyId()]
    message = f"{why[:REASON_MAX]}; nothing was done"
    return [Refused(each.id, ServiceCode.BAD_REQUEST, message) for each in requests]
