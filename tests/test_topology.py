"""A cluster's description: what it means, what is said when it is wrong, and the way back."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from laissez.amounts import BadAmount, basis_points, micros_per_hour, microseconds
from laissez.documents import BadDocument
from laissez.documents.problems import text_lines
from laissez.market import Market
from laissez.market.checks import MAX_DEPTH, is_name, is_path
from laissez.topology import (
    Change,
    Cluster,
    ClusterPlan,
    ClusterResource,
    Floor,
    Fold,
    Guard,
    GuardChange,
    LevelsOfTree,
    TopologyError,
    describe,
    difference,
    expand,
    fold,
    read_cluster,
)
from laissez.topology.names import DEPTH_MAX, name_problem
from laissez.topology.ranges import BadRange, parse

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "cluster.yaml"

# The first block of the layout begins in line 6.
TWO_LEVELS = "version: 1\ntrees:\n  h100:\n    levels: [zone, gpu]\n    layout:\n"
ONE_BLOCK = TWO_LEVELS + '      - {zone: a, gpu: "g[0-1]"}\n'


def paths(cluster: Cluster) -> list[str]:
    return [resource.path for tree in cluster.trees for resource in tree.resources]


def problems(text: str) -> TopologyError:
    with pytest.raises(TopologyError) as caught:
        read_cluster(text)
    return caught.value


def read_or_refuse(text: str) -> tuple[Cluster, TopologyError | None]:
    try:
        return read_cluster(text), None
    except TopologyError as error:
        return Cluster(()), error


# --- what a file means --------------------------------------------------------------------------


def test_the_example_describes_64_gpus() -> None:
    """The sample that we ship is read whole, with floors, guard and attributes."""
    h100, a100 = read_cluster(EXAMPLE.read_text()).trees
    assert (h100.name, len(h100.resources), a100.name, len(a100.resources)) == (
        *("h100", 48),
        *("a100", 16),
    )
    assert h100.all_floors() == (
        Floor("h100", 2_000_000),
        Floor("h100/us-west", 2_200_000),
        Floor("h100/us-east/r2", 2_350_000),
    )
    assert h100.guard == Guard(2_500, 500_000, 2_000_000, 1_000_000)
    assert (a100.all_floors(), a100.guard) == ((Floor("a100", 1_100_000),), None)
    assert h100.resources[0] == ClusterResource(
        "h100/us-east/r1/h1/g0",
        (
            ("address", "h1.r1.us-east.example.com"),
            ("device", "g0"),
            ("levels", "zone/rack/host/gpu"),
        ),
    )


def test_a_market_takes_what_a_file_describes() -> None:
    """Every resource and floor of the sample is accepted by a market as it is."""
    market = Market()
    for tree in read_cluster(EXAMPLE.read_text()).trees:
        for floor in tree.all_floors():
            market.set_floor(floor.scope, floor.micros_per_hour, at=0)
        for resource in tree.resources:
            market.add_resource(resource.path, attributes=dict(resource.attributes), at=0)
            assert market.attributes(resource.path) == dict(resource.attributes)
    assert len(market.resources()) == 64
    assert market.floor("h100/us-east/r2/h1/g0") == 2_350_000


def test_resources_come_in_the_order_of_the_file() -> None:
    """Blocks follow each other, and within a block the innermost level counts fastest."""
    text = (
        TWO_LEVELS + '      - {zone: [b, "a[1-2]"], gpu: "g[09-10]"}\n      - {zone: 0, gpu: no}\n'
    )
    found = [path.removeprefix("h100/") for path in paths(read_cluster(text))]
    assert found == ["b/g09", "b/g10", "a1/g09", "a1/g10", "a2/g09", "a2/g10", "0/no"]


def test_attributes_are_filled_in_for_each_resource() -> None:
    """Placeholders stand for the names on the path, doubled braces for braces."""
    text = TWO_LEVELS + (
        '      - {zone: "z[1-2]", gpu: "g[1-2]", attributes: '
        '{d: "{gpu}{gpu}", all: "{path}", c: "{{}}", z: "{zone}", n: 7}}\n'
    )
    last = read_cluster(text).trees[0].resources[-1]
    wanted = {"d": "g2g2", "all": "h100/z2/g2", "c": "{}", "z": "z2", "n": "7"}
    assert dict(last.attributes) == wanted | {"levels": "zone/gpu"}


def test_floors_may_have_ranges_and_an_empty_layout_may_stand() -> None:
    """A floor on a range is one on each scope; an explicitly empty layout has no resources."""
    floors = read_cluster(ONE_BLOCK + '    floors: {"a/g[0-1]": 0.000001, a: 0}\n').trees[0].floors
    assert floors == (Floor("h100/a/g0", 1), Floor("h100/a/g1", 1), Floor("h100/a", 0))
    empty = TWO_LEVELS.replace("layout:", "layout: []\n    guard: {}")
    assert paths(read_cluster(empty)) == []
    assert read_cluster(empty).trees[0].guard == Guard()


# --- what is said when it is wrong --------------------------------------------------------------

BLOCK = TWO_LEVELS + "      - "


MISTAKES = [
    ("", 1, 1, "the file is empty"),
    ("- a", 1, 1, "the file has to be keys"),
    ("version: 2\nfuture: {}", 1, 10, "this file is version 2, this laissez reads 1"),
    ("version: one", 1, 10, "'one' is no version"),
    ("trees: {t: {levels: [a], layout: []}}", 1, 1, "no version"),
    ("version: 1\n", 1, 1, "no trees"),
    ("version: 1\ntrees: {}", 2, 8, "no tree here"),
    ("version: 1\ntrees:\n", 2, 7, "trees has to be keys"),
    ("version: 1\ntrees: [h100]", 2, 8, "trees has to be keys"),
    (ONE_BLOCK + "? [a]\n: 1", 7, 3, "a key must be text"),
    (ONE_BLOCK + "tres: 1", 7, 1, "did you mean 'trees'?"),
    # YAML itself
    ("version: 1\n\ttrees: 1", 2, 1, "use spaces"),
    ("version: 1\ntrees: {a: [b,\n", 2, 12, "never closed"),
    ('version: 1\nname: "b\n', 2, 7, "never closed"),
    ("version: 1\ntrees: a: b", 2, 9, "second ':'"),
    ("version: 1\ntrees: - a", 2, 8, "line of its own"),
    ("version: 1\nx: @b", 2, 4, "can't begin with '@'"),
    ('version: 1\nx: "b" c', 2, 8, 'quotes around all of "b" c'),
    ("version: 1\ntrees\n", 2, 1, "no ':'"),
    ("version: 1\ntrees:\n    a:\n  b:\n", 4, 3, "align it"),
    ("version: 1\n---\nversion: 1", 2, 1, "second document"),
    ("version: 1\r\nx: \x00", 2, 4, "U+0000"),
    ('version: 1\nx: "\\UFFFFFFFF"', 2, 7, "escape"),
    ("version: 1\ntrees: " + "[" * 9000, 2, 19, "nested deeper"),
    ("# " + "x" * 1_000_000, 1, 1, "1,000,000 characters; write ranges like r[1-40]"),
    (BLOCK + "{zone: a, gpu: g[0-7]}", 6, 25, 'quotes; write "g[0-7]"'),
    (BLOCK + "{zone: [r[1-3,7], r9], gpu: g}", 6, 18, 'quotes; write "r[1-3,7]"'),
    (BLOCK + "{zone: a\n      - {zone: b", 7, 9, "opened in line 6 is not closed"),
    (BLOCK + "attributes: {a: {zone}.{gpu}}", 6, 31, 'quotes; write "{zone}.{gpu}"'),
    (BLOCK + "{zone: a, gpu: b, attributes: {a: x{gpu}}}", 6, 44, 'quotes; write "x{gpu}"'),
    (BLOCK + "{zone: a, gpu: [0-7]}", 6, 24, "quotes around the range"),
    (BLOCK + "{zone: a, gpu: g, attributes: {i: {gpu}}}", 6, 43, "quotes around it"),
    # aliases, anchors, tags
    ("version: 1\na: &x [1]", 2, 4, "'&x' names a part"),
    ("version: 1\na: *x", 2, 4, "'*x' repeats another part"),
    ("version: !!int 1", 1, 10, "gives a type"),
    # trees and levels
    ("version: 1\ntrees:\n  h100: 1\n", 3, 9, "write levels: and layout:"),
    ("version: 1\ntrees:\n  h100: {layout: []}\n", 3, 3, "has no levels"),
    ("version: 1\ntrees:\n  h100: {levels: [a]}\n", 3, 3, "has no layout"),
    (TWO_LEVELS.replace("h100", "a/b"), 3, 3, "has a '/'"),
    (TWO_LEVELS.replace("h100", "h[1-2]"), 3, 3, "can't be a range"),
    (ONE_BLOCK + "  h100: {}", 7, 3, "there twice, first in line 3"),
    (ONE_BLOCK + "    flor: 1", 7, 5, "did you mean 'floor'?"),
    (ONE_BLOCK.replace("[zone, gpu]", "zone/gpu"), 4, 13, "has to be a list"),
    (ONE_BLOCK.replace("[zone, gpu]", "[]"), 4, 13, "at least one level"),
    (ONE_BLOCK.replace("[zone, gpu]", "[gpu, gpu]"), 4, 19, "twice"),
    (ONE_BLOCK.replace("[zone, gpu]", "[zone, ~]"), 4, 20, "a level has no value"),
    (ONE_BLOCK.replace("[zone, gpu]", "\n    - - gpu"), 5, 7, "a level has to be one text"),
    (ONE_BLOCK.replace("[zone, gpu]", "[path, gpu]"), 4, 14, "another name"),
    (ONE_BLOCK.replace("[zone, gpu]", "[a b, gpu]"), 4, 14, "can't be used as a key"),
    (ONE_BLOCK.replace("[zone, gpu]", str([f"l{n}" for n in range(128)])), 4, 13, "too many"),
    # blocks
    (TWO_LEVELS + "      zone: a", 6, 7, "after a dash"),
    (BLOCK + "a", 6, 9, "block of the layout has to be keys"),
    (BLOCK + "zone: a", 6, 9, "lacks 'gpu'"),
    (BLOCK + "{zone: a, gpu: b, gpu: c}", 6, 27, "there twice, first in line 6"),
    (BLOCK + "{zone: a, gpu: b, zoone: c}", 6, 27, "did you mean 'zone'?"),
    (BLOCK + "{zone: a, gpu: b, floor: 2}", 6, 27, "put it under 'floors:'"),
    (BLOCK + "{zone: a, gpu: }", 6, 23, "has no value"),
    (BLOCK + "{zone: a, gpu: []}", 6, 24, "has no names"),
    (BLOCK + "{zone: a, gpu: a/b}", 6, 24, "has a '/'"),
    (BLOCK + "{zone: a, gpu: ' b'}", 6, 24, "white space"),
    (BLOCK + '{zone: a, gpu: "b\\a"}', 6, 24, "can't be printed"),
    (BLOCK + "{zone: a, gpu: ''}", 6, 24, "is empty"),
    (BLOCK + "zone: a\n        gpu: g[9-3]", 7, 14, "gpu 'g[9-3]' counts down; write g[3-9]"),
    (BLOCK + "{zone: a, gpu: 'g[08-9]'}", 6, 24, "write 08-09 or 8-9"),
    (BLOCK + "{zone: a, gpu: 'g[1-'}", 6, 24, "without its partner"),
    (BLOCK + "{zone: a, gpu: 'g[a-b]'}", 6, 24, "only numbers"),
    (BLOCK + "{zone: a, gpu: 'g[]'}", 6, 24, "no number"),
    (BLOCK + f"{{zone: a, gpu: 'g[{'1' * 5000}]'}}", 6, 24, "more than 18 digits"),
    (BLOCK + "{zone: a, gpu: [b, 'b']}", 6, 28, "gpu b is named twice"),
    (BLOCK + "{zone: a, gpu: 'g[1-2000001]'}", 6, 9, "2,000,001 resources"),
    (BLOCK + "{zone: 'a[1-999999999]', gpu: 'g[1-999999999]'}", 6, 9, "very many"),
    (ONE_BLOCK + "      - {zone: [b, a], gpu: g1}", 7, 9, "h100/a/g1 again, after the block"),
    (BLOCK + '{zone: a, gpu: b, attributes: {x: "{rack}"}}', 6, 43, "use {zone}, {gpu}"),
    (BLOCK + '{zone: a, gpu: b, attributes: {x: "{gpu!r}"}}', 6, 43, "not a level"),
    (BLOCK + '{zone: a, gpu: b, attributes: {x: "{"}}', 6, 43, "without its partner"),
    (BLOCK + '{zone: a, gpu: b, attributes: {x: "\\ud800"}}', 6, 43, "half a character"),
    (BLOCK + "{zone: a, gpu: b, attributes: {levels: x}}", 6, 40, "set by laissez"),
    # money, percentages, durations
    (ONE_BLOCK + "    floor:", 7, 11, "floor has no value; write floor: 2.50"),
    (ONE_BLOCK + "    guard: 25%", 7, 12, "write {rise: 25%"),
    (ONE_BLOCK + "    guard: {hold: 99999999999h}", 7, 19, "too long"),
    (ONE_BLOCK + f"    guard: {{rise: {'9' * 20}%, window: 1s}}", 7, 19, "too much"),
    (ONE_BLOCK + "    floor: $2", 7, 12, "floor '$2' is not dollars per hour"),
    (ONE_BLOCK + "    floor: 2.0000001", 7, 12, "at most 6 decimals"),
    (ONE_BLOCK + "    floor: 9223372036855", 7, 12, "too much"),
    (ONE_BLOCK + "    guard: {rise: 25, window: 1s}", 7, 19, "write 25% or 2500bp"),
    (ONE_BLOCK + "    guard: {rise: 25%}", 7, 5, "need a window"),
    (ONE_BLOCK + "    guard: {window: 0s}", 7, 21, "can't be empty"),
    (ONE_BLOCK + "    guard: {hold: 2 weeks}", 7, 19, "us, ms, s, m, h"),
    (ONE_BLOCK + "    guard: {hould: 2s}", 7, 13, "did you mean 'hold'?"),
    (ONE_BLOCK + "    floors: {a: x}", 7, 17, "floor 'x' is not dollars"),
    (ONE_BLOCK + "    floors: {b: 1}", 7, 14, "no scope 'b'; it begins with: a"),
    (ONE_BLOCK + "    floors: {a/g0/x: 1}", 7, 14, "no scope 'a/g0/x'"),
    (ONE_BLOCK + "    floors: {h100/a: 1}", 7, 14, "leave out the tree: a"),
    (ONE_BLOCK + "    floors: {a/g0: 1, 'a/g[0-1]': 2}", 7, 23, "floor already"),
    (ONE_BLOCK + "    floors: {'a[1-100001]': 1}", 7, 14, "more than 100,000 floors"),
]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"), MISTAKES, ids=[mistake[3] for mistake in MISTAKES]
)
def test_a_problem_is_shown_at_its_place(text: str, line: int, column: int, message: str) -> None:
    """Each mistake is found where it was made, and the sentence says what to do."""
    found = [problem for problem in problems(text).problems if message in problem.sentence]
    assert [(problem.line, problem.column) for problem in found] == [(line, column)]


def test_all_problems_are_told_at_once() -> None:
    """Reading goes on after a problem, also into other blocks and trees, in the file's order."""
    text = BLOCK + (
        "{zone: a, gpu: 'g[9-3]'}\n      - {zone: a}\n      - {zone: a, gpu: 'g[0-3]'}\n"
        "      - {zone: a, gpu: g3}\n    floor: x\n    floors: {nowhere: y}\n"
        "  a100: {}\n"
    )
    assert [problem.line for problem in problems(text).problems] == [6, 7, 9, 10, 11, 12, 12]


