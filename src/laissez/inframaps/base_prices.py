"""Base prices: what an hour has to cost so that the hours that are sold pay for those that are not.

The LaissezCloud paper (section 5.1) takes public list prices times 0.7 as its base: list prices
are assumed to break even at an average utilisation of 70%, so 0.7 of them is what an hour costs,
and a base at which a full cluster breaks even.
"""

from fractions import Fraction

LIST_PRICE_SHARE = 0.7


def break_even(cost_micros_per_hour: int, utilisation: float) -> int:
    """The base price at which this utilisation pays the cost, rounded up."""
    if not 0 < utilisation <= 1:
        raise ValueError(f"a utilisation of {utilisation}: give a share above 0 and up to 1")
    # As it is written: 0.7 is seven tenths, not the float just beside it.
    share = Fraction(str(utilisation))
    return -(-cost_micros_per_hour * share.denominator // share.numerator)


def cost_from_list(list_micros_per_hour: int) -> int:
    """What an hour costs if the list price breaks even at 70% utilisation, rounded up."""
    share = Fraction(str(LIST_PRICE_SHARE))
    return -(-list_micros_per_hour * share.numerator // share.denominator)
