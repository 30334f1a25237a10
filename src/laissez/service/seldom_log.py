"""A log that whoever knocks can't fill: a few lines a minute, each of them one line.

What is left out is counted, and said with the next line that is not. Of an error the line says what
and where.
"""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from time import monotonic_ns

NS_PER_MINUTE = 60_000_000_000
LINES_PER_MINUTE = 10


class Seldom(logging.Filter):
    """Lets a few records pass, and makes each of them one line."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = 0
        self._lines = 0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        minute = monotonic_ns() // NS_PER_MINUTE
        if minute != self._minute:
            self._minute, self._lines = minute, 0
        if self._lines >= LINES_PER_MINUTE:
            self._left_out += 1
            return False
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        words = " ".join(record.getMessage().split())
        if record.exc_info and record.exc_info[1] is not None:
            words += f": {_what_and_where(record.exc_info[1])}"
        if left_out:
            words += f" ({left_out:,} more before this)"
        record.msg, record.args, record.exc_info = words, (), None
        return True


def _what_and_where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + where


def seldom_log(name: str) -> logging.Logger:
    log = logging.getLogger(name)
    log.setLevel(logging.ERROR)
    log.addFilter(Seldom())
    return log