def test_every_anchor_and_alias_is_told() -> None:
    """Also where YAML itself would stop at the first: a name used twice, one never given."""
    found = problems("a: &x [*y]\nb: &x 1\nc: *x\n").problems
    assert [(problem.line, problem.column) for problem in found] == [(1, 4), (1, 8), (2, 4), (3, 4)]


def test_a_floor_is_not_blamed_for_a_block_that_was_not_understood() -> None:
    """While a block is broken, nobody knows which scopes there are, so none is called unknown."""
    text = BLOCK + "{zone: b, gpu: 'g[9-3]'}\n    floors: {b: 1}\n"
    assert [problem.line for problem in problems(text).problems] == [6]


def test_an_error_reads_like_a_compiler_s() -> None:
    """File, line, column and sentence; below it the line, and a caret: as for any document."""
    with pytest.raises(TopologyError) as caught:
        read_cluster(BLOCK + "zone: a\n        gpu: g[9-3]\n", name="east.yaml")
    assert isinstance(caught.value, BadDocument)
    assert str(caught.value) == (
        "east.yaml:7:14: gpu 'g[9-3]' counts down; write g[3-9]\n"
        "            gpu: g[9-3]\n"
        "                 ^"
    )


def test_a_long_line_is_shown_in_part_with_the_caret_under_its_place() -> None:
    """Of a long line only what is around the problem is shown."""
    _, excerpt, caret = str(problems("version: 1\nx: [" + "a, " * 500 + "%]")).splitlines()
    assert len(excerpt) <= 104
    assert excerpt[caret.index("^")] == "%"


