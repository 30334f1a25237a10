"""Requests without the traces: windows made up by a small model that was fitted to them.

**Rate.** A window has a level, its mean rate, drawn from the quartiles of the trace's windows (and
even between them). Its requests come in bursts that are all of one size and one length, at random
moments; what would go on beyond the window's end goes on at its start, so that the level is kept
exactly. That is enough for both services: conversations come one or two at a time, which is nearly
Poisson; code comes some hundred at a time within a quarter of a minute, with nothing between.

**Lengths.** A window has a mean length that goes with a power of its level, and some luck of its
own. A step's mean strays from it like the mean of as many independent requests.

How well it fits, on 1,500 random windows of each (trace / model; spreads are relative):

    figure                                  conversations               code
    requests/s, mean                        5.54 / 5.57                 3.06 / 3.07
    quartiles over windows                  4.9 5.3 6.1 / 4.9 5.3 6.0   2.4 3.0 3.9 / 2.4 3.1 4.0
    coefficient of variation in a window    0.15 / 0.15                 1.47 / 1.45
    correlation with the step before        0.01 / -0.02                0.36 / 0.37
    steps without requests                  none / none                 0.49 / 0.51
    prompt tokens, mean                     1236 / 1234                 2034 / 2031
      spread over windows, in a window      0.10, 0.12 / 0.10, 0.12     0.08, 0.23 / 0.08, 0.24
    output tokens, mean                     226.6 / 226.9               27.6 / 27.6
      spread over windows, in a window      0.17, 0.13 / 0.18, 0.13     0.10, 0.35 / 0.10, 0.35

Left out: long prompts go with short outputs (correlation of steps -0.2 for conversations, -0.1 for
code); conversations drift a little within a window; code's bursts differ in size, and its levels
are a little closer together (standard deviation 1.13, the model's 1.24). The traces are half an
hour and three quarters of an hour of one day: all this says nothing of nights or weekends, and that
outputs grow shorter as conversations grow more may be chance.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean

import msgspec

from laissez.simulation.demand.requests import (
    STEP_S,
    WINDOW_S,
    Azure,
    Requests,
    RequestStep,
    Service,
)

STEPS = WINDOW_S // STEP_S


class Length(msgspec.Struct, frozen=True):
    """Tokens of a prompt or an output."""

    mean: float
    """In a window of mean level."""
    power: float
    """How it goes with the window's level."""
    window_spread: float
    """Relative standard deviation between windows of one level."""
    request_spread: float
    """Relative standard deviation of one request, as a step's mean shows it."""


class Fit(msgspec.Struct, frozen=True):
    """The figures of one service."""

    levels: tuple[float, ...]
    """Least, quartiles and most of the requests per second of a window."""
    burst: float
    """Requests."""
    burst_s: float
    prompt: Length
    output: Length

    @property
    def mean_level(self) -> float:
        return fmean(fmean(ends) for ends in pairwise(self.levels))


FITS: dict[Service, Fit] = {
    "conv": Fit(
        levels=(4.50, 4.93, 5.26, 5.96, 7.67),
        burst=1.4,
        burst_s=2.0,
        prompt=Length(1_221, 0.51, 0.06, 0.91),
        output=Length(226.6, -1.30, 0.03, 1.0),
    ),
    "code": Fit(
        levels=(0.41, 2.39, 3.06, 4.04, 5.20),
        burst=115.0,
        burst_s=15.0,
        prompt=Length(2_036, 0.0, 0.06, 1.15),
        output=Length(27.6, 0.0, 0.06, 1.75),
    ),
}
"""Fitted to the Azure LLM inference trace 2023 (Patel et al., Splitwise, ISCA 2024; CC-BY 4.0):
levels counted over 3,000 evenly spaced windows, lengths by least squares of their logarithms over
the same; bursts, and the spreads of code's lengths, by trial until the figures above agreed."""


class FittedRequests:
    """Windows like those of `Azure`, from chance alone."""

    def window(self, service: Service, chance: Random) -> tuple[RequestStep, ...]:
        fit = FITS[service]
        level = _between(fit.levels, chance)
        rates = _rates(level, fit, chance)
        prompts = _lengths(fit.prompt, level / fit.mean_level, rates, chance)
        outputs = _lengths(fit.output, level / fit.mean_level, rates, chance)
        return tuple(map(RequestStep, rates, prompts, outputs))


def requests_of(data: Path | None) -> Requests:
    """The real ones, if there is a folder of data; else those of the model."""
    return FittedRequests() if data is None else Azure(data)


def _between(quantiles: tuple[float, ...], chance: Random) -> float:
    """A draw that is even between neighbours."""
    low = chance.randrange(len(quantiles) - 1)
    return chance.uniform(quantiles[low], quantiles[low + 1])


def _rates(level: float, fit: Fit, chance: Random) -> list[float]:
    """Requests per second of each step; their mean is `level`."""
    bursts = max(1, round(level * WINDOW_S / fit.burst))
    share_per_s = level * STEPS / bursts / fit.burst_s
    rates = [0.0] * STEPS
    for _ in range(bursts):
        at_s = chance.uniform(0, WINDOW_S)
        ends_s = at_s + fit.burst_s
        step = int(at_s // STEP_S)
        while at_s < ends_s:
            until_s = min(ends_s, (step + 1) * STEP_S)
            rates[step % STEPS] += share_per_s * (until_s - at_s)
            at_s = until_s
            step += 1
    return rates


def _lengths(
    length: Length, relative_level: float, rates: list[float], chance: Random
) -> list[float]:
    """The mean of each step; a step without requests has that of the window."""
    luck = _gamma(length.window_spread, chance)
    usual = length.mean * relative_level**length.power * luck
    means = []
    for rate in rates:
        requests = max(1.0, rate * STEP_S)
        luck = _gamma(length.request_spread / requests**0.5, chance) if rate else 1.0
        means.append(max(1.0, usual * luck))
    return means


def _gamma(spread: float, chance: Random) -> float:
    """A draw above 0, of mean 1 and this standard deviation."""
    return chance.gammavariate(spread**-2, spread**2)
