"""Documents: what is written is read exactly, and what is wrong is said with its place."""

import enum
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from laissez.amounts import duration_text, microseconds
from laissez.documents import (
    BadDocument,
    BadField,
    Document,
    Dollars,
    DollarsPerHour,
    Duration,
    Percentage,
    Share,
    duration,
    read,
)
from laissez.documents.source import CHARACTERS_MAX, NESTING_MAX
from laissez.model.values import MAX_TIME


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Power(Struct, tag="power", tag_field="map"):
    row: str


class Carbon(Struct, tag="carbon", tag_field="map"):
    region: str
    weight: float = 1.0


class Scope(Struct, frozen=True):
    path: str
    floor: DollarsPerHour | None = None
    least: int = 0
    most: int = 9

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise BadField("most", "this is less than 'least'; write more")
        if self.path == "nowhere":
            raise ValueError("this scope is nowhere; name another")


class Everything(Struct, kw_only=True):
    name: str
    limit: DollarsPerHour = 0
    budget: Dollars = 0
    period: Duration = 0
    window: Annotated[int, duration("h")] = 0
    margin: Percentage = 0
    share: Share = 0.0
    pause: Annotated[Duration, Meta(gt=0)] = 1
    count: Annotated[int, Meta(ge=1, le=8)] = 1
    speed: float = 1.0
    is_open: bool = False
    order: Literal["up", "down", "across"] = "up"
    colour: Colour = Colour.RED
    end: Duration | Literal["never"] = "never"
    either: str | int | None = None
    code: Annotated[str, Meta(pattern="^[a-z]+$")] = "a"
    scopes: list[Scope] = []
    periods: Duration | tuple[Duration, ...] = ()
    pair: tuple[str, float] = ("", 0.0)
    some: Annotated[tuple[int, ...], Meta(min_length=1)] = (0,)
    floors: dict[str, DollarsPerHour] = {}
    maps: list[Power | Carbon] = []
    anything: Any = None
    from_: str = msgspec.field(default="", name="from")


def document(text: str) -> Document[Everything]:
    return read(text, Everything, file_name="d.yaml")


def value(field: str, written: str) -> Any:
    return getattr(document(f"name: x\n{field}: {written}\n").value, field)


def read_or_refuse(text: str) -> Document[Everything] | BadDocument:
    try:
        return document(text)
    except BadDocument as error:
        return error


def refusal(text: str) -> BadDocument:
    with pytest.raises(BadDocument) as caught:
        document(text)
    return caught.value


# --- what is written ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "written", "expected"),
    [
        ("limit", "2.50", 2_500_000),
        ("limit", "2", 2_000_000),
        ("limit", "'2.50'", 2_500_000),
        ("limit", "0.000001", 1),
        ("limit", "0.1", 100_000),
        ("limit", "9007199254.740993", 9_007_199_254_740_993),
        ("limit", "010", 10_000_000),
        ("budget", "1000", 1_000_000_000),
        ("period", "1h30m", 5_400_000_000),
        ("period", "0.25s", 250_000),
        ("margin", "25%", 2_500),
        ("margin", "150%", 15_000),
        ("margin", "7bp", 7),
        ("share", "25%", 0.25),
        ("share", "0.25", 0.25),
        ("share", "1", 1.0),
        ("speed", "1e-3", 0.001),
        ("speed", "60", 60.0),
        ("speed", "-.5", -0.5),
        ("speed", "1_000.5", 1000.5),
        ("count", "8", 8),
        ("name", "no", "no"),
        ("name", "1.10", "1.10"),
        ("name", "2024-01-01", "2024-01-01"),
        ("is_open", "yes", True),
        ("order", "across", "across"),
        ("colour", "green", Colour.GREEN),
        ("end", "never", "never"),
        ("end", "5s", 5_000_000),
        ("either", "5", 5),
        ("either", "'5'", "5"),
        ("either", "five", "five"),
        ("either", "", None),
        ("scopes", "[{path: h100/east}]", [Scope("h100/east")]),
        ("scopes", "[{path: a, floor: 1.5}]", [Scope("a", 1_500_000)]),
        ("scopes", "[{path: a, floor: ~}]", [Scope("a")]),
        ("periods", "5s", 5_000_000),
        ("periods", "[5s, 1m]", (5_000_000, 60_000_000)),
        ("pair", "[on, 1]", ("on", 1.0)),
        ("floors", "{h100/a.b: 2.10, 7: 1}", {"h100/a.b": 2_100_000, "7": 1_000_000}),
        ("maps", "[{map: power, row: r1}]", [Power("r1")]),
        ("maps", "[{region: DE, map: carbon, weight: 2}]", [Carbon("DE", 2.0)]),
        ("anything", "{a: [1, 0.5, no, ~, x, 2020-01-01]}", None),
    ],
)
def test_what_is_written_is_read_as_its_field_says(
    field: str, written: str, expected: object
) -> None:
    """Text stays text, amounts keep their digits, whatever YAML would guess."""
    if field == "name":
        assert document(f"name: {written}").value.name == expected
    elif field == "anything":
        assert value(field, written) == {"a": [1, 0.5, False, None, "x", "2020-01-01"]}
    else:
        found = value(field, written)
        assert found == expected
        assert type(found) is type(expected)


