"""Reads a study from a YAML document; what is wrong with it is said with its line.

The fields of a setting stand at the top of the document, for all settings; where one has several
values, there is a setting for each combination. Under `settings` several sets of fields can be
given, each on top of the common ones.

`documents` checks the shape; what a shape can't say is checked here, with the place as a path
(`$.settings[2].work`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from itertools import islice, product
from pathlib import Path
from typing import Annotated, Any

import msgspec

from laissez.deadline.registry import POLICIES, UnknownPolicy
from laissez.documents import BadDocument, Document, duration, read
from laissez.experiments.deadline.study import (
    BadStudy,
    Grouping,
    Plot,
    Study,
    StudySetting,
    Zones,
    deadline_us,
)

STUDIES = "studies"
ERROR_MAX = 0.9

SETTINGS_MAX = 1_000

_Hours = Annotated[int, duration("h")]
_Minutes = Annotated[int, duration("m")]
_OTHER_WAY = {"fraction": "deadline", "deadline": "fraction"}


class _Fields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of a setting, as they are written."""

    label: str = ""
    traces: str | list[str] = []
    days: int | None = None
    work: _Hours | list[_Hours] = []
    fraction: float | list[float] = []
    deadline: _Hours | list[_Hours] = []
    changeover: _Minutes | list[_Minutes] = []
    price_ratio: float | list[float] = 3.0
    nodes: int | list[int] = 1
    work_error: float | list[float] = 0.0
    changeover_error: float | list[float] = 0.0
    zones: Zones = "single"
    published: float | None = None


class _Document(_Fields):
    title: str
    policies: str | list[str]
    starts: int = 300
    seed: int = 1
    plot: Plot = Plot()
    group_by: Grouping | None = None
    settings: list[_Fields] = []


class _Wrong(Exception):
    """Something at a place of the document: the place as msgspec writes it, and a sentence."""

    def __init__(self, place: str, sentence: str) -> None:
        super().__init__(place, sentence)
        self.place = place
        self.sentence = sentence


def built_in() -> tuple[str, ...]:
    """The names of the studies that come with laissez."""
    folder = files("laissez.experiments.deadline") / STUDIES
    return tuple(sorted(Path(each.name).stem for each in folder.iterdir()))


def read_built_in(name: str) -> Study:
    if name not in built_in():
        raise BadStudy(f"there is no study {name!r}; take one of {', '.join(built_in())}")
    text = (files("laissez.experiments.deadline") / STUDIES / f"{name}.yaml").read_text(
        encoding="utf-8"
    )
    return read_study(text, name=name, file_name=f"{name}.yaml")


def read_study(text: str, *, name: str, file_name: str) -> Study:
    """The study that a text describes."""
    hints = {
        field: f"{field!r} holds for the whole study; move it to the top of the document"
        for field in _Document.__struct_fields__
        if field not in _Fields.__struct_fields__
    }
    try:
        document = read(text, _Document, file_name=file_name, hints=hints)
        try:
            return _study(document, name)
        except _Wrong as found:
            raise document.wrong(found.place, found.sentence) from None
    except BadDocument as error:
        first = error.problems[0]
        raise BadStudy(f"{file_name}:{first.line}: {first.sentence}") from None


def _study(document: Document[_Document], name: str) -> Study:
    written = document.value
    policies = list(_each(written.policies, "$.policies"))
    for policy, place in policies:
        _need(policy in POLICIES, place, str(UnknownPolicy(policy)))
    _need(written.starts > 0, "$.starts", "there must be at least one start")
    _need(bool(policies), "$.policies", "name at least one policy")
    settings: list[StudySetting] = []
    for at, special in enumerate(written.settings or [_Fields()]):
        own = _places(document, f"$.settings[{at}]")
        common = _places(document, "$")
        places = {key: common[key] for key in common if _OTHER_WAY.get(key) not in own} | own
        fields = _Fields(
            **{key: getattr(special if key in own else written, key) for key in places}
        )
        found = _settings(fields, places, f"$.settings[{at}]" if own else "$")
        settings += islice(found, SETTINGS_MAX + 1)
    _need(len(settings) <= SETTINGS_MAX, "$", f"there are more than {SETTINGS_MAX:,} settings")
    if written.group_by == "availability":
        is_single = all(setting.zones == "single" for setting in settings)
        _need(is_single, "$.group_by", "the availability of several zones has no one number")
    return Study(
        name,
        written.title,
        tuple(settings),
        tuple(dict.fromkeys(policy for policy, _ in policies)),
        written.starts,
        written.seed,
        written.plot,
        written.group_by,
    )


