"""Money and time as people write them, made into what is sent.

An int is what the market counts in: micro-dollars per hour, microseconds. A str or a Decimal is
dollars per hour; a str such as "30m" or a timedelta is a duration. A float is refused, because
3.20 is no float and the market is exact.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from laissez import amounts
from laissez.model import dollars
from laissez.model.values import CHARGE_UNITS_PER_MICRO_DOLLAR, MAX_RATE, MICROS_PER_DOLLAR

MICROS_PER_CHARGE_STEP = 100

Money = int | str | Decimal
"""Micro-dollars per hour (int), or dollars per hour (str, Decimal)."""
TimeSpan = int | str | timedelta
"""Microseconds (int), a number with a unit ("30m"), or a timedelta."""
Expiry = int | str | timedelta | datetime
"""An instant: microseconds since 1970 (int), a datetime with a zone, or a duration from now."""

_DOLLARS = re.compile(r"[0-9]{1,19}(\.[0-9]+)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros_per_hour(amount: Money) -> int:
    """Money as the market counts it."""
    if isinstance(amount, int) and not isinstance(amount, bool):
        micros = amount
    elif isinstance(amount, str):
        if not _DOLLARS.fullmatch(amount):
            raise ValueError(f"{amount[:40]!r} is not dollars per hour; write it like '3.20'")
        micros = _whole_micros(Decimal(amount))
    elif isinstance(amount, Decimal):
        if not amount.is_finite() or abs(amount) > MAX_RATE:
            raise ValueError(f"{amount} is not dollars per hour; write it like Decimal('3.20')")
        micros = _whole_micros(amount)
    else:
        raise TypeError(
            f"{amount!r} is a {type(amount).__name__}, which is not exact money; give dollars per "
            "hour as a str or Decimal ('3.20'), or micro-dollars per hour as an int"
        )
    if abs(micros) > MAX_RATE:
        raise ValueError(f"{amount} is too much; an int is micro-dollars, a str dollars per hour")
    return micros


def optional_micros_per_hour(amount: Money | None) -> int | None:
    return None if amount is None else micros_per_hour(amount)


def _whole_micros(dollars: Decimal) -> int:
    numerator, denominator = dollars.as_integer_ratio()
    micros, rest = divmod(numerator * MICROS_PER_DOLLAR, denominator)
    if rest:
        raise ValueError(f"{dollars} is finer than a micro-dollar; write at most 6 decimals")
    return micros


def duration_us(duration: TimeSpan) -> int:
    """A length of time in microseconds."""
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    if isinstance(duration, int) and not isinstance(duration, bool):
        return duration
    if not isinstance(duration, str):
        raise TypeError(
            f"{duration!r} is no duration; give a str like '30m', a timedelta, or an int of "
            "microseconds"
        )
    try:
        return amounts.microseconds(duration)
    except amounts.BadAmount as error:
        raise ValueError(f"{duration[:40]!r} {error}") from None


def optional_duration_us(duration: TimeSpan | None) -> int | None:
    return None if duration is None else duration_us(duration)


def instant_us(expires: Expiry) -> int:
    """An instant in microseconds since 1970; a duration counts from now, by the clock here."""
    if isinstance(expires, datetime):
        if expires.tzinfo is None:
            raise ValueError("this datetime has no time zone; give one that has, such as UTC")
        return (expires - _EPOCH) // timedelta(microseconds=1)
    if isinstance(expires, int) and not isinstance(expires, bool):
        return expires
    return time.time_ns() // 1_000 + duration_us(expires)


def optional_instant_us(expires: Expiry | None) -> int | None:
    return None if expires is None else instant_us(expires)


show_rate = dollars.show_rate


def show_charge(charge: int) -> str:
    """A charge for people, rounded half up to a hundredth of a cent: $0.0042."""
    step = CHARGE_UNITS_PER_MICRO_DOLLAR * MICROS_PER_CHARGE_STEP
    return dollars.show_dollars((2 * charge + step) // (2 * step) * MICROS_PER_CHARGE_STEP)
