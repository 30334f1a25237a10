"""The one curve by which pressure mounts: gentle at first, steep at the end."""

from math import expm1


def steep(x: float, steepness: float) -> float:
    """From 0 at 0 to 1 at 1, exponentially; flat outside. A steepness of 0 is a straight line.

    With a steepness of 5 the curve is at 0.08 half way and at 0.60 nine tenths of the way.
    """
    x = min(max(x, 0.0), 1.0)
    return expm1(steepness * x) / expm1(steepness) if steepness else x
