"""A CSV file played back, as fast as wanted: each row holds until the next.

The replay begins `start_s` after the first row, at the first instant it is asked about, and goes on
`speed` times as fast as real time. After the last row, which lasts as long as the one before it,
its value is held or all begins again. A cell that is empty or NaN is a gap: there is no number
until the next row.
"""

import csv
import gzip
import io
import math
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NamedTuple

from laissez.telemetry.source import US_PER_S, BadTelemetry, Reading

AtEnd = Literal["hold", "loop"]


class CsvReplay:
    def __init__(
        self,
        path: Path,
        *,
        column: str | None = None,
        time_column: str | None = None,
        start_s: float = 0.0,
        speed: float = 1.0,
        at_end: AtEnd = "hold",
    ) -> None:
        if not (0 < speed < math.inf and 0 <= start_s < math.inf):
            raise BadTelemetry("a replay needs a speed above 0, and a start that is not before 0")
        self._series = _read_series(path, column, time_column)
        self._start_s = start_s
        self._speed = speed
        self._at_end = at_end
        self._origin_us: int | None = None

    async def read(self, at_us: int) -> Reading | None:
        if self._origin_us is None:
            self._origin_us = at_us
        since_s = max(0, at_us - self._origin_us) * self._speed / US_PER_S
        value = self._series.at(self._start_s + since_s, self._at_end)
        return None if math.isnan(value) else Reading(value, at_us)

    async def close(self) -> None:
        """A file is read once, when the replay is made."""


class _Series(NamedTuple):
    """Rows by the time since the first; NaN is a gap."""

    times_s: "array[float]"
    values: "array[float]"

    def at(self, since_s: float, at_end: AtEnd) -> float:
        last_s = self.times_s[-1]
        before_s = self.times_s[-2] if len(self.times_s) > 1 else last_s
        whole_s = last_s + (last_s - before_s)
        if at_end == "loop" and whole_s > 0:
            since_s %= whole_s
        return self.values[bisect_right(self.times_s, since_s) - 1]


def _read_series(path: Path, column: str | None, time_column: str | None) -> _Series:
    reader = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        time_at = _find(header, time_column, 0)
        is_obvious = len(header) == 2 and column is None
        value_at = 1 - time_at if is_obvious else _find(header, column, None)
        series = _series(reader, len(header), time_at, value_at)
    except (csv.Error, ValueError) as error:
        raise BadTelemetry(f"{path}:{max(1, reader.line_num)}: {error}") from None
    return series


def _text(path: Path) -> str:
    try:
        written = path.read_bytes()
        written = gzip.decompress(written) if path.suffix == ".gz" else written
        return written.decode("utf-8-sig")
    except FileNotFoundError:
        raise BadTelemetry(f"there is no file {path}; check the name") from None
    except UnicodeDecodeError as error:
        line = written.count(b"\n", 0, error.start) + 1
        raise BadTelemetry(f"{path}:{line}: this is not text in UTF-8") from None
    except (OSError, ValueError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadTelemetry(f"{path} can't be read: {reason}") from None


def _series(rows: Iterable[list[str]], width: int, time_at: int, value_at: int) -> _Series:
    series = _Series(array("d"), array("d"))
    first_s = 0.0
    for row in rows:
        if not row:
            continue
        if len(row) != width:
            raise ValueError(f"the header has {width} cells, and this row {len(row)}; mend it")
        time_s = _time_s(row[time_at])
        if not series.times_s:
            first_s = time_s
        elif time_s - first_s < series.times_s[-1]:
            raise ValueError("this is before the row above; sort the file by time")
        series.times_s.append(time_s - first_s)
        series.values.append(_value(row[value_at]))
    if not series.times_s:
        raise ValueError("there is no row below the header; add one")
    return series


def _find(header: list[str], name: str | None, default: int | None) -> int:
    """The index of a column."""
    if name in header:
        return header.index(name)
    if name is None and default is not None and header:
        return default
    there = f"the file has: {', '.join(header) or 'nothing'}"
    if name is None:
        raise ValueError(f"say which column to take; {there}")
    close = get_close_matches(name, header, n=1)
    raise ValueError(
        f"there is no column {name!r}; {f'did you mean {close[0]!r}?' if close else there}"
    )


def _time_s(cell: str) -> float:
    try:
        time_s = float(cell)
    except ValueError:
        try:
            at = datetime.fromisoformat(cell.strip())
        except ValueError:
            raise ValueError(
                f"the time {cell!r} is neither seconds nor a date such as 2020-01-01 00:00"
            ) from None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()  # no zone: UTC
    if not math.isfinite(time_s):
        raise ValueError(f"the time {cell!r} is no number of seconds")
    return time_s


def _value(cell: str) -> float:
    if not cell.strip():
        return math.nan
    try:
        return float(cell)
    except ValueError:
        raise ValueError(
            f"{cell!r} is not a number; leave the cell empty if there is none"
        ) from None
