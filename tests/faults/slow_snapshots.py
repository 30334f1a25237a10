"""The service, with snapshots that take as long as those of a very large market."""

import sys
import time

from laissez.exchange import snapshots
from laissez.exchange.journal import Snapshot
from laissez.exchange.keys import Keys
from laissez.exchange.venue import Venue
from laissez.service.__main__ import main

SNAPSHOT_S = 120
_take = snapshots.take


def take_long(venue: Venue, sequence: int, keys: Keys | None = None) -> Snapshot:
    time.sleep(SNAPSHOT_S)
    return _take(venue, sequence, keys)


if __name__ == "__main__":
    snapshots.take = take_long
    sys.exit(main())
