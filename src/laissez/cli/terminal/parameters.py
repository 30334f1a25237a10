"""Amounts as people type them: money, durations, percentages, each refused with an example.

The rules are those of the SDK and of topology files; only the dollar sign is added here. Each
function is the `type` of an option, and its name is what help shows for the value. `FiniteRange` is
the type of a plain number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from laissez.amounts import BadAmount, basis_points
from laissez.client.money import duration_us, micros_per_hour


class FiniteRange(click.FloatRange):
    """A number in a range. `nan` is in every range of click's own, and `inf` in an open one."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number to reckon with; write it in digits", param, ctx)
        return number


def dollars(text: str) -> int:
    """Dollars per hour, as micro-dollars per hour."""
    try:
        return micros_per_hour(text.removeprefix("$"))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def above_zero(context: click.Context, option: click.Parameter, micros: int | None) -> int | None:
    """For a price or a limit: who bids nothing wants nothing."""
    if micros == 0:
        raise click.BadParameter("an order bids something; write it like 3.20", context, option)
    return micros


def duration(text: str) -> int:
    """A length of time, in microseconds."""
    try:
        return duration_us(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def percent(text: str) -> int:
    """A share, in basis points."""
    try:
        return basis_points(text)
    except BadAmount as error:
        raise click.BadParameter(f"{text!r} {error}") from None


OFF = -1
"""`off` in the place of an amount; no amount is below 0."""


def or_off(amount: Callable[[str], int]) -> Callable[[str], int]:
    """An amount, or `off`."""

    @wraps(amount)
    def read(text: str) -> int:
        return OFF if text == "off" else amount(text)

    return read
