"""The pictures: they are written, they say what they must, and they are the same every time."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest

from laissez.deadline.generator import sample_traces
from laissez.deadline.job import US_PER_HOUR, Job, Kind, Offer
from laissez.deadline.registry import POLICIES, Brief, make
from laissez.deadline.traces import SpotTrace
from laissez.deadline.world import RunStep, Zone, run
from laissez.experiments.deadline.evaluation import evaluate
from laissez.experiments.deadline.figures import BadPicture, draw_decisions, draw_study, draw_traces
from laissez.experiments.deadline.figures.decisions import stretches
from laissez.experiments.deadline.figures.looks import KIND_COLOURS, LOOKS
from laissez.experiments.deadline.figures.sweeps import HALVES, marked_traces, panels_of
from laissez.experiments.deadline.study import (
    Grouping,
    PartResult,
    Plot,
    PolicyTally,
    Result,
    SettingResult,
    Study,
    StudySetting,
    Tallies,
    labels,
)

TICK_US = US_PER_HOUR // 6
SPOT_RATE = 1_000_000
ON_DEMAND = Offer("", Kind.ON_DEMAND, 3_000_000)
JOB = Job(8 * US_PER_HOUR, 12 * US_PER_HOUR, US_PER_HOUR // 10, TICK_US)
AVAILABLE = ([True] * 9 + [False] * 5) * 30


def texts(path: Path) -> str:
    """What can be read in an SVG, one text per line."""
    found = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    return "\n".join("".join(each.itertext()) for each in found)


# --- made-up inputs -----------------------------------------------------------------------------


def zone(name: str, shift: int = 0) -> Zone:
    rates = [SPOT_RATE if there else None for there in AVAILABLE[shift:] + AVAILABLE[:shift]]
    return Zone(name, TICK_US, rates)


def steps_of(policies: tuple[str, ...], zones: list[Zone]) -> dict[str, tuple[RunStep, ...]]:
    brief = Brief(JOB, SPOT_RATE, ON_DEMAND.micros_per_hour)
    return {
        name: run(JOB, make(name, brief), zones, ON_DEMAND, start=2, keeps_steps=True).steps
        for name in policies
    }


def trace(name: str, counts: list[bool], tick_us: int = TICK_US) -> SpotTrace:
    zone_name, _, resource = name.rpartition("/")[2].partition("_")
    numbers = tuple(map(int, counts))
    return SpotTrace(name, zone_name, resource, "availability", 1, tick_us, numbers)


def tally(saving: float, missed: int = 0) -> PolicyTally:
    return PolicyTally(
        on_demand_hours=48 * (1 - saving),
        spot_hours=48 * saving,
        on_demand_changeover_hours=0.4,
        spot_changeover_hours=1.5,
        cost=1 - saving,
        saving=saving,
        saving_p25=saving - 0.1,
        saving_p75=saving + 0.1,
        missed=missed,
        runs=100,
        spot_utilisation=saving / 0.5,
        gap_closed=(saving - 0.3) / 0.2,
    )


def tallies(shift: float = 0.0, missed: int = 0) -> Tallies:
    return {
        "on_demand": tally(0.0),
        "greedy": tally(0.25 - shift),
        "uniform_progress": tally(0.3 - shift, missed),
        "lindy": tally(0.4 - shift),
        "omniscient": tally(0.5 - shift),
    }


TRACES = ("date/zone-a_v100_1", "date/zone-b_v100_1", "date/zone-c_v100_1")


def setting(fraction: float = 0.8, changeover_us: int = US_PER_HOUR // 5) -> StudySetting:
    work_us = 48 * US_PER_HOUR
    return StudySetting(("*",), work_us, fraction, round(work_us / fraction), changeover_us)


def result(
    plot: Plot,
    settings: tuple[StudySetting, ...] = tuple(map(setting, (0.6, 0.8, 0.9))),
    *,
    traces: tuple[str, ...] = TRACES,
    groups: tuple[str, ...] = (),
    group_by: Grouping | None = None,
    missed: int = 0,
) -> Result:
    study = Study(
        "made-up", "A made-up study", settings, tuple(tallies()), plot=plot, group_by=group_by
    )
    return Result(
        study,
        tallies(missed=missed),
        tuple(
            SettingResult(label, each, tallies(0.02 * number, 0 if number else missed))
            for number, (label, each) in enumerate(zip(labels(settings), settings, strict=True))
        ),
        tuple(PartResult(name, tallies(0.01 * at)) for at, name in enumerate(traces)),
        tuple(PartResult(name, tallies(0.03 * at)) for at, name in enumerate(groups)),
        {
            (number, name): tallies(0.01 * number)
            for number in range(len(settings))
            for name in traces
        },
        (),
        traces[1::2],
    )


@dataclass
class Drawing:
    """A way to draw something, and what must be readable in it."""

    name: str
    draw: Callable[[Path], None]
    says: tuple[str, ...]


def _decisions(path: Path) -> None:
    zones = [zone("zone-a")]
    draw_decisions(JOB, steps_of(("greedy", "uniform_progress"), zones), zones, 2, path)


def _decisions_in_zones(path: Path) -> None:
    zones = [zone("zone-a"), zone("zone-b", 5)]
    draw_decisions(JOB, steps_of(("on_demand", "lindy"), zones), zones, 2, path)


def _traces(path: Path) -> None:
    draw_traces(sample_traces(days=12)[:2], path)


def study_drawing(name: str, made: Result, *says: str) -> Drawing:
    return Drawing(name, lambda path: draw_study(made, path), ("A made-up study", *says))


SAVING = Plot(x="fraction")
DRAWINGS = [
    Drawing(
        "decisions",
        _decisions,
        ("Greedy", "Uniform progress", "deadline 12 h", "zone-a", "changeover", "work done (h)"),
    ),
    Drawing("zones", _decisions_in_zones, ("1  zone-a", "2  zone-b", "On-demand", "Lindy")),
    Drawing(
        "traces", _traces, ("1/(age + 0.5 h)", "age (h)", "length (h)", "by day", "correlation")
    ),
    study_drawing(
        "hours", result(Plot(y="hours")), "On-demand", "Omniscient", "work on spot", "60%"
    ),
    study_drawing("lines", result(SAVING), "Lindy", "Average", "zone-b_v100_1", "300 starts"),
    study_drawing("bars", result(Plot()), "Greedy", "fraction 0.6", "saving against on-demand (%)"),
    study_drawing(
        "groups",
        result(Plot(), groups=("plenty", "scarce"), group_by="availability"),
        "plenty",
        "scarce",
        "extra cost over omniscient (%)",
    ),
    study_drawing(
        "gap",
        result(
            Plot(y="gap_closed"),
            tuple(setting(f, d * US_PER_HOUR // 10) for f in (0.6, 0.8) for d in (1, 2, 4)),
            groups=("development traces", "held-out traces"),
            group_by="halves",
        ),
        "Lindy",
        "changeover (h)",
        "job fraction (work / deadline)",
        "held-out traces",
        "date/zone-b_v100_1 (held out)",
    ),
]
every_drawing = pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
some_drawings = pytest.mark.parametrize(
    "drawing", [DRAWINGS[0], DRAWINGS[2], DRAWINGS[4]], ids=lambda drawing: drawing.name
)


# --- all pictures -------------------------------------------------------------------------------


@every_drawing
def test_says_what_is_seen(drawing: Drawing, tmp_path: Path) -> None:
    """An SVG has its title, its labels and its units as text."""
    drawing.draw(tmp_path / "picture.svg")
    written = texts(tmp_path / "picture.svg")
    assert [each for each in drawing.says if each not in written] == []


@some_drawings
def test_is_always_the_same(drawing: Drawing, tmp_path: Path) -> None:
    """Two SVGs of the same input have the same bytes."""
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    drawing.draw(first)
    drawing.draw(second)
    assert first.read_bytes() == second.read_bytes()


@some_drawings
def test_is_written_as_its_suffix_says(drawing: Drawing, tmp_path: Path) -> None:
    """A path that ends in .png gets a PNG with something in it."""
    path = tmp_path / "picture.png"
    drawing.draw(path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert path.stat().st_size > 10_000


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    """A picture in a format that nobody draws is refused with the formats that there are."""
    with pytest.raises(BadPicture, match=r"\.png or \.svg, not as \.jpeg"):
        _decisions(tmp_path / "picture.jpeg")


def test_leaves_matplotlib_as_it_was(tmp_path: Path) -> None:
    """Whoever draws pictures of their own finds their settings as before, and none leaks in."""
    _decisions(tmp_path / "plain.svg")
    with matplotlib.rc_context({"font.size": 23, "axes.facecolor": "pink"}):
        before = dict(matplotlib.rcParams)
        _decisions(tmp_path / "pink.svg")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "pink.svg").read_bytes() == (tmp_path / "plain.svg").read_bytes()


def test_every_policy_has_a_look_of_its_own() -> None:
    """Any two policies differ in colour and in marker, and none wears the colour of a kind."""
    assert LOOKS.keys() == POLICIES.keys()
    for one, other in combinations(LOOKS.values(), 2):
        assert one.colour != other.colour
        assert one.marker != other.marker
    assert {look.colour for look in LOOKS.values()}.isdisjoint(KIND_COLOURS.values())


# --- decisions ----------------------------------------------------------------------------------


def test_stretches_join_what_goes_on() -> None:
    """Steps of one instance become one changeover and one stretch of work, with nothing lost."""
    spot = Offer("zone-a", Kind.SPOT, SPOT_RATE)
    steps = [
        RunStep(0, 10, None, 0),
        RunStep(10, 20, None, 0),
        RunStep(20, 30, spot, 10),
        RunStep(30, 40, spot, 4),
        RunStep(40, 55, spot, 0),
    ]
    found = [
        (each.from_us, each.to_us, each.running, each.is_changeover) for each in stretches(steps)
    ]
    assert found == [(0, 20, None, False), (20, 34, spot, True), (34, 55, spot, False)]


def test_decisions_say_what_a_run_cost(tmp_path: Path) -> None:
    """Beside each lane are the hours on each kind and the cost, as the run counted them."""
    zones = [zone("zone-a")]
    outcome = run(
        JOB,
        make("greedy", Brief(JOB, SPOT_RATE, ON_DEMAND.micros_per_hour)),
        zones,
        ON_DEMAND,
        keeps_steps=True,
    )
    draw_decisions(JOB, {"greedy": outcome.steps}, zones, 0, tmp_path / "picture.svg")
    on_demand_h = (outcome.on_demand_us + outcome.on_demand_changeover_us) / US_PER_HOUR
    spot_h = (outcome.spot_us + outcome.spot_changeover_us) / US_PER_HOUR
    line = f"{on_demand_h:.1f} h + {spot_h:.1f} h, ${outcome.cost_micros / 1e6:,.2f}"
    assert line in texts(tmp_path / "picture.svg")


def test_decisions_without_prices_have_no_dollars(tmp_path: Path) -> None:
    """The cost is a share of on-demand alone, if its rate is said or was paid; or else left out."""
    zones = [zone("zone-a")]
    steps = steps_of(("greedy", "on_demand"), zones)
    path = tmp_path / "picture.svg"
    draw_decisions(JOB, steps, zones, 2, path, shows_dollars=False)
    assert "$" not in texts(path)
    assert "8.1 h + 0.0 h, 100%" in texts(path)
    assert "with changeovers:" in texts(path)
    spot = {"greedy": [RunStep(0, 9 * US_PER_HOUR, Offer("zone-a", Kind.SPOT, 1_000_000), 0)]}
    draw_decisions(JOB, spot, zones, 2, path, shows_dollars=False)
    assert "%" not in texts(path) and ", cost" not in texts(path)
    draw_decisions(
        JOB, spot, zones, 2, path, shows_dollars=False, on_demand_micros_per_hour=2_000_000
    )
    assert "0.0 h + 9.0 h, 56%" in texts(path)


def test_decisions_need_steps(tmp_path: Path) -> None:
    """Runs that kept no steps can't be drawn, and the refusal says how to keep them."""
    with pytest.raises(BadPicture, match="keeps_steps=True"):
        draw_decisions(JOB, {"greedy": ()}, [zone("zone-a")], 0, tmp_path / "picture.svg")


