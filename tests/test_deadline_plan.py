"""What a forecast says of a job: the right policy, honest chances, and costs that add up."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from laissez.cli.evaluator.planning import plan as plan_command
from laissez.cli.evaluator.run_picture import picture
from laissez.deadline.classic import Greedy, OnDemandOnly
from laissez.deadline.generator import sample_traces
from laissez.deadline.job import US_PER_HOUR, BadJob, Job, Kind, Observation, Offer
from laissez.deadline.plan import (
    CANDIDATES,
    DRAW,
    Ending,
    Expectation,
    Forecast,
    JobTerms,
    Try,
    _recommended,
    at_trace_prices,
    ending,
    plan,
    tries,
    typical_example,
    watched_every,
)
from laissez.deadline.policy import Policy
from laissez.deadline.traces import BadTrace, SpotTrace
from laissez.deadline.world import Outcome, Zone, run
from laissez.experiments.deadline.evaluation import evaluate, load_traces
from laissez.experiments.deadline.reading import _Document, _Fields, built_in, read_study
from missing_module import hide

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TICK_US = 600_000_000
TERMS = JobTerms(12 * US_PER_HOUR, 16 * US_PER_HOUR, US_PER_HOUR // 5, 3.0)


def trace(counts: list[int], *, name: str = "somewhere/a_gpu", tick_us: int = TICK_US) -> SpotTrace:
    zone = name.rpartition("/")[2]
    return SpotTrace(name, zone, "gpu", "availability", max(counts), tick_us, tuple(counts))


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
    assert forecast.best.cost == pytest.approx(
        min(each.cost for each in forecast.policies), abs=DRAW
    )
    assert forecast.best.cost < 0.99
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
    assert plain.on_demand_cost_micros is None
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
    assert example.on_demand_cost_micros == 1_000_000 * 61 // 5
    share = outcome.cost_micros / example.on_demand_cost_micros
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


def expected(policy: str, cost: float) -> Expectation:
    return Expectation(policy, policy, cost, cost, cost, cost, 1, 1, 0, 1, 0, 9)


@pytest.mark.parametrize(
    ("costs", "recommended", "equals"),
    [
        ({"on_demand": 1, "greedy": 0.5, "lindy": 0.5009}, "lindy", ["greedy"]),
        ({"on_demand": 1, "greedy": 0.5, "lindy": 0.5011}, "greedy", []),
        ({"on_demand": 1, "greedy": 0.9995, "lindy": 0.9995}, "on_demand", ["greedy", "lindy"]),
        (
            {"on_demand": 1, "greedy": 0.5, "time_sliced": 0.5009, "lindy": 0.5018},
            "greedy",
            ["time_sliced"],
        ),
    ],
)
def test_a_draw_goes_to_on_demand_or_else_to_lindy(
    costs: dict[str, float], recommended: str, equals: list[str]
) -> None:
    """Within a tenth of a percent of on-demand policies do equally well; beyond, the cheaper wins;
    those that are equal are equal to the cheapest."""
    policies = tuple(expected(policy, cost) for policy, cost in costs.items())
    assert _recommended(policies) == recommended
    forecast = msgspec.structs.replace(
        plan(TERMS, [ALWAYS], starts=1), policies=policies, recommended=recommended
    )
    assert [each.policy for each in forecast.equals] == equals


def test_a_forecast_tells_what_it_rests_on() -> None:
    """It counts the starts that differ, and says how much the shortest of its traces covers."""
    short = trace([1] * 100, name="somewhere/b_gpu")
    forecast = plan(TERMS, [ALWAYS, short], starts=100)
    assert forecast.different_starts == forecast.possible_starts == 5
    assert forecast.covered_us == 100 * TICK_US
    one = plan(TERMS, [ALWAYS], starts=1)
    assert (one.different_starts, one.possible_starts) == (1, 500 - 24 * 6 + 1)


# --- how often one looks --------------------------------------------------------------------------


def test_who_looks_less_often_sees_less_capacity() -> None:
    """A longer tick counts capacity that was there during all of it, and no more than that; a
    shorter one sees the same again."""
    seen = watched_every(trace([1, 1, 2, 0, 1, 1, 1]), 2 * TICK_US)
    assert seen.counts == (1, 0, 1)
    assert watched_every(trace([2, 1, 1]), 3 * TICK_US // 2).counts == (1, 1)
    assert watched_every(trace([1, 0]), TICK_US // 2).counts == (1, 1, 0, 0)
    assert watched_every(RESTLESS, TICK_US) is RESTLESS


def test_who_looks_less_often_pays_the_mean_price() -> None:
    """Prices stay with a trace however often one looks: each is the mean over its tick."""
    seen = priced([1, 1, 0], [3, 5, 9])
    assert watched_every(seen, 2 * TICK_US).micros_per_hour == (4_000_000,)
    assert watched_every(seen, 3 * TICK_US // 2).micros_per_hour == (
        round(1e6 * (3 + 5 / 2) / 1.5),
        round(1e6 * (5 / 2 + 9) / 1.5),
    )
    halves = watched_every(seen, TICK_US // 2).micros_per_hour
    assert halves == tuple(each * 1_000_000 for each in (3, 3, 5, 5, 9, 9))
    assert watched_every(ALWAYS, 2 * TICK_US).micros_per_hour is None


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
    with pytest.raises(BadTrace, match=r"a_gpu covers 15 h; the deadline needs 16 h: give"):
        plan(TERMS, [trace([1] * 90)])
    with pytest.raises(BadTrace, match=r"needs 17\.5 h, in whole ticks of 2\.5 h"):
        plan(TERMS, [trace([1] * 96)], tick_us=15 * TICK_US)
    with pytest.raises(BadTrace, match="a_gpu is given twice"):
        plan(TERMS, [ALWAYS, ALWAYS])
    with pytest.raises(BadTrace, match="two traces are called somewhere/a_gpu"):
        plan(TERMS, [ALWAYS, NEVER])
    for ratio in (math.nan, math.inf, 0.0, -1.0):
        with pytest.raises(BadJob, match="price ratio"):
            msgspec.structs.replace(TERMS, price_ratio=ratio)
    with pytest.raises(BadTrace, match="4 instances at once"):
        plan(msgspec.structs.replace(TERMS, nodes=4))


def test_a_trace_that_just_suffices_has_one_start_and_no_later_deadline() -> None:
    """What-ifs that reach beyond the trace are left out, and those that leave less than half of
    the starts."""
    forecast = plan(TERMS, [trace([1] * 96)], starts=5)
    assert forecast.typical.start == 0
    assert forecast.what_ifs == ()
    # At 96 ticks for the deadline and 106 for a tenth more, 10 starts of 20 are half, 9 of 19 not.
    assert plan(TERMS, [trace([1] * 114)], starts=5).what_ifs == ()
    enough = plan(TERMS, [trace([1] * 115)], starts=5)
    assert [each.deadline_us for each in enough.what_ifs] == [TERMS.deadline_us * 11 // 10]


def test_policies_and_later_deadlines_get_the_same_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs of a forecast start at the same instants, so that a later deadline is compared with
    the same luck; the latest of them still lies in the trace."""
    starts: dict[tuple[int, type[Policy]], list[int]] = {}

    def noted(
        job: Job,
        policy: Policy,
        zones: Sequence[Zone],
        on_demand: Offer,
        *,
        start: int,
        keeps_steps: bool,
    ) -> Outcome:
        starts.setdefault((job.deadline_us, type(policy)), []).append(start)
        return run(job, policy, zones, on_demand, start=start, keeps_steps=keeps_steps)

    monkeypatch.setattr("laissez.deadline.plan.run", noted)
    short = msgspec.structs.replace(RESTLESS, counts=RESTLESS.counts[:200])
    forecast = plan(TERMS, [short], starts=40)
    assert forecast.what_ifs
    assert len({deadline_us for deadline_us, _ in starts}) == 4
    whole = {tuple(each) for (_, policy), each in starts.items() if policy is not OnDemandOnly}
    assert len(whole) == 1
    (all_starts,) = whole
    assert len(set(all_starts)) > 20
    latest_ticks = forecast.what_ifs[-1].deadline_us // TICK_US
    assert max(all_starts) + latest_ticks <= len(short.counts)
    assert forecast.typical.start in all_starts


