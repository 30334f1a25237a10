"""The form all messages share.

In Python a field has the short name of the market contract (`at`, `price`); written down, in a
journal or on a wire, it carries its unit (`at_us`, `price_micros_per_hour`). Each message is
tagged with its own name, so that a line of a log says what it is.
"""

import msgspec

UNITS = {
    "at": "at_us",
    "since": "since_us",
    "expires": "expires_us",
    "hold": "hold_us",
    "window": "window_us",
    "notice": "notice_us",
    "commit": "commit_us",
    "price": "price_micros_per_hour",
    "limit": "limit_micros_per_hour",
    "floor": "floor_micros_per_hour",
    "asked": "asked_micros_per_hour",
    "fall": "fall_micros_per_hour",
    "rise": "rise_basis_points",
    "rate": "rate_micros_per_hour",
    "charge": "charge_micros_us_per_hour",
    "floors": "floors_micros_per_hour",
    "rates": "rates_micros_per_hour",
    "safe_until": "safe_until_us",
    "called_until": "called_until_us",
    "deadline": "deadline_us",
    "bound_until": "bound_until_us",
    "bound_price": "bound_price_micros_per_hour",
    "asked_limit": "asked_limit_micros_per_hour",
}


UNTIL_AN_INSTANT = {**UNITS, "until": "until_us"}
"""The same for messages whose `until` is an instant (elsewhere it is a sequence number)."""


def written_name(field: str) -> str:
    return UNITS.get(field, field)


class Message(msgspec.Struct, frozen=True, tag=True, rename=written_name, gc=False):
    """An immutable value that is said once and never changed."""