# --- traces -------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [[True] * 300, [False] * 300, [True]])
def test_plain_traces_are_drawn_too(counts: list[bool], tmp_path: Path) -> None:
    """A trace that never changes, or is shorter than a window, still has a picture."""
    draw_traces([trace("date/zone-a_v100_1", counts)], tmp_path / "picture.svg")
    assert "date/zone-a_v100_1" in texts(tmp_path / "picture.svg")


def test_correlation_only_of_traces_recorded_together(tmp_path: Path) -> None:
    """Two traces of one date have a correlation, two of different dates have none."""
    one, other = trace("monday/zone-a_x", AVAILABLE), trace("monday/zone-b_x", AVAILABLE[3:])
    stranger = trace("friday/zone-b_x", AVAILABLE[3:])
    draw_traces([one, other], tmp_path / "together.svg")
    draw_traces([one, stranger], tmp_path / "apart.svg")
    assert "Correlation of zones\n" in texts(tmp_path / "together.svg")
    assert "\nmonday\n" in texts(tmp_path / "together.svg")
    assert "recordings" not in texts(tmp_path / "together.svg")
    assert "orrelation" not in texts(tmp_path / "apart.svg")


def test_correlations_that_are_left_out_are_counted(tmp_path: Path) -> None:
    """Six recordings are shown, and how many there are if there are more."""
    traces = [trace(f"{day}/zone-{zone}_x", AVAILABLE) for day in range(7) for zone in "ab"]
    draw_traces(traces, tmp_path / "seven.svg")
    assert "Correlation of zones: the first 6 of 7 recordings" in texts(tmp_path / "seven.svg")


