"""Amounts as people read them: dollars, durations, local times, counts.

A rate is rounded up to a hundredth of a cent, so that what is shown can be typed in again and is
enough; a charge is rounded half up. Nothing is computed with what these functions return.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from laissez.client import money
from laissez.client.advice import LEVELS_ATTRIBUTE

US_PER_S = 1_000_000

_UNITS_S = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def counted(count: int, noun: str) -> str:
    """`1 holding`, `2,000 holdings`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def show_rate(micros_per_hour: int | None) -> str:
    return "" if micros_per_hour is None else money.show_rate(micros_per_hour)


show_charge = money.show_charge


def show_attributes(attributes: Mapping[str, str]) -> str:
    """What leads to a resource; the names of its levels are for programs."""
    shown = {key: value for key, value in attributes.items() if key != LEVELS_ATTRIBUTE}
    return " ".join(f"{key}={value}" for key, value in shown.items())


def show_basis_points(points: int | None) -> str:
    if points is None:
        return ""
    whole, hundredths = divmod(points, 100)
    return f"{whole}.{hundredths:02}".rstrip("0").rstrip(".") + "%"


def show_duration(length_us: int | None) -> str:
    """The two largest units that matter: `2h 5m`, `1.5s`; of seconds, the thousandths."""
    if length_us is None:
        return ""
    if length_us < 60 * US_PER_S:
        whole, fraction = divmod(length_us, US_PER_S)
        if whole:
            fraction -= fraction % 1_000
        return f"{whole}.{fraction:06}".rstrip("0").rstrip(".") + "s"
    parts, left_s = [], length_us // US_PER_S
    for unit, seconds in _UNITS_S:
        count, left_s = divmod(left_s, seconds)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def show_clock(at_us: int) -> str:
    """An instant by the local clock, to the second."""
    return _local(at_us).strftime("%H:%M:%S")


def show_time(at_us: int | None, now_us: int) -> str:
    """An instant by the local clock, and how far it is from now."""
    if at_us is None:
        return ""
    at, now = _local(at_us), _local(now_us)
    written = at.strftime("%H:%M:%S" if at.date() == now.date() else "%Y-%m-%d %H:%M")
    distance = show_duration(abs(at_us - now_us) // US_PER_S * US_PER_S)
    return f"{written} (in {distance})" if at_us > now_us else f"{written} ({distance} ago)"


def _local(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us // US_PER_S).astimezone()
