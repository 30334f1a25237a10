"""Traces of spot capacity: reading them, describing them, and making up others like them."""

import json
import math
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.deadline.classic import Greedy, UniformProgress
from laissez.deadline.generator import (
    MEMORIES_US,
    SAMPLES,
    STEP_US,
    ZoneKind,
    generate,
    sample_traces,
)
from laissez.deadline.job import US_PER_HOUR, Job, Kind, Offer
from laissez.deadline.policy import Policy
from laissez.deadline.statistics import (
    availability_by_window,
    correlation,
    hazard_by_age,
    lifetimes_us,
    outages_us,
    statistics,
)
from laissez.deadline.traces import US_PER_DAY, BadTrace, SpotTrace, load, load_all, load_zones
from laissez.deadline.world import run

SPOT = Path(__file__).resolve().parents[2] / "shared" / "data" / "spot"
SEEDS = range(1, 7)


def trace_of(counts: str, *, tick_us: int = US_PER_HOUR, name: str = "day/a_gpu") -> SpotTrace:
    """A trace from digits, one for each tick."""
    return SpotTrace(name, "a", "gpu", "availability", 1, tick_us, tuple(map(int, counts)))


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def a_file(**changed: object) -> dict[str, object]:
    return {"metadata": {"gap_seconds": 30}, "data": [1, 0, 2], **changed}


# Reading


def test_a_file_in_its_folders_says_what_it_is(tmp_path: Path) -> None:
    """Folders give kind, nodes and date, the file name zone and resource, the content the rest."""
    path = tmp_path / "preemption/16-node/aws-04-19-2023/us-east-1b_intel_64.json"
    trace = load(write(path, a_file(prices=[1.2754, 0.2900008, 2])))
    assert trace == SpotTrace(
        name="aws-04-19-2023/us-east-1b_intel_64",
        zone="us-east-1b",
        resource="intel_64",
        kind="preemption",
        nodes=16,
        tick_us=30_000_000,
        counts=(1, 0, 2),
        micros_per_hour=(1_275_400, 290_001, 2_000_000),
    )
    assert trace.folder == "aws-04-19-2023"
    assert trace.duration_us == 90_000_000


def test_a_file_anywhere_is_availability_of_one_node(tmp_path: Path) -> None:
    """A trace outside the known folders is read too, with its zone from the file's name."""
    trace = load(write(tmp_path / "mine.json", a_file()))
    assert (trace.kind, trace.nodes, trace.zone, trace.resource) == ("availability", 1, "mine", "")
    assert load(write(tmp_path / "here_a100_8.json", a_file())).resource == "a100_8"
    assert trace.folder == tmp_path.name