YAML_WORDS = """version: 1 2 trees: h100: floor: guard: levels: layout: floors: [zone, gpu]
- { } [ ] , : zone: gpu: a g[0-7] "g[0-7]" 'x & *a &a ! | > % @ {zone} 25% 2s 1.5 ~ # ? << \\"""
WORDS = st.sampled_from([*YAML_WORDS.split(), "\n", "\t", "\n    "])
GARBAGE = st.one_of(
    st.text(max_size=80),
    st.lists(WORDS, max_size=40).map(" ".join),
    st.text(max_size=60).map(lambda text: BLOCK + text),
    st.lists(WORDS, max_size=20).map(lambda words: BLOCK + " ".join(words)),
    st.text(max_size=20).map(lambda text: BLOCK + f"{{zone: a, gpu: '{text}'}}"),
    st.text(max_size=20).map(
        lambda text: BLOCK + f'{{zone: a, gpu: b, attributes: {{x: "{text}"}}}}'
    ),
)


@given(GARBAGE)
@example("\ufeff" + ONE_BLOCK)
@example("%YAML " + "9" * 5000 + ".1\n--- 1")
def test_garbage_is_refused_and_nothing_worse(text: str) -> None:
    """Whatever the text, it is a cluster of good paths, or a `TopologyError` that can be shown."""
    cluster, error = read_or_refuse(text)
    assert all(is_path(path) for path in paths(cluster))
    assert error is None or (error.problems and str(error).encode())


