"""Instants as people write them in a document: 2026-11-20T22:00Z, in UTC and nothing else.

A duration such as 90m is an instant too: that long after the market's time 0, which is the
beginning in a simulated world and 1970 in the live service.
"""

import re
from calendar import monthrange, timegm

from laissez.amounts import BadAmount, microseconds

US_PER_S = 1_000_000
_INSTANT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d))?Z")
_ADVICE = "is not an instant; write UTC with a Z, such as 2026-11-20T22:00Z"


def instant_us(text: str) -> int:
    """Microseconds since 1970 (or since time 0, for a duration)."""
    if _INSTANT.fullmatch(text):
        return calendar_us(text)
    try:
        return microseconds(text)
    except BadAmount:
        raise BadAmount(_ADVICE) from None


def calendar_us(text: str) -> int:
    """Microseconds since 1970 of an instant that is in the calendar."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise BadAmount(_ADVICE)
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
    in_calendar = year >= 1970 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]
    if not in_calendar or hour > 23 or minute > 59 or second > 59:
        raise BadAmount("is not in the calendar; write one that is, from 1970 on")
    return timegm((year, month, day, hour, minute, second)) * US_PER_S