# --- prices ---------------------------------------------------------------------------------------


def priced(counts: list[int], dollars: list[int], name: str = "somewhere/a_gpu") -> SpotTrace:
    prices = tuple(each * 1_000_000 for each in dollars)
    return msgspec.structs.replace(trace(counts, name=name), micros_per_hour=prices)


KNOWN = msgspec.structs.replace(TERMS, on_demand_micros_per_hour=12_000_000)


def test_the_ratio_of_priced_traces_is_to_their_mean_while_there() -> None:
    """On-demand at $12 over the mean of the prices at which capacity was there: $3, $3 and $6."""
    several = [priced([1, 1, 0], [3, 3, 100]), priced([0, 1], [100, 6], "somewhere/b_gpu")]
    found = at_trace_prices(KNOWN, several)
    assert found is not None
    assert found.price_ratio == 3
    assert found.has_trace_prices
    never = msgspec.structs.replace(trace([0, 0]), micros_per_hour=(2_000_000, 4_000_000), nodes=1)
    assert at_trace_prices(KNOWN, [never]) == msgspec.structs.replace(found, price_ratio=4)


def test_prices_are_used_only_if_all_are_known() -> None:
    """One trace without prices, or on-demand without one, and the ratio is what counts."""
    assert at_trace_prices(KNOWN, [priced([1], [3]), trace([1], name="somewhere/b_gpu")]) is None
    assert at_trace_prices(TERMS, [priced([1], [3])]) is None
    assert at_trace_prices(KNOWN, []) is None