@given(st.integers(0, len(EXAMPLE.read_text())), st.text(max_size=3), st.integers(0, 3))
def test_a_slip_of_the_pen_is_refused_and_nothing_worse(at: int, put: str, cut: int) -> None:
    """The sample with a few signs changed is read, or its problems lie within the text."""
    text = EXAMPLE.read_text()
    text = text[:at] + put + text[at + cut :]
    _, error = read_or_refuse(text)
    lines = len(text_lines(text))
    assert error is None or all(1 <= problem.line <= lines for problem in error.problems)


# --- names, ranges, amounts ---------------------------------------------------------------------


@given(st.text(max_size=5))
def test_names_are_good_where_the_market_says_so(name: str) -> None:
    """The rule for names is the market's, with '/' kept for joining them; so is the depth."""
    assert (name_problem(name) == "") == (is_name(name) and "/" not in name)
    assert DEPTH_MAX == MAX_DEPTH


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("r1", "r1"),
        ("r[3]", "r3"),
        ("r[9-11]", "r9 r10 r11"),
        ("r[08-10]x", "r08x r09x r10x"),
        ("[1-2, 7]", "1 2 7"),
        ("r[1-2]n[1-3]", "r1n1 r1n2 r1n3 r2n1 r2n2 r2n3"),
    ],
)
def test_ranges_expand(text: str, names: str) -> None:
    """Ranges count up, padding is kept, several ranges multiply out; the count is known before."""
    assert expand(text) == names.split()
    assert parse(text).count == len(names.split())


