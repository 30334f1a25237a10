"""Amounts as people read them: dollars, minutes, a clock.

The market counts in micro-dollars per hour and microseconds; here they are rounded to cents, half
up, and only to be shown: there is room for no more. Nothing is computed with what these functions
return.
"""

from laissez.model.values import CHARGE_UNITS_PER_MICRO_DOLLAR

MINUTE_US = 60_000_000
MICRO_DOLLARS_PER_CENT = 10_000


def cents(count: int) -> int:
    """A rate of so many cents per hour, in micro-dollars per hour."""
    return count * MICRO_DOLLARS_PER_CENT


def minutes(count: int) -> int:
    """So many minutes, in microseconds."""
    return count * MINUTE_US


def show_rate(micros_per_hour: int) -> str:
    return _show_cents(_divide(micros_per_hour, MICRO_DOLLARS_PER_CENT))


def show_charge(charge: int) -> str:
    return _show_cents(_divide(charge, MICRO_DOLLARS_PER_CENT * CHARGE_UNITS_PER_MICRO_DOLLAR))


def show_clock(at_us: int) -> str:
    """An instant as hours and minutes since the market opened."""
    hours, minute = divmod(at_us // MINUTE_US, 60)
    return f"{hours}:{minute:02}"


def show_span(length_us: int) -> str:
    return f"{_divide(length_us, MINUTE_US)} min"


def _show_cents(count: int) -> str:
    return f"${count // 100}.{count % 100:02}"


def _divide(amount: int, unit: int) -> int:
    return (2 * amount + unit) // (2 * unit)