def test_a_forecast_at_the_traces_prices_pays_them() -> None:
    """Where spot is always there, half of the time at $2 and half at $4, a run of 12.2 hours costs
    between the two, by when it starts, and for two instances twice that."""
    there = priced([1] * 600, [2] * 300 + [4] * 300)
    terms = at_trace_prices(KNOWN, [there])
    assert terms is not None
    forecast = plan(terms, [there], starts=40)
    assert forecast.best.cost_p10 == pytest.approx(2 / 12)
    assert forecast.best.cost_p90 == pytest.approx(4 / 12)
    assert forecast.terms.spot_rate == 3_000_000
    both = priced([2] * 600, [2] * 300 + [4] * 300)
    pair = at_trace_prices(msgspec.structs.replace(KNOWN, nodes=2), [both])
    assert pair is not None
    of_two = plan(pair, [both], starts=40)
    assert forecast.on_demand_cost_micros == 12_000_000 * 61 // 5
    assert of_two.on_demand_cost_micros == 2 * forecast.on_demand_cost_micros
    assert of_two.best.cost == pytest.approx(forecast.best.cost)


def test_on_demand_that_costs_nothing_is_refused() -> None:
    """A price of 0 is neither a price nor none: there is nothing to save."""
    with pytest.raises(BadJob, match="more than nothing"):
        msgspec.structs.replace(TERMS, on_demand_micros_per_hour=0)


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
    of the same seed, and says what it is, as all documents do. What nobody said it doesn't
    invent."""
    result = command("--trace", file, "--seed", "9", "--json")
    assert result.stderr == ""
    forecast = msgspec.json.decode(result.stdout, type=Forecast)
    made = plan(TERMS, [RESTLESS], starts=24, seed=9)
    named = msgspec.structs.replace(made, zones=("zone-x",))
    assert forecast == named
    fields = json.loads(msgspec.json.encode(named))
    assert json.loads(result.stdout) == fields
    assert fields["type"] == "Forecast"
    assert fields["on_demand_cost_micros"] is None


@pytest.fixture
def priced_file(tmp_path: Path) -> str:
    path = tmp_path / "zone-y_gpu.json"
    prices = [1.5] * len(RESTLESS.counts)
    document = {"metadata": {"gap_seconds": 600}, "data": list(RESTLESS.counts), "prices": prices}
    path.write_text(json.dumps(document))
    return str(path)


def test_the_command_uses_the_prices_of_traces(file: str, priced_file: str) -> None:
    """With all prices known spot costs what it did, and that is said; otherwise the ratio is used,
    and that is said. Both at once are refused."""
    own = command("--trace", priced_file, "--on-demand-price", "6").stdout
    assert "Spot costs what it did in the traces: $1.500 an hour on average" in own
    assert "on-demand costs 4 times that" in own
    assert max(map(len, own.splitlines())) <= 80
    same = command("--trace", file, "--on-demand-price", "6", "--price-ratio", "4").stdout
    assert "On-demand is taken to cost 4 times as much as spot" in same
    figures = [re.search(r"Take .*", told) for told in (own, same)]
    assert figures[0] is not None
    assert figures[1] is not None
    assert figures[0][0] == figures[1][0]
    for words in ((), ("--trace", file, "--on-demand-price", "6")):
        told = command("--trace", priced_file, *words).stdout
        assert "On-demand is taken to cost 3 times as much as spot" in told
    refused = command("--trace", priced_file, "--on-demand-price", "6", "--price-ratio", "4")
    assert refused.exit_code != 0
    assert "leave out --price-ratio" in refused.stderr


def test_real_prices_are_used() -> None:
    """A trace of r5.16xlarge, at $4.032 on-demand, has its own ratio."""
    path = DATA / "spot/preemption/1-node/aws-04-19-2023/us-east-1b_intel_64.json"
    if not path.is_file():
        pytest.skip("the traces are not here")
    result = command("--trace", str(path), "--on-demand-price", "4.032", "--tick", "10m", "--json")
    forecast = msgspec.json.decode(result.stdout, type=Forecast)
    prices = json.loads(path.read_text())
    paid = [price for price, there in zip(prices["prices"], prices["data"], strict=True) if there]
    assert forecast.terms.price_ratio == pytest.approx(4.032 * len(paid) / sum(paid))
    assert 1 / 4 < forecast.best.cost < 1


def test_the_command_asks_for_matplotlib_before_it_computes(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who wants a picture and can't have one is told at once, and with a sentence."""
    hide(monkeypatch, "matplotlib")
    monkeypatch.setattr(
        "laissez.cli.evaluator.planning.forecast_of", lambda *_, **__: pytest.fail("computes")
    )
    result = command("--trace", file, "--plot", str(tmp_path / "run.png"))
    assert result.exit_code == 1
    assert "matplotlib, which is not installed" in result.stderr