def test_a_field_is_written_by_the_name_that_it_has_in_documents() -> None:
    """A Struct may rename a field; what is not written has its default."""
    found = document("name: x\nfrom: here").value
    assert (found.from_, found.limit, found.end) == ("here", 0, "never")
    assert "no field 'from_'; did you mean 'from'?" in str(refusal("name: x\nfrom_: here"))


@given(st.decimals(min_value=0, max_value=10**9, places=6), st.booleans())
def test_dollars_are_exact_to_the_last_digit(dollars: Decimal, is_quoted: bool) -> None:
    """A number of dollars with up to six decimals is that many micro-dollars, bare or in quotes."""
    written = f"'{dollars:f}'" if is_quoted else f"{dollars:f}"
    assert value("limit", written) == value("budget", written) == int(dollars * 10**6)


# --- what is wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "sentence"),
    [
        ("", 1, 1, "the file is empty: here must be fields with values, not nothing"),
        ("# nothing\n", 1, 1, "the file is empty"),
        ("~", 1, 1, "the file is empty"),
        ("5", 1, 1, "here must be fields with values, not a whole number"),
        ("- name: x", 1, 1, "here must be fields with values, not a list"),
        ("limit: 2.50", 1, 1, "'name' is missing; add it"),
        ("name:", 1, 1, "here must be text, not nothing"),
        ("name: [x]", 1, 7, "here must be text, not a list; put quotes around it"),
        ("name:\n- x", 1, 1, "here must be text, not a list"),
        ("name: x\nname: y", 2, 1, "'name' is there twice, first in line 1; keep one of them"),
        ("name: x\nlimt: 2", 2, 1, "no field 'limt'; did you mean 'limit'?"),
        ("name: x\nzzz: 2", 2, 1, "no field 'zzz'; take it out, or take one of: anything, "),
        ("name: x\n? [a]\n: b", 2, 3, "a key must be text"),
        ("name: x\n~: b", 2, 1, "a key must be text"),
        ("name: x\nlimit: $2", 2, 8, "'$2' is not dollars per hour; write a number such as 2.50"),
        ("name: x\nlimit: -2", 2, 8, "'-2' is not dollars per hour"),
        ("name: x\nlimit: 1e3", 2, 8, "'1e3' is not dollars per hour"),
        ("name: x\nlimit: 0.0000001", 2, 8, "finer than a micro-dollar"),
        ("name: x\nlimit:", 2, 1, "here must be a price in dollars per hour, not nothing"),
        ("name: x\nlimit: {a: b}", 2, 8, "here must be a price in dollars per hour, not fields"),
        ("name: x\nbudget: much", 2, 9, "'much' is not dollars; write a number such as 2.50"),
        ("name: x\nperiod: 5", 2, 9, "a duration needs a unit; write 5s"),
        ("name: x\nperiod: 1:30", 2, 9, "a duration needs a unit; write 12s"),
        ("name: x\nperiod: soon", 2, 9, "'soon' is not a duration; write a number and a unit"),
        ("name: x\nwindow: 5", 2, 9, "a duration needs a unit; write 5h"),
        ("name: x\nmargin: 5", 2, 9, "a percentage needs a unit; write 5%"),
        ("name: x\nshare: 25", 2, 8, "'25' is not a share; write 25% or 0.25"),
        ("name: x\nshare: 125%", 2, 8, "'125%' is more than all"),
        ("name: x\npause: 0s", 2, 8, "this is 0s; write more than 0s"),
        ("name: x\ncount: 0", 2, 8, "this is 0; write 1 or more"),
        ("name: x\ncount: 9", 2, 8, "this is 9; write 8 or less"),
        ("name: x\ncount: 2.5", 2, 8, "here must be a whole number in plain digits, such as 12"),
        ("name: x\ncount: 010", 2, 8, "in plain digits"),
        ("name: x\ncount: many", 2, 8, "here must be a whole number, not text"),
        ("name: x\ncount: '5'", 2, 8, "here must be a whole number, not text"),
        ("name: x\nspeed: .nan", 2, 8, "here must be a number in plain digits"),
        ("name: x\nspeed: 1e999", 2, 8, "'1e999' is too large"),
        ("name: x\nspeed: 1:30", 2, 8, "here must be a number in plain digits"),
        ("name: x\nis_open: 1", 2, 10, "here must be true or false, not a whole number"),
        ("name: x\norder: left", 2, 8, "'left' is none of: up, down, across"),
        ("name: x\ncolour: blue", 2, 9, "'blue' is none of: red, green"),
        ("name: x\nend: later", 2, 6, "here must be a duration or one of: never, not text"),
        ("name: x\ncode: A1", 2, 7, "'A1' is not of the form ^[a-z]+$"),
        ("name: x\nscopes: 5", 2, 9, "here must be a list, not a whole number"),
        ("name: x\nscopes:\n- path: a\n- floor: 2", 4, 3, "'path' is missing; add it"),
        ("name: x\nscopes:\n- path: a\n  floor: 2h", 4, 10, "'2h' is not dollars per hour"),
        ("name: x\nscopes:\n- {path: nowhere}", 3, 3, "this scope is nowhere; name another"),
        ("name: x\nscopes:\n- path: a\n  most: 1\n  least: 2", 4, 9, "this is less than 'least'"),
        ("name: x\nscopes:\n- path: a\n  least: 10", 3, 3, "this is less than 'least'"),
        ("name: x\nperiods: [5s,\n  5]", 3, 3, "a duration needs a unit; write 5s"),
        ("name: x\npair: [a]", 2, 7, "here must be 2 values"),
        ("name: x\nsome: []", 2, 7, "this is 0; there must be at least 1"),
        ("name: x\nfloors:\n  h100: dear", 3, 9, "'dear' is not dollars per hour"),
        ("name: x\nfloors:\n  h100: 1\n  h100: 2", 4, 3, "'h100' is there twice"),
        ("name: x\nmaps:\n- row: r1", 3, 3, "'map' is missing; take one of: power, carbon"),
        ("name: x\nmaps:\n- map: sun", 3, 8, "'sun' is none of: power, carbon"),
        ("name: x\nmaps:\n- map: power\n  row: a\n  region: DE", 5, 3, "no field 'region'"),
        ("name: [x", 1, 7, "not YAML: a quote or bracket that is opened here is never closed"),
        ("name: 'x", 1, 7, "not YAML: a quote or bracket that is opened here is never closed"),
        ("name: x\n\tlimit: 2", 2, 1, "not YAML: a tab can't indent; use spaces"),
        ("name: a: b", 1, 8, "not YAML: a second ':' in one line"),
        ("name: x\nlimit", 2, 1, "not YAML: this line has no ':'"),
        ("name: @x", 1, 7, "not YAML: a text can't begin with '@'; put it in quotes"),
        ("name: x\npair: [g[0-7], 1]", 2, 9, 'needs quotes; write "g[0-7]"'),
        ("name: x\nfloors: {h100/{zone}: 1}", 2, 15, 'needs quotes; write "h100/{zone}"'),
        ("name: {host}", 1, 7, "here must be text, not fields with values; put quotes around it"),
        ("name: {host}.x", 1, 13, 'text that begins with a bracket needs quotes; write "{host}.x"'),
        ("name: {a}{b}", 1, 10, 'text that begins with a bracket needs quotes; write "{a}{b}"'),
        ('name: "g"[0-7]', 1, 10, 'goes on after its closing quote; put quotes around all of "g"'),
        ("floors:\n    a: 1\n  name: x", 3, 3, "this does not fit what stands before it; align"),
        ("name: x\n--- \nname: y", 2, 1, "not YAML: a second document begins here"),
        ("name: x\nscopes: [a\nlimit: 2", 3, 6, "the bracket opened in line 2 is not closed"),
        ("name: x\0", 1, 8, "not YAML: the character U+0000 can't be in it; remove it"),
        ('name: "\\UFFFFFFFF"', 1, 10, "not YAML: a number or escape is out of range"),
        ("name: &a x\nfrom: *a", 1, 7, "'&a' names a part of the file; remove it"),
        ("name: !!python/name:os.system x", 1, 7, "gives a type; remove it"),
        ("name: " + "[" * NESTING_MAX, 1, 6 + NESTING_MAX, "nested deeper"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    text: str, line: int, column: int, sentence: str
) -> None:
    """The file, line and column of the first problem, and what to do about it."""
    found = refusal(text)
    assert str(found).startswith(f"d.yaml:{line}:{column}: ")
    assert sentence in found.problems[0].sentence


def test_all_problems_are_said_at_once_and_shown_in_the_text() -> None:
    """One after the other in the order of lines, each above its line, with a caret below it."""
    found = refusal("limt: 2\nname: x\ncount: many\nscopes:\n  - path: [a]\n")
    assert str(found) == (
        "d.yaml:1:1: there is no field 'limt'; did you mean 'limit'?\n"
        "    limt: 2\n"
        "    ^\n"
        "d.yaml:3:8: here must be a whole number, not text\n"
        "    count: many\n"
        "           ^\n"
        "d.yaml:5:11: here must be text, not a list; put quotes around it\n"
        "      - path: [a]\n"
        "              ^"
    )


def test_a_file_that_is_too_long_is_not_parsed() -> None:
    """The limit comes before any work."""
    assert "below 1,000,000 characters" in str(refusal("#" * (CHARACTERS_MAX + 1)))


def test_an_alias_can_not_make_a_small_file_large() -> None:
    """A file that would be a billion items is refused for its aliases, all of which are named."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 10)]
    assert len(refusal("\n".join(lines)).problems) == 10 + 9 * 9


def test_every_anchor_is_named() -> None:
    """Also one that is there twice, each in its line."""
    assert [each.line for each in refusal("name: &a x\nfrom: &a y").problems] == [1, 2]


def test_a_hint_takes_the_place_of_a_close_match() -> None:
    """Whoever defines a format knows which keys people will try."""
    with pytest.raises(BadDocument, match="call it 'name'"):
        read("title: x", Scope, file_name="s", hints={"title": "call it 'name'"})


# --- places -------------------------------------------------------------------------------------


PLACES = "name: x\nscopes:\n- path: a\n- path: b\n  floor: 2\nfloors: {h100/a.b: 1}\n"


@pytest.mark.parametrize(
    ("place", "line", "column", "is_there"),
    [
        ("$", 1, 1, True),
        ("$.name", 1, 7, True),
        ("$.scopes", 2, 1, True),
        ("$.scopes[1]", 4, 3, True),
        ("$.scopes[1].floor", 5, 10, True),
        ("$.scopes[0].floor", 3, 3, False),
        ("$.scopes[7].floor", 2, 1, False),
        ("$.name.more", 1, 7, False),
        ("$.limit", 1, 1, False),
        (("floors", "h100/a.b"), 6, 20, True),
        (("scopes", 1, "path"), 4, 9, True),
    ],
)
def test_a_later_check_points_at_a_line(
    place: str | tuple[str | int, ...], line: int, column: int, is_there: bool
) -> None:
    """At the place, or at the last part of the way to it that was written."""
    found = document(PLACES)
    assert str(found.wrong(place, "mend this")).startswith(f"d.yaml:{line}:{column}: mend this\n")
    assert found.has(place) == is_there


class Rack(Struct):
    rows: dict[str, int]
    scopes: list[Scope] = []

    def __post_init__(self) -> None:
        for row, count in self.rows.items():
            if count < 0:
                raise BadField(("rows", row), "a row has no less than nothing;\n\n  write\tmore")
        for number, scope in enumerate(self.scopes):
            if scope.path == "attic":
                raise BadField(("scopes", number, "floor"), "an attic has no floor")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("rows: {a: 1,\n  b/c: -1}", "2:8: a row has no less than nothing; write more\n"),
        ("rows:\n  a: 1\n  b: -1", "3:6: a row has no less than nothing; write more\n"),
        ("rows: {}\nscopes:\n- path: x\n- {path: attic, floor: 1}", "4:24: an attic has"),
        ("rows: {}\nscopes:\n- path: x\n- path: attic", "4:3: an attic has no floor\n"),
    ],
)
def test_a_check_points_at_a_part_of_a_field(text: str, place: str) -> None:
    """As far as it is written; its sentence is one line, however it was broken."""
    with pytest.raises(BadDocument) as caught:
        read(text, Rack, file_name="d.yaml")
    assert str(caught.value).startswith(f"d.yaml:{place}")


# --- any text -----------------------------------------------------------------------------------

WORDS = [*Everything.__struct_fields__, "from", "path", "floor", "map", "row", "power", "carbon"]
VALUES = ["2.50", "5s", "25%", "no", "~", "1e3", ".inf", "0x1F", "1:30", "'q'", "&a", "*a", "!!int"]
SIGNS = [
    "\n",
    "\n  ",
    "\n- ",
    ": ",
    ", ",
    "[",
    "]",
    "{",
    "}",
    "? ",
    "---\n",
    "<<",
    "\t",
    "#",
    '"\\',
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS + VALUES + SIGNS)).map("".join)))
@example("name: x\n? {a: b}\n: c")
@example("\ufeffname: x")
@example("\ufeff\ud800")
@example("name: \x85\u2028'")
@example("=: =")
@example("name: x\n<<: {limit: 2}")
@example("count: " + "9" * 5000)
@example("limit: " + "9" * 5000)
@example("period: " + "9" * 5000 + "d")
@example("name: x\nanything: {1: 0b1_, 2: 1__0, 3: +, 4: =}")
def test_any_text_is_read_or_refused(text: str) -> None:
    """Never another exception; a refusal has problems within the text, and can be shown."""
    found = read_or_refuse(text)
    if isinstance(found, Document):
        assert isinstance(found.value, Everything)
        return
    assert found.problems
    assert all(each.line >= 1 and each.column >= 1 and each.sentence for each in found.problems)
    assert str(found).startswith("d.yaml:")


FIELDS = st.fixed_dictionaries(
    {}, optional={word: st.sampled_from(VALUES + WORDS) for word in Everything.__struct_fields__}
)


@given(FIELDS)
def test_any_fields_are_read_or_refused(fields: dict[str, str]) -> None:
    """Documents of the right outline with any values; what is read holds what its types say."""
    text = "\n".join(f"{name}: {written}" for name, written in fields.items())
    found = read_or_refuse(text)
    if isinstance(found, BadDocument):
        assert {each.line for each in found.problems} <= set(range(1, len(fields) + 2))
        return
    assert msgspec.convert(msgspec.to_builtins(found.value), Everything) == found.value


@given(st.integers(0, MAX_TIME))
def test_a_duration_is_written_as_it_is_read(duration_us: int) -> None:
    """There and back; in the largest units."""
    assert microseconds(duration_text(duration_us)) == duration_us
    assert duration_text(5_400_000_000) == "1h30m"
    assert duration_text(0) == "0s"
