"""Reads a study from a YAML document; what is wrong with it is said with its line.

The fields of a setting stand at the top of the document, for all settings; where one has several
values, there is a setting for each combination. Under `settings` several sets of fields can be
given, each on top of the common ones.

msgspec checks the shape and names the place of an error as a path (`$.settings[2].work`); so do
the checks here. The nodes that YAML was composed to know the line of each place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib.resources import files
from itertools import islice, product
from pathlib import Path
from typing import Any, get_args

import msgspec
import yaml

from laissez.amounts import BadAmount, microseconds
from laissez.deadline.registry import POLICIES, UnknownPolicy
from laissez.deadline.study import (
    Axis,
    BadStudy,
    Grouping,
    Measure,
    Plot,
    Setting,
    Study,
    Zones,
    deadline_us,
)

STUDIES = "studies"
ERROR_MAX = 0.9

SETTINGS_MAX = 1_000

_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "fields with values",
    "str": "text",
}
_OTHER_WAY = {"fraction": "deadline", "deadline": "fraction"}
_WORDS = {"x": Axis, "y": Measure, "group_by": Grouping, "zones": Zones}
_UNITS = {"work": "h", "deadline": "h", "changeover": "m"}
"""Of the fields that are durations, the unit that was probably meant."""


class _Fields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of a setting, as they are written."""

    label: str = ""
    traces: str | list[str] = []
    days: int | None = None
    work: str | list[str] = []
    fraction: float | list[float] = []
    deadline: str | list[str] = []
    changeover: str | list[str] = []
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
    folder = files("laissez.deadline") / STUDIES
    return tuple(sorted(Path(each.name).stem for each in folder.iterdir()))


def read_built_in(name: str) -> Study:
    if name not in built_in():
        raise BadStudy(f"there is no study {name!r}; take one of {', '.join(built_in())}")
    text = (files("laissez.deadline") / STUDIES / f"{name}.yaml").read_text(encoding="utf-8")
    return read_study(text, name=name, file_name=f"{name}.yaml")


def read_study(text: str, *, name: str, file_name: str) -> Study:
    """The study that a text describes."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        written = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadStudy(f"{file_name}:{line}: this is not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadStudy(f"{file_name}:1: this is not YAML: {str(error).splitlines()[0]}") from None
    for key in _repeated_keys(root):
        line = key.start_mark.line + 1
        raise BadStudy(f"{file_name}:{line}: {key.value!r} is there twice; keep one of them")
    try:
        return _study(written, name)
    except msgspec.ValidationError as error:
        wrong = _plainly(error, root)
    except _Wrong as found:
        wrong = found
    raise BadStudy(f"{file_name}:{_line(root, wrong.place)}: {wrong.sentence}")


def _study(written: object, name: str) -> Study:
    document = msgspec.convert(written, _Document)
    assert isinstance(written, dict)  # or it would not be a document
    policies = list(_each(document.policies, "$.policies"))
    for policy, place in policies:
        _need(policy in POLICIES, place, str(UnknownPolicy(policy)))
    _need(document.starts > 0, "$.starts", "there must be at least one start")
    _need(bool(policies), "$.policies", "name at least one policy")
    common = {key: value for key, value in written.items() if key in _Fields.__struct_fields__}
    settings: list[Setting] = []
    for at, special in enumerate(written.get("settings") or [{}]):
        shared = {key: common[key] for key in common if _OTHER_WAY.get(key) not in special}
        places = {key: f"$.{key}" for key in shared}
        places |= {key: f"$.settings[{at}].{key}" for key in special}
        fields = msgspec.convert(shared | special, _Fields)
        found = _settings(fields, places, f"$.settings[{at}]" if special else "$")
        settings += islice(found, SETTINGS_MAX + 1)
    _need(len(settings) <= SETTINGS_MAX, "$", f"there are more than {SETTINGS_MAX:,} settings")
    if document.group_by == "availability":
        is_single = all(setting.zones == "single" for setting in settings)
        _need(is_single, "$.group_by", "the availability of several zones has no one number")
    return Study(
        name,
        document.title,
        tuple(settings),
        tuple(dict.fromkeys(policy for policy, _ in policies)),
        document.starts,
        document.seed,
        document.plot,
        document.group_by,
    )


def _settings(fields: _Fields, places: Mapping[str, str], whole: str) -> Iterator[Setting]:
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
        values("changeover", _duration),
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
        yield Setting(
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


def _duration(text: str) -> int:
    try:
        return microseconds(text)
    except BadAmount as error:
        raise ValueError(f"{text!r} {error}") from None


def _span(text: str) -> int:
    span_us = _duration(text)
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


def _line(root: yaml.Node | None, place: str) -> int:
    """The line of a place, or of the last part of the way there that exists."""
    *_, (line, _) = _way(root, place)
    return line


def _way(root: yaml.Node | None, place: str) -> Iterator[tuple[int, yaml.Node | None]]:
    """The line and the node of each part of the way to a place, as far as it exists."""
    node = root
    yield 1 if node is None else node.start_mark.line + 1, node
    for key, index in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", place):
        if key and isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == key), None)
            if found is None:
                return
            line, node = found[0].start_mark.line + 1, found[1]
        elif index and isinstance(node, yaml.SequenceNode):
            node = node.value[int(index)]
            line = node.start_mark.line + 1
        else:
            return
        yield line, node


def _repeated_keys(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Keys that stand twice in one place; YAML would take the last and say nothing."""
    nodes = [root]
    known: set[int] = set()
    while nodes:
        node = nodes.pop()
        if id(node) in known:
            continue
        known.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += reversed(node.value)
        if isinstance(node, yaml.MappingNode):
            nodes += [value for _, value in reversed(node.value)]
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    yield key
                seen.add(str(key.value))