@pytest.mark.parametrize("text", ["r[2-1]", "r[", "r]", "r[[1]]", "r[1-2-3]", "r[-1]", "r[01-100]"])
def test_an_unclear_range_is_refused(text: str) -> None:
    """Nothing is guessed about a range."""
    with pytest.raises(BadRange):
        expand(text)


@pytest.mark.parametrize(
    ("read", "text", "amount"),
    [
        (micros_per_hour, "2", 2_000_000),
        (micros_per_hour, "0.1", 100_000),
        (micros_per_hour, "9223372036854.775807", 2**63 - 1),
        (micros_per_hour, "9223372036854.775808", None),
        (micros_per_hour, "2.0000000", None),
        (micros_per_hour, "-1", None),
        (micros_per_hour, "1e3", None),
        (micros_per_hour, "1_0", None),
        (micros_per_hour, "٣", None),
        (micros_per_hour, ".5", None),
        (basis_points, "12.5%", 1_250),
        (basis_points, "1bp", 1),
        (basis_points, "0.001%", None),
        (basis_points, "1.5bp", None),
        (microseconds, "1us", 1),
        (microseconds, "1.5 ms", 1_500),
        (microseconds, "0.0000005h", 1_800),
        (microseconds, "0.5us", None),
        (microseconds, "1.2.3s", None),
        (microseconds, "99999999999h", None),
        (microseconds, "1h30m", 5_400_000_000),
        (microseconds, "2d 12h", 216_000_000_000),
        (microseconds, "30m1h", None),
        (microseconds, "1h1h", None),
        (microseconds, "1h30", None),
    ],
)
def test_amounts_are_exact_or_refused(read: object, text: str, amount: int | None) -> None:
    """An amount is the integer that is written, to the last digit; all else is refused."""
    assert callable(read)
    if amount is None:
        with pytest.raises(BadAmount):
            read(text)
    else:
        assert read(text) == amount