@pytest.mark.parametrize(
    ("data", "words", "sentences", "unsaid"),
    [
        (
            [1] * 102,
            (),
            ["The traces leave only 7 different starts: this is hardly a forecast."],
            [],
        ),
        ([1] * 102, (), ["from 7 different starts it cost on average 33%"], ["of 10", "Chances"]),
        ([1] * 112, (), ["leave only 17 different", "8 of 10", "Chances"], []),
        ([1] * 96, (), ["The traces leave only 1 different start:"], ["different starts"]),
        (
            [1] * 287,
            ("--starts", "300"),
            ["The traces cover less than 3 times the deadline"],
            ["leave only"],
        ),
        ([1] * 288, ("--starts", "300"), ["In 8 cases of 10"], ["hardly a"]),
        ([1] * 288, ("--starts", "1"), ["Only 1 start was tried", "the one start"], ["of 10"]),
        ([1] * 500, ("--starts", "9"), ["Only 9 starts were tried"], ["of 10", "Chances"]),
    ],
)
def test_the_command_says_when_it_can_hardly_tell(
    tmp_path: Path, data: list[int], words: tuple[str, ...], sentences: list[str], unsaid: list[str]
) -> None:
    """Few different starts, for want of traces or of tries, and traces hardly longer than the
    deadline are said to be little; of fewer than ten nobody says what 8 of 10 are."""
    told = command("--trace", written(tmp_path / "z.json", data), *words).stdout
    assert max(map(len, told.splitlines())) <= 80
    for sentence in sentences:
        assert sentence in told
    for sentence in unsaid:
        assert sentence not in told


def written(path: Path, data: Sequence[int], gap_seconds: int = 600) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"metadata": {"gap_seconds": gap_seconds}, "data": data}))
    return str(path)


