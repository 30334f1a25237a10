"""The service, moving its log into the journal's file all the time, so that kills hit that too."""

import sys

from laissez.exchange import journal, pipeline
from laissez.service.__main__ import main

if __name__ == "__main__":
    pipeline.CHECKPOINT_BYTES = 50_000
    journal.CHECKPOINT_PAGES = 100
    sys.exit(main())