# --- and back -----------------------------------------------------------------------------------


def test_paths_are_described_in_ranges() -> None:
    """Equal subtrees fold, whatever the order; what differs stays apart; r2 comes before r10."""
    everything = expand("h100/east/r[1-40]/h[1-4]/g[0-7]")
    assert describe(reversed(everything)) == ("h100/east/r[1-40]/h[1-4]/g[0-7]  — 1,280 resources",)
    everything.remove("h100/east/r10/h2/g7")
    assert describe([*everything, "a100/x"]) == (
        "a100/x  — 1 resource",
        "h100/east/r10/h2/g[0-6]  — 7 resources",
        "h100/east/r10/h[1,3-4]/g[0-7]  — 24 resources",
        "h100/east/r[1-9,11-40]/h[1-4]/g[0-7]  — 1,248 resources",
    )
    assert describe([]) == ()


def test_folding_guesses_nothing() -> None:
    """Padding is kept, types of resource stay apart, and a bracket in a name is left alone."""
    assert fold(["t/08", "t/09", "t/10", "t/9", "t/8"]) == (Fold("t/[8-9,08-10]", 5),)
    assert fold(["t1/a", "t2/a"]) == (Fold("t1/a", 1), Fold("t2/a", 1))
    assert fold(["t/x[1]", "t/x[2]"]) == (Fold("t/x[1]", 1), Fold("t/x[2]", 1))


SMALL_NAMES = st.from_regex(r"[a]?[0-2]{0,2}[b]?[0-2]{0,2}", fullmatch=True).filter(bool)
SMALL_PATHS = st.lists(SMALL_NAMES, min_size=1, max_size=4).map("/".join)


@given(st.lists(SMALL_PATHS, max_size=40))
def test_what_is_folded_expands_again(given_paths: list[str]) -> None:
    """Folds stand for exactly the paths they were made of, each once, and count them."""
    folds = fold(given_paths)
    again = [path for each in folds for path in expand(each.pattern)]
    assert sorted(again) == sorted(set(given_paths))
    assert [each.count for each in folds] == [len(expand(each.pattern)) for each in folds]
    assert fold(reversed(given_paths)) == folds


SPANS = st.tuples(st.integers(0, 12), st.integers(1, 12), st.sampled_from([0, 3])).map(
    lambda span: f"[{span[0]:0{span[2]}}-{span[0] + span[1]:0{span[2]}}]"
)


@given(st.lists(st.tuples(st.sampled_from("rhg"), SPANS).map("".join), min_size=1, max_size=3))
def test_what_is_expanded_folds_again(names: list[str]) -> None:
    """One pattern of ranges, expanded, folds into that pattern."""
    pattern = "/".join(["t", *names])
    assert [each.pattern for each in fold(expand(pattern))] == [pattern]


# --- from a market to a file --------------------------------------------------------------------

WANTED = ONE_BLOCK + "    floor: 2\n    floors: {a: 3}\n    guard: {hold: 2s}\n"
LEVELS = {"levels": "zone/gpu"}