def test_traces_need_one(tmp_path: Path) -> None:
    """No traces, no picture."""
    with pytest.raises(BadPicture, match="at least one"):
        draw_traces([], tmp_path / "picture.svg")


# --- studies ------------------------------------------------------------------------------------


def test_missed_deadlines_are_not_hidden(tmp_path: Path) -> None:
    """The line under a study says that no deadline was missed only if that is so."""
    draw_study(result(SAVING), tmp_path / "good.svg")
    draw_study(result(SAVING, missed=3), tmp_path / "bad.svg")
    assert "no deadline missed" in texts(tmp_path / "good.svg")
    assert "3 DEADLINES MISSED" in texts(tmp_path / "bad.svg")


def test_published_savings_are_drawn_where_there_are_some(tmp_path: Path) -> None:
    """A study with published savings shows them beside its own, another has no such mark."""
    own = setting()
    published = StudySetting(
        own.traces, own.work_us, 0.9, own.deadline_us, own.changeover_us, published=0.41
    )
    draw_study(result(Plot(), (own,)), tmp_path / "own.svg")
    draw_study(result(Plot(), (own, published)), tmp_path / "both.svg")
    assert "published" not in texts(tmp_path / "own.svg")
    assert "published saving of uniform progress" in texts(tmp_path / "both.svg")


