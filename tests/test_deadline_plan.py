"""What a forecast says of a job: the right policy, honest chances, and costs that add up."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from laissez.cli.planning import picture
from laissez.cli.planning import plan as plan_command
from laissez.deadline.generator import sample_traces
from laissez.deadline.job import US_PER_HOUR, BadJob
from laissez.deadline.plan import (
    CANDIDATES,
    Ending,
    Forecast,
    Terms,
    Try,
    ending,
    plan,
    tries,
    typical_example,
    watched_every,
)
from laissez.deadline.traces import BadTrace, Trace
from laissez.deadline.world import Outcome, Zone

TICK_US = 600_000_000
TERMS = Terms(12 * US_PER_HOUR, 16 * US_PER_HOUR, US_PER_HOUR // 5, 3.0)


def trace(counts: list[int], *, name: str = "somewhere/a_gpu", tick_us: int = TICK_US) -> Trace:
    zone = name.rpartition("/")[2]
    return Trace(name, zone, "gpu", "availability", max(counts), tick_us, tuple(counts))


ALWAYS = trace([1] * 500)
NEVER = trace([1] + [0] * 499)
RESTLESS = sample_traces(days=9)[3]


# --- the forecast ---------------------------------------------------------------------------------


def test_capacity_that_never_ends_is_all_taken_on_spot() -> None:
    """Where spot is always there, every policy that uses it costs a third and is sure to."""
    forecast = plan(TERMS, [ALWAYS], starts=20)
    assert forecast.best.cost == pytest.approx(1 / 3, abs=1e-5)
    assert forecast.chances[Ending.ALL_ON_SPOT] == 1
    assert forecast.best.spot_hours == 12
    assert forecast.best.on_demand_hours == 0
    assert forecast.best.changeover_hours == pytest.approx(0.2)
    assert forecast.best.moves == 1
    assert [each.cost for each in forecast.what_ifs] == [forecast.best.cost] * 3


def test_where_there_is_no_spot_on_demand_at_once_is_recommended() -> None:
    """On-demand wins a draw, and there is nothing to gain from a later deadline."""
    forecast = plan(TERMS, [trace([0] * 499 + [1])], starts=20)
    assert forecast.recommended == "on_demand"
    assert {each.cost for each in forecast.policies} == {1}
    assert forecast.chances[Ending.SAVES_NOTHING] == 1
    assert forecast.what_ifs == ()


def test_where_spot_is_no_cheaper_nothing_else_is_tried() -> None:
    """At a price ratio of 1 or less the forecast is on-demand, whatever capacity there is."""
    forecast = plan(msgspec.structs.replace(TERMS, price_ratio=1.0), [ALWAYS])
    assert forecast.recommended == "on_demand"
    assert [each.policy for each in forecast.policies] == ["on_demand"]


def test_a_real_forecast_adds_up() -> None:
    """Every policy is tried from every start and misses none; chances add up to 1; hours of work to
    the work; the cost of the mean run is that of its hours; and the cheapest is recommended."""
    forecast = plan(TERMS, [RESTLESS], starts=60)
    assert [each.policy for each in forecast.policies] == list(CANDIDATES)
    assert sum(forecast.chances.values()) == pytest.approx(1)
    assert set(forecast.chances) == set(Ending)
    assert forecast.chances[Ending.MISSES] == 0
    assert forecast.best.cost == min(each.cost for each in forecast.policies) < 0.99
    for each in forecast.policies:
        assert each.missed == 0
        assert each.runs == (1 if each.policy == "on_demand" else 60)
        assert each.spot_hours + each.on_demand_hours == pytest.approx(12)
        assert each.cost_p10 <= each.cost_p50 <= each.cost_p90
        paid = each.spot_hours / 3 + each.on_demand_hours
        assert paid <= 12.2 * each.cost <= paid + each.changeover_hours
    costs = [forecast.best.cost, *(each.cost for each in forecast.what_ifs)]
    assert [each.deadline_us for each in forecast.what_ifs] == [
        TERMS.deadline_us * percent // 100 for percent in (110, 125, 150)
    ]
    assert costs[-1] < costs[0]


def test_two_good_zones_are_better_than_one() -> None:
    """The traces are zones of one job: with both it is cheaper than with either alone."""
    first, second = sample_traces(days=9)[4:6]
    both = plan(TERMS, [first, second], starts=40).best.cost
    alone = [plan(TERMS, [each], starts=40).best.cost for each in (first, second)]
    assert both < min(alone)


def test_without_a_trace_each_invented_zone_takes_its_turn() -> None:
    """The forecast says that it is a guess, and from how many zones, one of them at a time."""
    forecast = plan(TERMS, starts=32)
    assert forecast.is_guess
    assert len(forecast.zones) == len(sample_traces(days=1)) > 1
    assert len(typical_example(forecast).zones) == 1
    assert not plan(TERMS, [RESTLESS], starts=2).is_guess


def test_starts_leave_the_whole_deadline_in_the_trace() -> None:
    """Luck spreads starts from the first tick to the last one possible; places take turns."""
    job = TERMS.job(TICK_US)
    long, short = ([Zone("a", TICK_US, [1] * ticks)] for ticks in (196, 106))
    assert tries(job, [long, short], [0.0, 0.0, 0.999, 0.999]) == [
        Try(0, 0),
        Try(1, 0),
        Try(0, 100),
        Try(1, 10),
    ]


def test_the_seed_decides_all_of_it() -> None:
    """The same seed gives the same forecast, another one another."""
    first, again, other = (plan(TERMS, starts=10, seed=seed) for seed in (4, 4, 5))
    assert first == again
    assert first.policies != other.policies


def test_prices_scale_costs_and_change_no_choice() -> None:
    """Costs are shares; what on-demand costs is said in micro-dollars, for all instances."""
    plain = plan(TERMS, [RESTLESS], starts=10)
    priced = plan(
        msgspec.structs.replace(TERMS, on_demand_micros_per_hour=3_060_000), [RESTLESS], starts=10
    )
    assert priced.on_demand_cost_micros == 3_060_000 * 61 // 5
    assert priced.best.cost == pytest.approx(plain.best.cost, rel=1e-5)
    four = msgspec.structs.replace(TERMS, nodes=4, on_demand_micros_per_hour=3_060_000)
    gang = trace([4] * 300 + [3] * 200)
    assert plan(four, [gang], starts=5).on_demand_cost_micros == 4 * 3_060_000 * 61 // 5


def test_progress_ends_where_it_says() -> None:
    """Whoever watches sees the runs counted up to the total, also when some need not be made."""
    for watched in (RESTLESS, NEVER):
        done: list[int] = []
        totals: list[int] = []

        def told(now: int, of: int, done: list[int] = done, totals: list[int] = totals) -> None:
            done.append(now)
            totals.append(of)

        plan(TERMS, [watched], starts=5, progress=told)
        assert done == sorted(done)
        assert {done[-1]} == set(totals)


def test_the_typical_start_has_the_median_cost() -> None:
    """The run to look at costs the median of the recommended policy, step by step."""
    forecast = plan(TERMS, [RESTLESS], starts=21)
    example = typical_example(forecast, [RESTLESS])
    outcome = example.outcomes[forecast.recommended]
    share = outcome.cost_micros / forecast.on_demand_cost_micros
    assert share == pytest.approx(forecast.best.cost_p50)
    assert set(example.outcomes) == {forecast.recommended, "uniform_progress", "greedy"}
    assert outcome.steps


@pytest.mark.parametrize(
    ("cost", "on_demand_us", "is_late", "expected"),
    [
        (60, 0, False, Ending.ALL_ON_SPOT),
        (49, 1, False, Ending.SAVES_OVER_50),
        (50, 1, False, Ending.SAVES_25_TO_50),
        (75, 1, False, Ending.SAVES_25_TO_50),
        (76, 1, False, Ending.SAVES_UP_TO_25),
        (100, 1, False, Ending.SAVES_NOTHING),
        (120, 1, False, Ending.SAVES_NOTHING),
        (30, 0, True, Ending.MISSES),
    ],
)
def test_how_a_run_ends(cost: int, on_demand_us: int, is_late: bool, expected: Ending) -> None:
    """Each run counts once, by what it saved against a cost of 100."""
    assert ending(Outcome(1, is_late, cost, on_demand_us, 1, 0, 0, 1), 100) == expected


# --- how often one looks --------------------------------------------------------------------------


def test_who_looks_less_often_sees_less_capacity() -> None:
    """A longer tick counts capacity that was there during all of it, and no more than that; a
    shorter one sees the same again."""
    seen = watched_every(trace([1, 1, 2, 0, 1, 1, 1]), 2 * TICK_US)
    assert seen.counts == (1, 0, 1)
    assert watched_every(trace([2, 1, 1]), 3 * TICK_US // 2).counts == (1, 1)
    assert watched_every(trace([1, 0]), TICK_US // 2).counts == (1, 1, 0, 0)
    assert watched_every(RESTLESS, TICK_US) is RESTLESS


def test_traces_of_different_ticks_are_looked_at_by_the_slower() -> None:
    """Zones that were recorded at different paces can be used together."""
    slow = trace([1] * 100, name="somewhere/b_gpu", tick_us=3 * TICK_US)
    forecast = plan(TERMS, [ALWAYS, slow], starts=3)
    assert forecast.tick_us == 3 * TICK_US
    assert plan(TERMS, [ALWAYS, slow], starts=3, tick_us=TICK_US).tick_us == TICK_US


# --- what can't be planned ------------------------------------------------------------------------


def test_what_can_not_be_planned_is_said() -> None:
    """A deadline too early, a trace too short, a trace given twice, instances nobody recorded: each
    is refused with what to do, and with how much is missing."""
    with pytest.raises(BadJob, match=r"0\.2 h too early"):
        plan(msgspec.structs.replace(TERMS, deadline_us=TERMS.work_us))
    with pytest.raises(BadTrace, match=r"lasts 15 h, 1 h less than the deadline needs"):
        plan(TERMS, [trace([1] * 90)])
    with pytest.raises(BadTrace, match="given twice"):
        plan(TERMS, [ALWAYS, ALWAYS])
    with pytest.raises(BadTrace, match="4 instances at once"):
        plan(msgspec.structs.replace(TERMS, nodes=4))


def test_a_trace_that_just_suffices_has_one_start_and_no_later_deadline() -> None:
    """What-ifs that reach beyond the trace are left out."""
    forecast = plan(TERMS, [trace([1] * 96)], starts=5)
    assert forecast.typical.start == 0
    assert forecast.what_ifs == ()
    one_more = plan(TERMS, [trace([1] * 106)], starts=5)
    assert [each.deadline_us for each in one_more.what_ifs] == [TERMS.deadline_us * 11 // 10]


# --- the command ----------------------------------------------------------------------------------

WORDS = ("--work", "12h", "--deadline", "16h", "--changeover", "12m", "--starts", "24")


def command(*words: str) -> Result:
    return CliRunner().invoke(plan_command, [*WORDS, *words], catch_exceptions=False)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "zone-x_gpu.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": list(RESTLESS.counts)}))
    return str(path)


def test_the_command_says_what_to_do(file: str) -> None:
    """For people: the policy, its cost, the chance of each outcome, later deadlines, a picture."""
    told = command("--trace", file, "--on-demand-price", "3.06").stdout
    assert re.search(r"^Take [\w -]+: on average it costs \d+% of on-demand \(\$\d+\.\d\d ", told)
    assert "0 of 24 runs missed the deadline" in told
    assert "seed 1" in told
    assert "zone-x" in told
    assert "a guess" not in told
    for heading in ("mean cost", "misses the deadline", "If the deadline were later", "spot there"):
        assert heading in told
    assert max(map(len, told.splitlines())) <= 80


def test_the_command_without_a_trace_says_that_it_guesses() -> None:
    """Nobody takes invented zones for their own."""
    told = command().stdout
    assert "invented zones" in told
    assert "only a guess" in told
    assert "$" not in told


def test_the_command_for_programs(file: str) -> None:
    """With --json the forecast is one document, which reads as the forecast that the library makes
    of the same seed."""
    result = command("--trace", file, "--seed", "9", "--json")
    forecast = msgspec.json.decode(result.stdout, type=Forecast)
    assert result.stderr == ""
    assert forecast.seed == 9
    assert forecast.policies == plan(TERMS, [RESTLESS], starts=24, seed=9).policies


def test_the_command_draws(file: str, tmp_path: Path) -> None:
    """With --plot the picture is in a file, and not in the text."""
    drawing = tmp_path / "run.svg"
    told = command("--trace", file, "--plot", str(drawing)).stdout
    assert str(drawing) in told
    assert "spot there" not in told
    assert "<svg" in drawing.read_text()


def test_the_command_says_why_it_takes_on_demand(file: str) -> None:
    """No cheaper spot and too little slack are different reasons, and each is said."""
    assert "spot is no cheaper" in command("--price-ratio", "1").stdout
    told = command("--trace", file, "--deadline", "12.3h").stdout
    assert "leaves 0.3 h beside the work,\nand a try on spot needs 0.4 h" in told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--deadline", "12h"), "0.2 h too early"),
        (("--deadline", "300h", "--work", "200h"), "84 h less than the deadline needs"),
        (("--price-ratio", "0"), "--price-ratio"),
        (("--tick", "0s"), "once a second"),
        (("--plot", "run.pdf"), ".png or .svg"),
        (("--nodes", "2"), "nodes"),
        (("--trace", __file__), "gap_seconds"),
        (("--trace", "nowhere.json"), "does not exist"),
        (("--work", "long"), "not a duration"),
    ],
)
def test_the_command_refuses_with_a_sentence(
    file: str, words: tuple[str, ...], sentence: str
) -> None:
    """What can't be planned ends with what is wrong on stderr, and nothing on stdout."""
    result = command("--trace", file, *words)
    assert result.exit_code != 0
    assert sentence in result.stderr
    assert result.stdout == ""


