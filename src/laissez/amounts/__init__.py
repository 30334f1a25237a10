"""Money, percentages and durations as people write them, read exactly into integers.

Every room in which people write amounts may enter this one; it may import the model's values and
never reads a file or a clock. No float is ever made: the digits before and after the point are two
integers. Each function returns the amount, or raises `BadAmount` with the end of a sentence that
began with the text.
"""

import re

from laissez.model.values import MAX_RATE, MAX_TIME

UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
MICROS_DIGITS = 6
PERCENT_DIGITS = 2

_DECIMAL = re.compile(r"([0-9]{1,20})(?:\.([0-9]+))?")
_QUANTITY = re.compile(r"([0-9][0-9.]*) *([^0-9. ]*)")
_QUANTITIES = re.compile(r"(?:[0-9][0-9.]* *[^0-9. ]+ ?)*[0-9][0-9.]* *[^0-9. ]+")


class BadAmount(ValueError):
    """The rest of a sentence: what is wrong with the text, and what to write."""


def micros_per_hour(text: str) -> int:
    """Dollars per hour: '2.50' is 2,500,000."""
    if len(text.partition(".")[2]) > MICROS_DIGITS and _DECIMAL.fullmatch(text):
        raise BadAmount(f"is finer than a micro-dollar; write at most {MICROS_DIGITS} decimals")
    micros = _scaled(text, 10**MICROS_DIGITS)
    if micros is None:
        raise BadAmount(
            "is not dollars per hour; write a number such as 2.50, without sign or unit"
        )
    if micros > MAX_RATE:
        raise BadAmount("is too much; write dollars per hour, such as 2.50")
    return micros


def basis_points(text: str) -> int:
    """A rise: '25%' and '2500bp' are 2,500."""
    number, unit = _parted(text)
    scale = {"%": 10**PERCENT_DIGITS, "bp": 1}.get(unit)
    points = _scaled(number, scale) if scale else None
    if points is None:
        raise BadAmount(
            "is not a percentage; write 25% or 2500bp (a hundredth of a percent is 1bp, the finest)"
        )
    if points > MAX_RATE:
        raise BadAmount("is too much; write a percentage such as 25%")
    return points


def microseconds(text: str) -> int:
    """A duration: '1.5s' is 1,500,000, and '1h30m' is as good as '90m'."""
    parts = _QUANTITY.findall(text) if _QUANTITIES.fullmatch(text) else []
    scales = [UNITS_US.get(unit, 0) for _, unit in parts]
    if not parts or 0 in scales or scales != sorted(set(scales), reverse=True):
        units = ", ".join(UNITS_US)
        raise BadAmount(f"is not a duration; write a number and a unit ({units}), such as 30m")
    duration_us = 0
    for (number, _), scale in zip(parts, scales, strict=True):
        part_us = _scaled(number, scale)
        if part_us is None:
            raise BadAmount(
                "is not a whole number of microseconds; write a duration such as 30m or 1.5s"
            )
        duration_us += part_us
    if duration_us > MAX_TIME:
        raise BadAmount("is too long; write a duration such as 30m")
    return duration_us


def duration_text(duration_us: int) -> str:
    """As `microseconds` reads it, in as large units as will do: 5,400,000,000 is '1h30m'."""
    parts = []
    for unit, scale in sorted(UNITS_US.items(), key=lambda each: -each[1]):
        count, duration_us = divmod(duration_us, scale)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _parted(text: str) -> tuple[str, str]:
    """The number and the unit of a quantity."""
    match = _QUANTITY.fullmatch(text)
    return (match[1], match[2]) if match else ("", "")


def _scaled(number: str, scale: int) -> int | None:
    """A decimal number times a scale, if that is a whole number."""
    match = _DECIMAL.fullmatch(number)
    if match is None:
        return None
    whole, fraction = match[1], match[2] or ""
    if len(fraction) > len(str(scale)):
        return None
    scaled, rest = divmod(int(whole + fraction) * scale, 10 ** len(fraction))
    return None if rest else scaled