def test_names_of_bars_are_folded_between_their_parts(tmp_path: Path) -> None:
    """A number and its unit stay on one line."""
    named = StudySetting(
        ("*",), 27 * US_PER_HOUR, 0.9, 30 * US_PER_HOUR, US_PER_HOUR // 5, label="Analytics"
    )
    other = StudySetting(
        ("*",), 27 * US_PER_HOUR, 0.75, 36 * US_PER_HOUR, US_PER_HOUR // 5, label="Analytics"
    )
    draw_study(result(Plot(), (named, other)), tmp_path / "picture.svg")
    found = ElementTree.parse(tmp_path / "picture.svg").iter()
    lines = [line.strip() for each in found for line in (each.text or "").split("\n")]
    assert {"Analytics,", "deadline 30 h", "deadline 36 h"} <= set(lines)


def test_titles_of_traces_tell_their_availability(tmp_path: Path) -> None:
    """Where the availability of a trace is given, its panel says it."""
    draw_study(result(SAVING), tmp_path / "picture.svg", availability={TRACES[1]: 0.724})
    assert "date, spot 72%" in texts(tmp_path / "picture.svg")


def test_few_traces_have_a_panel_each_and_many_have_one() -> None:
    """Up to sixteen traces are shown each; more are shown as their average alone."""
    names = tuple(f"date/zone-{number}_x" for number in range(17))
    few = panels_of(result(SAVING, traces=names[:16]), "fraction", {})
    many = panels_of(result(SAVING, traces=names), "fraction", {})
    assert [panel.title.split("\n")[0] for panel in few][:2] == ["Average", "zone-0_x"]
    assert len(few) == 17
    assert [panel.title for panel in many] == ["Average"]