def test_the_picture_shows_each_lane_for_the_whole_time() -> None:
    """Lanes are as long as the deadline: capacity first, then each policy; a job on spot that is
    always there changes over once, works, and is gone when it is done."""
    forecast = plan(TERMS, [ALWAYS], starts=3)
    drawn = picture(forecast, typical_example(forecast, [ALWAYS]), 87).plain.splitlines()
    assert drawn[1] == "spot there       " + "█" * 65
    lanes = [line[17:] for line in drawn[2:-2]]
    assert set(lanes) == {"|" + "█" * 49 + " " * 15 + "  33%"}
    marks = {mark[0]: mark.start() - 17 for mark in re.finditer(r"\d+ h", drawn[-2])}
    assert marks == {"0 h": 0, "4 h": 15, "8 h": 31, "12 h": 46, "16 h": 61}


def test_the_picture_of_a_job_without_spot() -> None:
    """Where there is none after the first moment, greedy idles until the safety net catches it, and
    the whole of a long changeover shows."""
    terms = msgspec.structs.replace(TERMS, changeover_us=US_PER_HOUR)
    gone = trace([1] + [0] * 95)
    forecast = plan(terms, [gone], starts=3)
    drawn = picture(forecast, typical_example(forecast, [gone]), 86).plain.splitlines()
    greedy = next(line for line in drawn if line.startswith("Greedy"))
    assert re.search(r" \|·+\|{4}▒+ +\d+%$", greedy)