def test_the_command_says_how_to_follow_it(tmp_path: Path, file: str) -> None:
    """The last lines are for who wants to do it: by a pilot, and by hand if that costs no more."""
    told = command("--trace", written(tmp_path / "z.json", [1] * 500)).stdout
    assert "\nGreedy and Uniform progress do equally well here.\n" in told
    last = told.partition("To follow Lindy, ask at least every 10m")[2]
    assert 'laissez.deadline.pilot.Pilot(job, "lindy"), see docs/deadline.md.' in last
    assert "Greedy costs hardly more, 33.3%, and can be followed by hand" in last
    assert "less than the work left and 34m" in last
    assert "followed by hand too: take spot" in command("--trace", file).stdout
    assert json.loads(command("--trace", file, "--json").stdout)["recommended"] == "greedy"
    dear = json.loads(command("--json").stdout)
    costs = {each["policy"]: each["cost"] for each in dear["policies"]}
    assert costs["greedy"] - costs[dear["recommended"]] > 0.01
    assert "by hand" not in command().stdout


def test_the_hand_rule_of_greedy_is_greedy() -> None:
    """What the report tells a person to do without a pilot is what the policy does: wait while the
    slack is two changeovers and a tick, and else go to on-demand."""
    job = TERMS.job(TICK_US)
    on_demand = Offer("anywhere", Kind.ON_DEMAND, 3)
    late_us = job.slack_us - job.hop_us - job.tick_us
    for at_us, decided in ((late_us, None), (late_us + 1, on_demand)):
        seen = Observation(at_us, job.work_us, None, 0, on_demand, (), ())
        assert Greedy(job).decide(seen) == decided


def test_the_command_tells_traces_of_one_name_apart(tmp_path: Path) -> None:
    """Files of one name are zones with as much of their paths as it takes; what is taken for
    granted of several is said."""
    first = written(tmp_path / "x/1/a_gpu.json", [1] * 500)
    second = written(tmp_path / "y/1/a_gpu.json", [0] * 500)
    told = command("--trace", first, "--trace", second).stdout
    assert "Spot: x/1/a_gpu, y/1/a_gpu." in told
    assert "The traces are taken to begin at the same instant." in told
    assert "There was never spot capacity in y/1/a_gpu." in told
    assert "recorded every" not in told
    slow = written(tmp_path / "b.json", [1] * 200, 1800)
    told = command("--trace", first, "--trace", slow).stdout
    assert "Spot: a, b." in told
    assert "They were recorded every 10m and 30m; 30m, the longest, is used for all." in told
    told = command("--trace", first, "--trace", slow, "--tick", "5m").stdout
    assert "10m and 30m; 5m is used for all." in told
    alone = command("--trace", first).stdout
    assert "same instant" not in alone


def test_the_command_says_why_spot_is_of_no_use(tmp_path: Path) -> None:
    """Never any capacity, none that lasts for a look, and looks too far apart for the slack are
    different things to say, and the last two are for who looks to change."""
    never = written(tmp_path / "never.json", [0] * 500)
    assert "there was never spot capacity\nin the trace." in command("--trace", never).stdout
    other = written(tmp_path / "other.json", [0] * 500)
    told = command("--trace", never, "--trace", other).stdout
    assert "never spot capacity\nin any of the traces." in told
    blinking = written(tmp_path / "blinking.json", [1, 0, 0] * 170)
    told = command("--trace", blinking, "--tick", "30m").stdout
    assert "never lasted from one look to the next" in told
    there = written(tmp_path / "there.json", [1] * 500)
    tight = ("--trace", there, "--deadline", "12.9h")
    more_often = "Looking more often is what would\nhelp: at least every 30m (--tick)."
    for tick, policy, hint in (("30m", "Lindy", ""), ("31m", "Lindy", more_often)):
        told = command(*tight, "--tick", tick).stdout
        assert told.startswith(f"Take {policy}")
        assert hint in told
        assert ("what would" in told) == bool(hint)
    told = command("--trace", there, "--deadline", "12.5h", "--tick", "43m").stdout
    assert told.startswith("Take on-demand at once: the deadline leaves 0.5 h beside the work, ")
    assert more_often.replace("30m", "6m") in told
    assert max(map(len, told.splitlines())) <= 80
    exact = command("--trace", there, "--deadline", "12.4h").stdout
    assert "A later deadline is what would help." in exact


