"""The service, moving its log into the journal's file all the time, so that kills hit that too."""

import sys

from laissez.exchange import sqlite_journal
from laissez.service.__main__ import main

if __name__ == "__main__":
    sqlite_journal.CHECKPOINT_BYTES = 50_000
    sqlite_journal.CHECKPOINT_PAGES = 100
    sys.exit(main())