def test_a_plan_for_an_empty_market_is_the_whole_file() -> None:
    """Everything is added in the order of the file, and every floor and guard is set."""
    cluster = read_cluster(WANTED)
    assert difference(cluster, {}) == ClusterPlan(
        withdraw=(),
        guards=(GuardChange("h100", Guard(hold_us=2_000_000)),),
        floors=(Floor("h100", 2_000_000), Floor("h100/a", 3_000_000)),
        add=cluster.trees[0].resources,
        changed=(),
        blocked=(),
        unmentioned_floors=(),
        levels=(LevelsOfTree("h100", ("zone", "gpu")),),
    )


def test_a_plan_for_what_is_there_already_does_nothing() -> None:
    """Resources, floors and guards that are as the file says are left alone."""
    plan = difference(
        read_cluster(WANTED),
        {"h100/a/g0": LEVELS, "h100/a/g1": LEVELS},
        floors={"h100": 2_000_000, "h100/a": 3_000_000},
        guards={"h100": Guard(hold_us=2_000_000)},
        levels={"h100": ("zone", "gpu")},
    )
    assert plan.does_nothing
    assert (plan.changed, plan.blocked, plan.unmentioned_floors) == ((), (), ())


def test_a_plan_withdraws_within_the_trees_of_the_file_only() -> None:
    """What the file's trees have beyond it goes; other trees and unmentioned floors stay."""
    present = {"h100/a/g7": {}, "h100/a/g0": {"levels": "old"}, "a100/x": {}}
    floors = {"h100/b": 5, "h100/c": 0, "a100": 5, "h100/a": 0, "h100": 2_000_000}
    plan = difference(read_cluster(WANTED), present, floors=floors)
    assert plan.withdraw == ("h100/a/g7",)
    assert [resource.path for resource in plan.add] == ["h100/a/g1"]
    assert plan.changed == (Change("h100/a/g0", {"levels": "old"}, LEVELS),)
    assert plan.floors == (Floor("h100/a", 3_000_000),)
    assert plan.unmentioned_floors == (Floor("h100/b", 5),)


def test_a_file_that_says_nothing_of_floors_and_guards_changes_none() -> None:
    """A floor is taken away by 0 and guards by {}, not by silence."""
    silent = difference(read_cluster(ONE_BLOCK), {}, floors={"h100": 5}, guards={"h100": Guard(1)})
    assert (silent.floors, silent.guards) == ((), ())
    said = read_cluster(ONE_BLOCK + "    floor: 0\n    guard: {}\n")
    plan = difference(said, {}, floors={"h100": 5}, guards={"h100": Guard(1)})
    assert (plan.floors, plan.guards) == ((Floor("h100", 0),), (GuardChange("h100", Guard()),))


def test_a_plan_says_what_the_market_would_refuse() -> None:
    """A scope never becomes a resource; a resource that becomes a scope is withdrawn first."""
    plan = difference(read_cluster(ONE_BLOCK), {"h100/a/g0/m0": {}, "h100/a/g1": LEVELS})
    assert (plan.withdraw, plan.add, plan.blocked) == (("h100/a/g0/m0",), (), ("h100/a/g0",))
    shallow = difference(read_cluster(ONE_BLOCK), {"h100/a": {}})
    assert (shallow.withdraw, len(shallow.add), shallow.blocked) == (("h100/a",), 2, ())


@given(st.sets(st.sampled_from([f"h100/a/g{n}" for n in range(4)] + ["h100/b", "x/y"])))
def test_a_plan_carried_out_leads_to_the_file(there: set[str]) -> None:
    """In a market, the steps of a plan in their order are all accepted, and leave nothing to do."""
    market, cluster = Market(), read_cluster(WANTED)
    for path in sorted(there):
        market.add_resource(path, attributes=LEVELS, at=0)
    plan = difference(cluster, {path: market.attributes(path) for path in market.resources()})
    events = [
        *(event for path in plan.withdraw for event in market.withdraw(path, at=1)),
        *(
            event
            for floor in plan.floors
            for event in market.set_floor(floor.scope, floor.micros_per_hour, at=1)
        ),
    ]
    for new in plan.add:
        events += market.add_resource(new.path, attributes=dict(new.attributes), at=1)
    assert "Rejected" not in {type(event).__name__ for event in events}
    after = {path: market.attributes(path) for path in market.resources()}
    assert set(after) == {"h100/a/g0", "h100/a/g1"} | (there & {"x/y"})
    rest = difference(cluster, after)
    assert (rest.withdraw, rest.add, rest.changed) == ((), (), ())
