"""Rates as people read them, for the sentences of every room.

A rate is rounded up to a hundredth of a cent: whoever types in what was shown pays enough, and a
rate above a limit of at most four decimals is never shown as equal to it. Programs get the exact
number, in messages and with `--json`.
"""

from laissez.model.values import MICROS_PER_DOLLAR

RATE_STEP_MICROS = 100


def show_rate(micros_per_hour: int) -> str:
    """A rate for people: $3.10/h."""
    return f"{show_dollars(-(-micros_per_hour // RATE_STEP_MICROS) * RATE_STEP_MICROS)}/h"


def show_dollars(micros: int) -> str:
    """Exactly, with cents at least."""
    sign = "-" if micros < 0 else ""
    dollars, rest = divmod(abs(micros), MICROS_PER_DOLLAR)
    cents = f"{rest:06}".rstrip("0").ljust(2, "0")
    return f"{sign}${dollars:,}.{cents}"