# --- what msgspec says, in the words of this format ---------------------------------------------


def _plainly(error: msgspec.ValidationError, root: yaml.Node | None) -> _Wrong:
    sentence, _, place = str(error).partition(" - at ")
    place = place.strip("`") or "$"
    field = re.search("field `(.*)`", sentence)
    if field and "missing" in sentence:
        return _Wrong(place, f"{field[1]!r} is missing; add it")
    if field:
        return _Wrong(f"{place}.{field[1]}", _unknown_field(field[1], place))
    last = re.sub(r"\[.*?\]", "", place).rpartition(".")[2]
    value = re.fullmatch("Invalid enum value (.*)", sentence)
    if value and last in _WORDS:
        return _Wrong(place, f"{value[1]} is none of: {', '.join(get_args(_WORDS[last]))}")
    kinds = [_KINDS.get(kind, kind) for kind in re.findall(r"[a-z]+", sentence.partition("`")[2])]
    wanted = " or ".join(kind for kind in kinds[: kinds.index("got")]) if "got" in kinds else ""
    if wanted and last in _UNITS and kinds[-1].endswith("number"):
        *_, (_, node) = _way(root, place)
        number = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
        example = number if re.fullmatch(r"[0-9.]+", number) else "12"
        return _Wrong(place, f"a duration needs a unit; write {example}{_UNITS[last]}")
    if wanted:
        return _Wrong(place, f"here must be {wanted}, not {kinds[-1]}")
    return _Wrong(place, f"this can't be read ({sentence})")


def _unknown_field(name: str, place: str) -> str:
    """What to do about a field that can't stand in a place."""
    kind: type[msgspec.Struct] = _Document if place == "$" else _Fields
    if place == "$.plot":
        kind = Plot
    fields = sorted(kind.__struct_fields__)
    if name in _Document.__struct_fields__:
        return f"{name!r} holds for the whole study; move it to the top of the document"
    close = get_close_matches(name, fields, n=1)
    if close:
        return f"there is no field {name!r}; did you mean {close[0]!r}?"
    return f"there is no field {name!r}; take it out, or take one of: {', '.join(fields)}"
