"""Numbers from outside, for maps and applications: power, carbon, load, progress.

A source reads one number from a file, an address or a function. What happens when it can't is
decided in one place, and without I/O: the last good value is held for a while, then drifts to a
safe default. So a gap in the data never makes a jump. The room may import `documents`, and httpx
when an address is to be read; it knows no market.

    source         what a source is, and what it says when there is no number
    replay         a CSV file, played back
    web            a Prometheus query; a number in a JSON document
    callable       a Python function
    steady         the last good reading and the time -> a level: pure
    feed           a source and its steadying; several of them, read together
    description    how a source is written in a YAML document
"""

from laissez.telemetry.callable import PythonCallable
from laissez.telemetry.description import SourceDescription
from laissez.telemetry.feed import Feed, Telemetry
from laissez.telemetry.replay import CsvReplay
from laissez.telemetry.source import BadTelemetry, Reading, Source, Unreadable
from laissez.telemetry.steady import Freshness, Level, Steady
from laissez.telemetry.web import JsonHttp, Prometheus

__all__ = [
    "BadTelemetry",
    "CsvReplay",
    "Feed",
    "Freshness",
    "JsonHttp",
    "Level",
    "Prometheus",
    "PythonCallable",
    "Reading",
    "Source",
    "SourceDescription",
    "Steady",
    "Telemetry",
    "Unreadable",
]