def test_the_command_draws(file: str, tmp_path: Path) -> None:
    """With --plot the picture is in a file, and not in the text."""
    drawing = tmp_path / "run.svg"
    told = command("--trace", file, "--plot", str(drawing)).stdout
    assert str(drawing) in told
    assert "spot there" not in told
    assert "<svg" in drawing.read_text()


@pytest.mark.parametrize(("words", "is_known"), [((), False), (("--on-demand-price", "3"), True)])
def test_the_picture_has_dollars_only_if_the_price_is_known(
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    is_known: bool,
) -> None:
    """An invented price is not drawn as if somebody paid it."""
    asked: list[dict[str, object]] = []

    class Figures:
        @staticmethod
        def draw_decisions(*_: object, **how: object) -> None:
            asked.append(how)

    monkeypatch.setattr("laissez.cli.evaluator.planning.figures", lambda: Figures)
    told = command("--trace", file, "--plot", str(tmp_path / "run.svg"), *words).stdout
    assert [how["shows_dollars"] for how in asked] == [is_known]
    assert ("$" in told) == is_known


def test_the_command_says_why_it_takes_on_demand(file: str) -> None:
    """No cheaper spot and too little slack are different reasons, and each is said."""
    assert "spot is no cheaper" in command("--price-ratio", "1").stdout
    told = command("--trace", file, "--deadline", "12.3h").stdout
    assert "leaves 0.3 h beside the work,\nand a try on spot needs 0.4 h" in told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--deadline", "12h"), "0.2 h too early"),
        (("--deadline", "300h", "--work", "200h"), "zone-x_gpu.json covers 216 h; the deadline"),
        (("--price-ratio", "0"), "--price-ratio"),
        (("--price-ratio", "nan"), "--price-ratio"),
        (("--price-ratio", "inf"), "--price-ratio"),
        (("--work", "0h"), "the work must be longer than nothing"),
        (("--on-demand-price", "0"), "on-demand costs more than nothing"),
        (("--tick", "0s"), "once a second"),
        (("--plot", "run.pdf"), ".png or .svg"),
        (("--nodes", "2"), "zone-x_gpu.json tells of 1 node; it can't tell of 2"),
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
    drawn = picture(typical_example(forecast, [ALWAYS]), 87).plain.splitlines()
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
    drawn = picture(typical_example(forecast, [gone]), 86).plain.splitlines()
    greedy = next(line for line in drawn if line.startswith("Greedy"))
    assert re.search(r" \|·+\|{4}▒+ +\d+%$", greedy)


# --- the page -------------------------------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "deadline.md").read_text()


def test_the_study_on_the_page_can_be_run() -> None:
    """The example of a study is read, has the settings that its lists make, and runs."""
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    study, traces = load_traces(read_study(text, name="hurry", file_name="hurry.yaml"), None)
    assert [setting.fraction for setting in study.settings[:4:2]] == [0.6, 0.8]
    assert [setting.price_ratio for setting in study.settings] == [3, 3, 3, 3, 4, 4]
    few = msgspec.structs.replace(study, starts=2)
    result = evaluate(few, traces[3:5], processes=1)
    assert list(result.policies) == list(study.policies)


def test_the_page_has_every_field_of_a_study() -> None:
    """Each field is in the tables once, with its default if it has one, and says whether it may be
    a list."""
    section = PAGE.partition("## A study of your own")[2]
    rows = {
        cells[0].strip("`"): cells[1:]
        for line in re.findall(r"^\| (`.*) \|$", section, re.MULTILINE)
        if (cells := line.split(" | "))
    }
    known = {field.name: field for field in msgspec.structs.fields(_Document)}
    assert set(rows) == set(known)
    for name in ("starts", "seed", "price_ratio", "nodes", "work_error", "changeover_error"):
        assert float(rows[name][0]) == known[name].default
    assert rows["zones"][0] == f"`{known['zones'].default}`"
    for field in msgspec.structs.fields(_Fields):
        takes_list = {"traces": "is one"}.get(
            field.name, "yes" if "list" in str(field.type) else "no"
        )
        assert rows[field.name][1] == takes_list, field.name


def test_the_page_has_every_study() -> None:
    """Each study that comes with laissez is in the table of them, and no other."""
    section = PAGE.partition("## Measuring policies")[2].partition("The tables have")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(built_in())