def _places(document: Document[_Document], whole: str) -> dict[str, str]:
    """The place of each field of a setting that is written in one part of the document."""
    places = {field: f"{whole}.{field}" for field in _Fields.__struct_fields__}
    return {field: place for field, place in places.items() if document.has(place)}


def _settings(fields: _Fields, places: Mapping[str, str], whole: str) -> Iterator[StudySetting]:
    """A setting for each combination of values."""
    for needed in ("traces", "work", "changeover"):
        _need(needed in places, whole, f"{needed!r} is missing; add it")
    for name, place in places.items():
        _need(getattr(fields, name) != [], place, f"{name!r} has no values; give at least one")
    _need(
        ("fraction" in places) != ("deadline" in places),
        places.get("deadline", whole),
        "say either what 'fraction' of the deadline the work is, or the 'deadline'",
    )
    _need(
        fields.days is None or fields.days > 0, places.get("days", whole), "take at least one day"
    )

    def values(name: str, check: Callable[[Any], Any]) -> list[Any]:
        found = _each(getattr(fields, name), places.get(name, whole))
        return [_checked(value, place, check) for value, place in found]

    traces = tuple(values("traces", _pattern))
    ends = values("fraction", _fraction) if "fraction" in places else values("deadline", _span)
    for work_us, end, changeover_us, ratio, nodes, work_error, changeover_error in product(
        values("work", _span),
        ends,
        values("changeover", int),
        values("price_ratio", _ratio),
        values("nodes", _nodes),
        values("work_error", _error),
        values("changeover_error", _error),
    ):
        is_fraction = "fraction" in places
        ends_us = deadline_us(work_us, end) if is_fraction else end
        _need(
            ends_us >= work_us + changeover_us,
            places["fraction" if is_fraction else "deadline"],
            "the deadline leaves no time for work and changeover; move it",
        )
        yield StudySetting(
            traces=traces,
            work_us=work_us,
            fraction=end if is_fraction else work_us / ends_us,
            deadline_us=ends_us,
            changeover_us=changeover_us,
            price_ratio=ratio,
            nodes=nodes,
            work_error=work_error,
            changeover_error=changeover_error,
            days=fields.days,
            zones=fields.zones,
            label=fields.label,
            published=fields.published,
        )


# --- checks of single values: each returns the value as the study has it, or raises ValueError ----


def _pattern(text: str) -> str:
    if not text.strip():
        raise ValueError("this names no traces; write a path such as '*/*.json'")
    return text


def _span(span_us: int) -> int:
    if not span_us:
        raise ValueError("this takes no time at all; write a duration such as 48h")
    return span_us


def _fraction(value: float) -> float:
    if not 0 < value < 1:
        raise ValueError(f"{value:g} is no fraction of the deadline; write one between 0 and 1")
    return value


def _ratio(value: float) -> float:
    if not 1 < value < 1e6:
        raise ValueError("on-demand costs more than spot; write a ratio above 1, such as 3")
    return value


def _nodes(value: int) -> int:
    if value < 1:
        raise ValueError("a job needs at least one node")
    return value


def _error(value: float) -> float:
    if not 0 <= value <= ERROR_MAX:
        raise ValueError(f"an error is between 0 and {ERROR_MAX}, relative to the estimate")
    return value


# --- places -------------------------------------------------------------------------------------


def _need(is_so: bool, place: str, sentence: str) -> None:
    if not is_so:
        raise _Wrong(place, sentence)


def _each(value: object, place: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield item, f"{place}[{at}]"
    else:
        yield value, place


def _checked(value: Any, place: str, check: Callable[[Any], Any]) -> Any:
    try:
        return check(value)
    except ValueError as error:
        raise _Wrong(place, str(error)) from None
