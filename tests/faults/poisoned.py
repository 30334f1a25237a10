"""The service, with a market that fails at the order `poison`: a defect as any version may have."""

import sys

from laissez.exchange.records import Record
from laissez.exchange.venue import Venue
from laissez.model import Event, Place
from laissez.service.__main__ import main

_apply = Venue.apply


def apply(venue: Venue, record: Record) -> tuple[Event, ...]:
    if isinstance(record, Place) and record.order.endswith("/poison"):
        raise ZeroDivisionError("made up")
    return _apply(venue, record)


if __name__ == "__main__":
    setattr(Venue, "apply", apply)  # noqa: B010
    sys.exit(main())