def test_a_second_swept_field_has_a_panel_for_each_value() -> None:
    """Lines never mix settings that differ in more than what is on the axis."""
    settings = tuple(
        setting(f, minutes * US_PER_HOUR // 60) for f in (0.6, 0.8) for minutes in (6, 12)
    )
    panels = panels_of(result(SAVING, settings), "fraction", {})
    assert [panel.title for panel in panels] == ["changeover 0.1 h", "changeover 0.2 h"]
    assert [[x for x, _ in panel.points] for panel in panels] == [[0.6, 0.8], [0.6, 0.8]]


def test_a_setting_without_runs_moves_no_other() -> None:
    """On a trace, each point is of its own setting, also if an earlier one had no runs."""
    whole = result(SAVING)
    cells = {key: value for key, value in whole.cells.items() if key[0] != 0}
    part = Result(
        whole.study, whole.policies, whole.settings[1:], whole.traces, (), cells, whole.notes
    )
    panel = panels_of(part, "fraction", {})[1]
    assert [(x, found["lindy"].saving) for x, found in panel.points] == [
        (0.8, cells[1, TRACES[0]]["lindy"].saving),
        (0.9, cells[2, TRACES[0]]["lindy"].saving),
    ]


def test_halves_are_marked_as_they_were_counted() -> None:
    """The traces marked as held out have as many runs as the group of that name.

    One that is too short to run counts where the others are divided.
    """
    hours = (40, 43, 41, 49, 20)
    traces = [
        trace(f"date/zone-{name}_x", AVAILABLE[: 6 * length])
        for name, length in zip("edcba", hours, strict=True)
    ]
    small = StudySetting(("*",), 24 * US_PER_HOUR, 0.6, 40 * US_PER_HOUR, US_PER_HOUR // 5)
    study = Study("halves", "Halves", (small,), ("uniform_progress",), group_by="halves")
    found = evaluate(study, traces, processes=1)
    runs: dict[str, int] = dict.fromkeys(HALVES, 0)
    for part, mark in zip(found.traces, marked_traces(found), strict=True):
        runs[mark.rpartition("(")[2].rstrip(")")] += part.policies["uniform_progress"].runs
    groups = {group.name: group.policies["uniform_progress"].runs for group in found.groups}
    assert len(found.traces) == 4
    assert list(runs.values()) == [groups["development traces"], groups["held-out traces"]]
    assert runs[HALVES[0]] != runs[HALVES[1]]