@pytest.mark.parametrize("gap_seconds", [195, 600, 0.5, 30.000001])
def test_each_file_has_its_own_gap(tmp_path: Path, gap_seconds: float) -> None:
    """The tick is the file's gap, exact to the microsecond."""
    path = write(tmp_path / "a.json", a_file(metadata={"gap_seconds": gap_seconds}))
    assert load(path).tick_us == round(gap_seconds * 1_000_000)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "not JSON"),
        ("[]", "Expected `object`"),
        (a_file(metadata={}), "gap_seconds"),
        (a_file(metadata={"gap_seconds": 0}), "gap_seconds"),
        (a_file(metadata={"gap_seconds": -30}), "gap_seconds"),
        (a_file(metadata={"gap_seconds": "soon"}), "gap_seconds"),
        ('{"metadata": {"gap_seconds": 1e999999}, "data": [1]}', "gap_seconds"),
        ({"metadata": {"gap_seconds": 30}}, "data"),
        (a_file(data=[]), "data"),
        (a_file(data=[1, -1]), "data"),
        (a_file(data=[1, 0.5]), r"data\[1\]"),
        (a_file(data=[1, None]), r"data\[1\]"),
        (a_file(prices=[1.0]), "prices"),
        (a_file(prices=[1.0, 1.0, 0.0]), "prices"),
        (a_file(prices=[1.0, 1.0, -1.0]), "prices"),
        (a_file(prices=[1.0, 1.0, "sNaN"]), "prices"),
    ],
)
def test_a_bad_file_is_refused_by_name_and_field(
    tmp_path: Path, content: object, named: str
) -> None:
    """A file that is no trace raises BadTrace, which names the file and the field."""
    path = write(tmp_path / "broken.json", content)
    with pytest.raises(BadTrace, match=rf"broken\.json: .*{named}.*; "):
        load(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """What can't be read raises BadTrace too: no file, a folder, bytes that are no text."""
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none.json", tmp_path, tmp_path / "bytes.json"):
        with pytest.raises(BadTrace, match=str(path)):
            load(path)


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    """All traces that fit the pattern are loaded, sorted, and none of the others."""
    for name in (
        "availability/1-node/d2/a_g",
        "availability/1-node/d1/b_g",
        "preemption/1-node/e/a_g",
    ):
        write(tmp_path / f"{name}.json", a_file())
    assert [trace.name for trace in load_all(tmp_path)] == ["d1/b_g", "d2/a_g"]
    assert [trace.name for trace in load_all(tmp_path, "preemption/*/*/*.json")] == ["e/a_g"]
    with pytest.raises(BadTrace, match="no trace fits"):
        load_all(tmp_path, "*.json")


def test_zones_are_called_as_their_user_calls_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace has the path that was typed for a name; a zone that of its file, and if others have
    it too, as much of the path as tells them apart."""
    monkeypatch.chdir(tmp_path)
    names = (
        "c_g.json",
        "p/x/1/a_g.json",
        "q/x/1/a_g.json",
        "b_g.json",
        "b_h.json",
        "d.json",
        "d.txt",
    )
    paths = [write(Path(name), a_file()) for name in names]
    found = load_zones(paths)
    assert [trace.name for trace in found] == list(names)
    zones = ["c", "p/x/1/a_g", "q/x/1/a_g", "b_g", "b_h", "d.json", "d.txt"]
    assert [trace.zone for trace in found] == zones


def test_a_file_given_twice_is_refused_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths that lead to one file are one trace; files of the same content are not."""
    monkeypatch.chdir(tmp_path)
    path = write(Path("a.json"), a_file())
    (tmp_path / "link.json").symlink_to(tmp_path / "a.json")
    for again in (tmp_path / "a.json", Path("link.json")):
        with pytest.raises(BadTrace, match=rf"{again} \(it is a\.json\) is given twice"):
            load_zones([path, again])
    with pytest.raises(BadTrace, match=r"^a\.json is given twice"):
        load_zones([path, path])
    assert len(load_zones([path, write(Path("b.json"), a_file())])) == 2


def test_the_first_days_of_a_trace() -> None:
    """Cutting keeps the whole ticks of these days with their prices, and no more than there is."""
    trace = msgspec.structs.replace(trace_of("1" * 30), micros_per_hour=tuple(range(1, 31)))
    day = trace.first(1)
    assert day.duration_us == US_PER_DAY
    assert day.micros_per_hour == tuple(range(1, 25))
    assert trace.first(2) == trace
    with pytest.raises(BadTrace, match="0 days"):
        trace.first(0)


def test_capacity_is_there_when_all_nodes_are() -> None:
    """A gang has capacity at the ticks that have nodes for all of it."""
    trace = msgspec.structs.replace(trace_of("0123"), nodes=16)
    assert trace.is_available() == [False, True, True, True]
    assert trace.is_available(2) == [False, False, True, True]
    assert trace.is_available(16) == [False] * 4
    for nodes in (0, 17):
        with pytest.raises(BadTrace, match="1 to 16 nodes"):
            trace.is_available(nodes)
    with pytest.raises(BadTrace, match="day/a_gpu tells of 1 node; it can't tell of 2"):
        trace_of("01").is_available(2)


def test_a_trace_becomes_a_zone() -> None:
    """The zone offers the whole gang: at one price, or each node at its price of the moment."""
    trace = msgspec.structs.replace(trace_of("021"), nodes=2, micros_per_hour=(5, 7, 9))
    zone = trace.as_zone(100)
    assert (zone.name, zone.tick_us) == ("a", US_PER_HOUR)
    assert [offer and offer.micros_per_hour for offer in zone.offers] == [None, 100, 100]
    priced = trace.as_zone_at_its_prices(2)
    assert [offer and offer.micros_per_hour for offer in priced.offers] == [None, 14, None]
    with pytest.raises(BadTrace, match="no prices"):
        trace_of("1").as_zone_at_its_prices()


# Describing


def test_lengths_are_of_whole_spells() -> None:
    """Spells that an end of the trace cuts off are in neither list."""
    trace = trace_of("11000110111")
    assert lifetimes_us(trace) == [2 * US_PER_HOUR]
    assert outages_us(trace) == [3 * US_PER_HOUR, US_PER_HOUR]
    assert lifetimes_us(trace_of("11")) == outages_us(trace_of("11")) == []


def test_a_trace_in_a_line() -> None:
    """The summary counts time, spells and whole lengths, and says None where nothing is whole."""
    found = statistics(trace_of("0110111110" + "1" * 14))
    assert (found.days, found.spells, found.availability) == (1.0, 3, 21 / 24)
    assert found.lifetime_hours is not None
    assert (found.lifetime_hours.mean, found.lifetime_hours.median) == (3.5, 3.5)
    assert (found.lifetime_hours.p25, found.lifetime_hours.p75) == (2.75, 4.25)
    assert found.outage_hours is not None
    assert found.outage_hours.mean == 1.0
    never = statistics(trace_of("000"))
    assert (never.availability, never.spells) == (0.0, 0)
    assert never.lifetime_hours is None
    assert never.outage_hours is None


def test_availability_by_window() -> None:
    """Each whole window has its share; what is left at the end has none."""
    trace = trace_of("1101001")
    assert availability_by_window(trace, 2 * US_PER_HOUR) == [1.0, 0.5, 0.0]
    assert availability_by_window(trace, 8 * US_PER_HOUR) == []
    # Windows of one and a half ticks hold one tick and two in turn.
    assert availability_by_window(trace, 3 * US_PER_HOUR // 2) == [1.0, 0.5, 1.0, 0.0]
    with pytest.raises(BadTrace, match="at least as long"):
        availability_by_window(trace, US_PER_HOUR - 1)


def test_correlation_of_zones() -> None:
    """The same zone correlates by 1, its opposite by -1, a constant one not at all."""
    same, opposite, half = trace_of("0011"), trace_of("1100"), trace_of("01011")
    constant = trace_of("1111")
    found = correlation([same, opposite, half, constant])
    assert found[0] == pytest.approx([1, -1, 0, math.nan], nan_ok=True)
    assert found[3] == pytest.approx([math.nan, math.nan, math.nan, 1], nan_ok=True)
    for traces in ([], [same, trace_of("0011", tick_us=1)]):
        with pytest.raises(BadTrace, match="one date"):
            correlation(traces)


def test_hazard_is_ends_over_time_watched() -> None:
    """The last spell counts as watched and not as ended; the first, of unknown age, not at all."""
    trace = trace_of("11101011101111")
    edges_us = [0, US_PER_HOUR, 2 * US_PER_HOUR, 4 * US_PER_HOUR, 8 * US_PER_HOUR]
    # Known ages: 1 h and 3 h, ended, and 4 h, cut off.
    expected = [1 / 3, 0.0, 1 / 3, math.nan]
    assert hazard_by_age([trace], True, edges_us) == pytest.approx(expected, nan_ok=True)
    assert hazard_by_age([trace, trace], True, edges_us) == pytest.approx(expected, nan_ok=True)
    assert hazard_by_age([trace], False, edges_us[:2]) == [1.0]
    assert hazard_by_age([trace_of("11")], True, edges_us[:2]) == pytest.approx(
        [math.nan], nan_ok=True
    )
    for edges in ([0], [-1, 1], [0, 2, 2]):
        with pytest.raises(ValueError, match="two edges"):
            hazard_by_age([trace], True, edges)


@given(st.text("01", min_size=1, max_size=60))
def test_spells_add_up_to_the_trace(counts: str) -> None:
    """Whole spells and the two at the ends are all of the trace, each counted once."""
    trace = trace_of(counts)
    whole_us = sum(lifetimes_us(trace)) + sum(outages_us(trace))
    first = len(counts) - len(counts.lstrip(counts[0]))
    last = len(counts) - len(counts.rstrip(counts[-1]))
    ends = first + last if first < len(counts) else first
    assert whole_us + ends * US_PER_HOUR == trace.duration_us
    assert statistics(trace).spells == sum(1 for spell in counts.split("0") if spell)


# Making up


def test_a_made_up_trace_repeats() -> None:
    """The same seed gives the same traces, another seed gives others."""
    assert sample_traces(days=3) == sample_traces(days=3)
    assert sample_traces(days=3) != sample_traces(days=3, seed=2)


def test_a_zone_does_not_depend_on_its_company() -> None:
    """A zone generated alone is the one among the samples, and a longer one begins like it."""
    among = {trace.zone: trace for trace in sample_traces(days=4)}["west-1a"]
    alone = generate(SAMPLES["fair"], name=among.name, days=6, tick_us=STEP_US, seed=1)
    assert alone.first(4) == among


def test_zones_of_a_kind_differ() -> None:
    """Name and folder each give another trace of the same kind."""
    names = ("x/west-1a_gpu", "x/west-1b_gpu", "x/west-1a_cpu", "y/west-1a_gpu", "west-1a_gpu")
    traces = [
        generate(SAMPLES["fair"], name=name, days=9, tick_us=STEP_US, seed=1) for name in names
    ]
    assert len({trace.counts for trace in traces}) == len(names)
    assert [trace.name for trace in traces] == list(names)


@pytest.mark.parametrize("tick_us", [STEP_US // 10, 195_000_000, 3 * STEP_US])
def test_ticks_look_at_the_same_capacity(tick_us: int) -> None:
    """However often it is looked at, a zone has what its ten-minute step has."""
    steps = generate(SAMPLES["restless"], name="x/a_g", days=5, tick_us=STEP_US, seed=3)
    trace = generate(SAMPLES["restless"], name="x/a_g", days=5, tick_us=tick_us, seed=3)
    assert len(trace.counts) == 5 * US_PER_DAY // tick_us
    assert all(
        count == steps.counts[tick * tick_us // STEP_US] for tick, count in enumerate(trace.counts)
    )


def test_what_can_not_be_generated_is_refused() -> None:
    """Figures that make no sense and traces of no length raise errors that say so."""
    for availability in (0.0, 1.0):
        with pytest.raises(ValueError, match="availability"):
            ZoneKind("", availability, (1.0, 0.0, 0.0, 0.0, 0.0))
    for weights in ((1.0,), (2.0, -1.0, 0.0, 0.0, 0.0), (0.5, 0.0, 0.0, 0.0, 0.0)):
        with pytest.raises(ValueError, match="weights"):
            ZoneKind("", 0.5, weights)
    for days, tick_us in ((0, STEP_US), (1, 0), (1, US_PER_DAY + 1)):
        with pytest.raises(BadTrace, match="at least a day"):
            generate(SAMPLES["fair"], name="x/a_g", days=days, tick_us=tick_us, seed=1)


def test_samples_go_from_scarce_to_plentiful() -> None:
    """The table is in order of availability, and the samples have a zone of each kind."""
    availabilities = [fitted.availability for fitted in SAMPLES.values()]
    assert availabilities == sorted(availabilities)
    traces = sample_traces(days=2)
    assert len({trace.zone for trace in traces}) == len(traces) == len(SAMPLES)
    assert all(len(fitted.weights) == len(MEMORIES_US) for fitted in SAMPLES.values())


def test_zones_of_a_region_run_out_together() -> None:
    """Zones of a region correlate about as real ones do, other regions little, folders not."""

    def mean_correlation(name: str, other: str) -> float:
        return float(
            np.mean(
                [
                    correlation(
                        [
                            generate(
                                SAMPLES["fair"], name=each, days=20, tick_us=STEP_US, seed=seed
                            )
                            for each in (name, other)
                        ]
                    )[0][1]
                    for seed in SEEDS
                ]
            )
        )

    assert 0.35 < mean_correlation("x/west-1a_gpu", "x/west-1b_gpu") < 0.65
    assert 0.0 < mean_correlation("x/west-1a_gpu", "x/east-1a_gpu") < 0.25
    assert abs(mean_correlation("x/west-1a_gpu", "y/west-1a_gpu")) < 0.1


# Real and made up, side by side


@pytest.fixture(scope="module")
def real() -> dict[str, SpotTrace]:
    """The real trace behind each kind of made-up zone."""
    if not SPOT.is_dir():
        pytest.skip("the real traces are not here")
    traces = {trace.name: trace for trace in load_all(SPOT)}
    return {kind: traces[fitted.like] for kind, fitted in SAMPLES.items()}


@pytest.fixture(scope="module")
def made() -> dict[str, list[SpotTrace]]:
    """Zones of each kind, one for each seed; those of different kinds have nothing in common."""
    return {
        kind: [
            generate(fitted, name=f"{kind}/a_gpu", days=27, tick_us=STEP_US, seed=seed)
            for seed in SEEDS
        ]
        for kind, fitted in SAMPLES.items()
    }


def test_all_real_traces_can_be_read() -> None:
    """Every file of the collection loads, with its own tick and its number of nodes."""
    if not SPOT.is_dir():
        pytest.skip("the real traces are not here")
    traces = load_all(SPOT, "*/*/*/*.json")
    assert len(traces) == 28
    assert {trace.tick_us // 1_000_000 for trace in traces} == {30, 32, 34, 195, 300, 600}
    assert {(trace.kind, trace.nodes) for trace in traces} == {
        ("availability", 1),
        ("availability", 16),
        ("preemption", 1),
    }
    assert all(max(trace.counts) == trace.nodes for trace in traces)
    assert sum(trace.micros_per_hour is not None for trace in traces) == 6


def test_made_up_zones_are_like_the_real_ones(
    real: dict[str, SpotTrace], made: dict[str, list[SpotTrace]]
) -> None:
    """Over some seeds, each kind has its zone's availability, spells and typical lengths."""
    for kind, trace in real.items():
        found = [statistics(each) for each in made[kind]]
        like = statistics(trace)
        availability = np.mean([each.availability for each in found])
        assert availability == pytest.approx(like.availability, abs=0.08), kind
        spells_a_day = np.mean([each.spells / each.days for each in found])
        assert spells_a_day == pytest.approx(like.spells / like.days, rel=0.2), kind
        for field in ("lifetime_hours", "outage_hours"):
            median = np.mean([getattr(each, field).median for each in found])
            assert 0.45 < median / getattr(like, field).median < 2.2, (kind, field)


def test_made_up_zones_have_good_and_bad_days(
    real: dict[str, SpotTrace], made: dict[str, list[SpotTrace]]
) -> None:
    """Availability spreads over windows of 48 hours nearly as much as in the real zones."""

    def spread(trace: SpotTrace) -> float:
        return float(np.std(availability_by_window(trace, 48 * US_PER_HOUR)))

    found = np.mean([spread(trace) for traces in made.values() for trace in traces])
    assert 0.75 < found / np.mean([spread(trace) for trace in real.values()]) < 1.15


@pytest.mark.parametrize("is_available", [True, False])
def test_made_up_spells_end_as_seldom_with_age(
    real: dict[str, SpotTrace], made: dict[str, list[SpotTrace]], is_available: bool
) -> None:
    """The hazard of spells falls with their age as that of the real ones does."""
    edges_us = [int(hours * US_PER_HOUR) for hours in (0, 0.5, 1, 2, 4, 8, 16, 32)]
    all_made = [trace for traces in made.values() for trace in traces]
    found = np.array(hazard_by_age(all_made, is_available, edges_us))
    like = np.array(hazard_by_age(list(real.values()), is_available, edges_us))
    assert (np.diff(found) < 0).all()
    assert (found / like).min() > 0.6
    assert (found / like).max() < 1.5


def mean_cost(policy: type[Policy], trace: SpotTrace, starts: int) -> float:
    """Of 48 h of work in 60 h with a changeover of 0.2 h, on-demand three times as dear as spot."""
    job = Job(48 * US_PER_HOUR, 60 * US_PER_HOUR, US_PER_HOUR // 5, trace.tick_us)
    last = (trace.duration_us - job.deadline_us) // trace.tick_us
    draws = Random(1)
    zone = trace.as_zone(1_000_000)
    on_demand = Offer("", Kind.ON_DEMAND, 3_000_000)
    costs = [
        run(job, policy(job), [zone], on_demand, start=draws.randrange(last)).cost_micros
        for _ in range(starts)
    ]
    return float(np.mean(costs)) / (3_000_000 * 48.2)


@pytest.mark.parametrize("policy", [Greedy, UniformProgress])
def test_policies_save_as_much_on_made_up_zones(
    real: dict[str, SpotTrace], made: dict[str, list[SpotTrace]], policy: type[Policy]
) -> None:
    """On average over the kinds, a policy saves on them what it saves on the real zones."""
    found = [mean_cost(policy, trace, 4) for traces in made.values() for trace in traces]
    like = [mean_cost(policy, trace, 25) for trace in real.values()]
    assert np.mean(found) == pytest.approx(np.mean(like), abs=0.05)
