"""How a source is written in a YAML document, as a part of a larger one.

    {csv: power.csv, column: pdu6, speed: 60}
    {prometheus: "http://host:9090", query: "sum(power_watts)", token_variable: PROM_TOKEN}
    {json: "http://host/now", path: rows.0.watts, timestamp: rows.0.time}
    {python: "package.module:function"}

One of the four says what kind it is, and which other fields may stand beside it. All may say when a
value is stale, how long it then takes to drift to which default, and what range is believable.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from laissez.documents import BadField, Duration
from laissez.telemetry.callable import PythonCallable
from laissez.telemetry.feed import TIMEOUT_US, Feed
from laissez.telemetry.replay import AtEnd, CsvReplay
from laissez.telemetry.source import US_PER_S, Source
from laissez.telemetry.steady import Steady
from laissez.telemetry.web import JsonHttp, Prometheus

_KINDS = ("csv", "prometheus", "json", "python")
_NEEDED = {"prometheus": "query", "json": "path"}
_BELONGS_TO = {
    "column": ("csv",),
    "time": ("csv",),
    "start": ("csv",),
    "speed": ("csv",),
    "at_end": ("csv",),
    "query": ("prometheus",),
    "path": ("json",),
    "timestamp": ("json",),
    "token_variable": ("prometheus", "json"),
}


class SourceDescription(Struct, kw_only=True, frozen=True):
    csv: str | None = None
    prometheus: str | None = None
    json: str | None = None
    python: str | None = None

    column: str | None = None
    time: str | None = None
    start: Duration | None = None
    speed: Annotated[float, Meta(gt=0)] | None = None
    at_end: AtEnd | None = None
    query: str | None = None
    path: str | None = None
    timestamp: str | None = None
    token_variable: str | None = None

    scale: float = 1.0
    offset: float = 0.0
    timeout: Annotated[Duration, Meta(gt=0)] = TIMEOUT_US
    stale_after: Duration = 60 * US_PER_S
    drift: Annotated[Duration, Meta(gt=0)] = 600 * US_PER_S
    default: float | None = None
    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        kinds = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            raise ValueError(f"a source is exactly one of: {', '.join(_KINDS)}; write one")
        needed = _NEEDED.get(kinds[0])
        if needed and getattr(self, needed) is None:
            raise ValueError(f"a source with {kinds[0]!r} needs {needed!r}; add it")
        for field, owners in _BELONGS_TO.items():
            if kinds[0] not in owners and getattr(self, field) is not None:
                raise BadField(field, f"this belongs to {' or '.join(owners)}; take it out")
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        if least > most:
            raise BadField("most", "this is less than 'least'; write more")
        if self.default is not None and not least <= self.default <= most:
            raise BadField("default", "this is not between 'least' and 'most'; take another")

    def feed(
        self,
        folder: Path,
        *,
        default: float,
        least: float | None = None,
        most: float | None = None,
    ) -> Feed:
        """The feed that is described. File names are relative to the folder of the document.
        `default` is what is safe, and `least` to `most` what is believable, where the document
        does not say. BadTelemetry if it can't be."""
        steady = Steady(
            stale_after_us=self.stale_after,
            drift_us=self.drift,
            default=default if self.default is None else self.default,
            least=least if self.least is None else self.least,
            most=most if self.most is None else self.most,
        )
        return Feed(
            self._source(folder),
            steady,
            scale=self.scale,
            offset=self.offset,
            timeout_us=self.timeout,
        )

    def _source(self, folder: Path) -> Source:
        if self.csv is not None:
            return CsvReplay(
                folder / self.csv,
                column=self.column,
                time_column=self.time,
                start_s=(self.start or 0) / US_PER_S,
                speed=self.speed or 1.0,
                at_end=self.at_end or "hold",
            )
        if self.prometheus is not None:
            return Prometheus(
                self.prometheus,
                self.query or "",
                token_variable=self.token_variable,
                timeout_us=self.timeout,
            )
        if self.json is not None:
            return JsonHttp(
                self.json,
                self.path or "",
                timestamp_path=self.timestamp,
                token_variable=self.token_variable,
                timeout_us=self.timeout,
            )
        assert self.python is not None
        return PythonCallable(self.python, folder=folder)
