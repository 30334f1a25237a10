"""The inference workload: profiles, queues, forecast, roles, and the service made of them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from itertools import pairwise, product
from math import exp, factorial, inf, isclose, nan
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.performance.application import Application, BadApplication, Worth
from laissez.performance.inference import (
    PRESETS,
    Hardware,
    InferenceProblem,
    InferenceService,
    InferenceSpec,
    Load,
    LoadTrace,
    Objective,
    RequestTally,
    preset,
    profile,
    profiled,
    service_credit,
    trace_of_requests,
)
from laissez.performance.inference.capacity import NodeRates, Pool, node_rates
from laissez.performance.inference.delivery import Quality, quality
from laissez.performance.inference.forecast import Kalman, LoadForecast
from laissez.performance.inference.profile import DecodeCurve
from laissez.performance.inference.queueing import blocked_share, late_share, waits_share

S = 1_000_000
CHAT = Load(10.0, 1_024.0, 200.0)
ROOMY = Objective(500, 50)
KINDS = {"h100": Hardware("h100_sxm"), "a100": Hardware("a100_sxm"), "l40s": Hardware("l40s")}


def spec(expected: Load = CHAT, objective: Objective = ROOMY, **more: Any) -> InferenceSpec:
    return InferenceSpec(
        model="Llama-3.1-8B", kinds=KINDS, objective=objective, expected=expected, **more
    )


def service(nodes: dict[str, int], rate_per_s: float, **more: Any) -> InferenceService:
    """A service with warm nodes whose forecast is a rate of chats."""
    made = InferenceService(spec(Load(rate_per_s, 1_024.0, 200.0), **more))
    for kind, count in nodes.items():
        for number in range(count):
            made.gain(f"{kind}/east/{number}", 0)
    made.advance(60 * S)
    return made


# Profiles -------------------------------------------------------------------------------------


def test_a_first_token_takes_the_estimate_with_its_correction() -> None:
    """A prompt of 1024 tokens on an H100, estimated at 22.11 ms, takes 22.11 / 0.75 + 15."""
    h100 = profile("Llama-3.1-8B", "h100_sxm")
    assert isclose(h100.ttft_ms(1_024), 22.11 / 0.75 + 15)
    halfway = (22.11 + 43.51) / 2
    assert isclose(h100.ttft_ms(1_536), halfway / 0.75 + 15)
    assert isclose(h100.prefill_tokens_per_s(1_536, 500), 1_536 / (halfway / 0.75) * 1_000)


def test_a_prompt_that_can_not_meet_the_objective_has_no_prefill_rate() -> None:
    """The fixed part counts: 44.48 ms are too long for 44 ms, and in time for 45."""
    h100 = profile("Llama-3.1-8B", "h100_sxm")
    assert h100.prefill_tokens_per_s(1_024, 44) == 0
    assert h100.prefill_tokens_per_s(1_024, 45) > 0


def test_a_decode_step_is_interpolated_over_batch_and_context() -> None:
    """Batch 48 at context 2560 lies in the middle of four points of the table."""
    h100 = profile("Llama-3.1-8B", "h100_sxm")
    middle = (8.324 + 10.35 + 12.35 + 17.87) / 4
    assert isclose(h100.itl_ms(48, 2_560), middle / 0.87)
    assert isclose(h100.itl_ms(1, 1_024), 6.181 / 0.87)


def test_the_best_decode_rate_is_that_of_the_largest_batch_in_time() -> None:
    """At 1024 tokens of context 15 ms allow the batch between 128 and 192 where a step has it."""
    h100 = profile("Llama-3.1-8B", "h100_sxm")
    batch = 128 + 64 * (15 * 0.87 - 12.83) / (16.34 - 12.83)
    assert isclose(h100.decode_curve(1_024).largest_batch(15), batch)
    assert isclose(h100.decode_tokens_per_s(1_024, 15), batch / 15 * 1_000)
    assert h100.decode_tokens_per_s(1_024, 7) == 0


def test_memory_limits_the_batch() -> None:
    """504,000 tokens fit beside the weights: 123 sequences of 4096, however long they may take."""
    h100 = profile("Llama-3.1-8B", "h100_sxm")
    assert h100.decode_curve(4_096).largest_batch(1_000) == 504_000 / 4_096


def test_short_contexts_are_those_at_the_edge_of_the_table() -> None:
    """Below the first context a step takes no less time, and no batch is beyond the last one."""
    h100 = profile("Llama-3.1-8B", "h100_sxm")
    assert h100.itl_ms(64, 10) == h100.itl_ms(64, h100.contexts[0])
    assert h100.decode_curve(10).largest_batch(1_000) == h100.batches[-1]


@given(
    st.sampled_from(profiled()),
    st.floats(1, 256),
    st.floats(1, 256),
    st.floats(64, 20_000),
    st.floats(64, 20_000),
)
def test_profiles_are_monotone(
    known: tuple[str, Hardware], batch: float, other: float, context: float, longer: float
) -> None:
    """A longer prompt, a larger batch and a longer context never take less time."""
    at = profile(known[0], known[1].gpu, known[1].gpus)
    batch, other = sorted((batch, other))
    context, longer = sorted((context, longer))
    slack = 1 + 1e-9
    assert at.ttft_ms(context) <= at.ttft_ms(longer) * slack
    assert at.itl_ms(batch, context) <= at.itl_ms(other, context) * slack
    assert at.itl_ms(batch, context) <= at.itl_ms(batch, longer) * slack


@given(st.sampled_from(profiled()), st.floats(256, 8_000), st.floats(0.05, 0.999))
def test_the_concurrency_is_a_fixed_point(
    known: tuple[str, Hardware], context: float, busy: float
) -> None:
    """At the batch at which an engine settles, it makes as many tokens as are asked for."""
    curve = profile(known[0], known[1].gpu, known[1].gpus).decode_curve(context)
    most = max(batch / ms for batch, ms in zip(curve.batches, curve.steps_ms, strict=True))
    batch = curve.batch_at(busy * most * 1_000)
    assert isclose(batch / curve.step_ms(batch), busy * most, rel_tol=1e-9)
    assert all(
        batch <= point * (1 + 1e-9)
        for point, ms in zip(curve.batches, curve.steps_ms, strict=True)
        if point / ms >= busy * most
    )


def test_what_is_not_profiled_is_refused_with_what_is() -> None:
    """A model that does not fit says where it does; an unknown one, which are known."""
    with pytest.raises(InferenceProblem, match=r"not known to fit on 1 x h100_sxm; .*4 x h100_sxm"):
        profile("Llama-3.1-70B", "h100_sxm", 1)
    with pytest.raises(InferenceProblem, match=r"there is one of Llama-3\.1-8B, Qwen3-32B"):
        profile("GPT-2", "h100_sxm", 1)
    with pytest.raises(InferenceProblem, match="take one of planner-default"):
        preset("fast")
    assert preset("planner-default") == Objective(500, 50) == PRESETS["planner-default"]


def test_credits_come_in_two_steps() -> None:
    """At 99.9% nothing is given back, below it a tenth, below 99% a quarter."""
    given_back = {at: service_credit(at) for at in (1.0, 0.999, 0.9989, 0.99, 0.9899, 0.0)}
    assert list(given_back.values()) == [0, 0, 0.10, 0.10, 0.25, 0.25]


# Queues ---------------------------------------------------------------------------------------


def naive_erlang_b(places: int, offered: float) -> float:
    terms = [offered**k / factorial(k) for k in range(places + 1)]
    return terms[-1] / sum(terms)


def naive_erlang_c(servers: int, offered: float) -> float:
    queue = offered**servers / factorial(servers) * servers / (servers - offered)
    return queue / (sum(offered**k / factorial(k) for k in range(servers)) + queue)


@given(st.integers(1, 40), st.floats(0.05, 0.99))
def test_erlang_is_what_its_sums_say(servers: int, busy: float) -> None:
    """Both formulas of Erlang agree with a plain summation of their series."""
    offered = busy * servers
    blocked = naive_erlang_b(servers, offered)
    assert isclose(blocked_share(servers, offered), blocked, rel_tol=1e-6, abs_tol=2e-9)
    assert isclose(
        waits_share(servers, offered), naive_erlang_c(servers, offered), rel_tol=1e-6, abs_tol=1e-7
    )


@given(st.integers(1, 30), st.floats(0.1, 2.5), st.floats(0.0, 20.0))
def test_who_is_late_lies_between_erlang_b_and_c(servers: int, busy: float, wait_s: float) -> None:
    """Without patience the late are the blocked; with some they are fewer, but at least the
    excess, and no more than would wait for so long if nobody gave way."""
    capacity, arrivals = float(servers), busy * servers
    late = late_share(servers, capacity, arrivals, wait_s)
    assert isclose(late_share(servers, capacity, arrivals, 0.0), naive_erlang_b(servers, arrivals))
    assert late <= late_share(servers, capacity, arrivals, wait_s / 2) * (1 + 1e-9)
    assert late >= (1 - 1 / busy) * (1 - 1e-9)
    if busy < 1:
        patient = naive_erlang_c(servers, arrivals) * exp(-(capacity - arrivals) * wait_s)
        assert late <= patient * (1 + 1e-9)


def test_a_single_server_that_is_just_busy_loses_one_in_so_many() -> None:
    """With one server, as many arrivals as it serves, and patience for t of them: 1 / (2 + t)."""
    assert isclose(late_share(1, 4.0, 4.0, 2.0), 1 / (2 + 8))
    assert late_share(3, 0.0, 1.0, 1.0) == 1
    assert late_share(3, 1.0, 0.0, 1.0) == 0


@pytest.mark.parametrize(("servers", "arrivals_per_s"), [(1, 0.9), (3, 2.7), (3, 4.0)])
def test_the_late_are_those_of_a_simulated_queue(servers: int, arrivals_per_s: float) -> None:
    """A queue played request by request, where who can't start in time leaves, loses as many."""
    random, wait_s, count = Random(7), 1.5, 200_000
    free_at = [0.0] * servers
    now, late = 0.0, 0
    for _ in range(count):
        now += random.expovariate(arrivals_per_s)
        start = max(now, free_at[0])
        if start - now > wait_s:
            late += 1
            continue
        free_at.pop(0)
        insort(free_at, start + random.expovariate(1.0))
    predicted = late_share(servers, float(servers), arrivals_per_s, wait_s)
    assert isclose(late / count, predicted, abs_tol=0.006)


@given(st.floats(0.1, 200.0), st.lists(st.floats(0.0, 100.0), min_size=1, max_size=8))
def test_every_request_is_accounted_for(rate_per_s: float, rates: list[float]) -> None:
    """Requests are within their objective, late, dropped or waiting, whatever comes."""
    pool = h100_pool()
    tally = RequestTally()
    for number, rate in enumerate([rate_per_s, *rates]):
        load = Load(rate, 1_024.0, 200.0)
        tally.add(quality(pool, (number % 3,), load, ROOMY), rate, 10 * S, 30.0)
    parts = tally.within + tally.late + tally.dropped + tally.waiting
    assert isclose(parts, tally.requests, rel_tol=1e-9)
    assert min(tally.within, tally.late, tally.dropped, tally.waiting) >= 0
    assert 0 <= tally.attainment <= 1
    assert tally.elapsed_us == 10 * S * (1 + len(rates))


def test_patience_by_hand() -> None:
    """Of 2550 who wait, 300 can be served within the 30 s that they have left, and do not leave;
    it does not matter how time is cut. A pool that serves nobody keeps nobody."""
    for cuts in ([400], [10] * 40, [1, 29, 370]):
        tally = RequestTally()
        tally.add(Quality(0.15, 20.0, 1, 1, 1), 100.0, 60 * S, 30.0)
        assert (tally.within, tally.late, tally.waiting) == (900, 300, 30 * 85)
        for span_s in cuts:
            tally.add(Quality(1.0, 15.0, 1, 1, 1), 5.0, span_s * S, 30.0)
        assert (tally.late, tally.waiting) == (300 + 300, 0)
        assert tally.dropped == 6_000 - 900 - 600
    tally.add(Quality(0.0, 0.0, 1, 1, 1), 1.0, 60 * S, 30.0)
    assert tally.waiting == 30


def test_a_backlog_is_served_when_it_is_quiet() -> None:
    """After the end of its trace the nodes are still there, and those who wait are not dropped."""
    trace = LoadTrace(((0, 40.0, 1_024.0, 200.0),), end_us=100 * S)
    made = InferenceService(spec(), trace)
    made.gain("h100/g0", 0)
    made.advance(100 * S)
    waiting, late = made.tally.waiting, made.tally.late
    assert waiting > 0 and made.is_done
    made.advance(101 * S)
    served_per_s = h100_pool().capacity_per_s((1,))
    assert isclose(made.tally.late - late, served_per_s, rel_tol=0.01)
    assert made.tally.waiting > 0


def h100_pool() -> Pool:
    return Pool([node_rates(profile("Llama-3.1-8B", "h100_sxm"), CHAT, ROOMY)])


def test_more_nodes_never_serve_worse() -> None:
    """With one kind the share within the objective rises with nodes, from nothing to all but all,
    and in overload it is about what fits."""
    load = Load(60.0, 1_024.0, 200.0)
    shares = [quality(h100_pool(), (n,), load, ROOMY).within_share for n in range(12)]
    assert shares[0] == 0
    assert all(more >= fewer - 1e-8 for fewer, more in pairwise(shares))
    assert shares[-1] > 0.999
    capacity = h100_pool().capacity_per_s((1,))
    assert 0.85 * capacity < 60.0 * shares[1] <= capacity


def test_latency_grows_with_load() -> None:
    """Busier nodes wait longer before the first token and between tokens, within the objective."""
    calm, busy = (quality(h100_pool(), (4,), Load(r, 1_024, 200), ROOMY) for r in (5.0, 60.0))
    unhindered_ms = profile("Llama-3.1-8B", "h100_sxm").ttft_ms(1_024)
    assert unhindered_ms <= calm.ttft_ms < busy.ttft_ms <= ROOMY.ttft_ms
    assert calm.itl_ms < busy.itl_ms <= ROOMY.itl_ms
    assert isclose(calm.concurrency, 5.0 * 200 * calm.itl_ms / 1_000)


def test_quality_by_hand() -> None:
    """Five nodes of 6 prefills or 4 decodes: two prefill, three decode with ten places each, and
    either phase serves 12 requests per second; the second sees who was not late in the first."""
    curve = DecodeCurve((1, 10), (10.0, 10.0), 10.0)  # a step takes 10 ms, whatever the batch
    pool = Pool([NodeRates(6.0, 4.0, 100.0, 10.0, curve)])
    got = quality(pool, (5,), Load(9.0, 500.0, 250.0), Objective(400, 10))
    late = late_share(2, 12.0, 9.0, 0.3)
    in_decode = 9.0 * (1 - late) * 250 * 0.010
    assert pool.roles((5,)).prefilling == (2,)
    assert isclose(got.capacity_per_s, 12)
    assert isclose(got.concurrency, in_decode)
    assert isclose(got.within_share, (1 - late) * (1 - naive_erlang_b(30, in_decode)), rel_tol=1e-6)
    assert isclose(got.itl_ms, 10)
    assert isclose(got.ttft_ms, 100 + 1_000 * naive_erlang_c(2, 1.5) / (12 - 9))


# Forecast -------------------------------------------------------------------------------------


def test_a_ramp_is_followed() -> None:
    """After fifty steps of a ramp of 2 per interval, the next step is foreseen."""
    kalman = Kalman()
    for number in range(50):
        kalman.observe(10.0 + 2 * number)
    assert isclose(kalman.next(), 110.0, rel_tol=0.01)
    assert isclose(kalman.trend, 2.0, rel_tol=0.05)


def test_the_first_points_are_taken_as_they_are() -> None:
    """Until there are five observations the last one is the forecast."""
    kalman = Kalman()
    for value in (3.0, 9.0, 4.0, 8.0):
        kalman.observe(value)
        assert kalman.next() == value
    kalman.observe(5.0)
    assert kalman.next() != 5.0


def test_two_steps_of_the_filter_by_hand() -> None:
    """The second observation moves level and trend by the gains of the textbook's equations."""
    kalman = Kalman()
    kalman.observe(10.0)
    kalman.observe(20.0)
    # Predicted covariance [[10+10+1, 10], [10, 10.1]]; the noise is 10.
    assert isclose(kalman.level, 10 + 21 / 31 * 10)
    assert isclose(kalman.trend, 10 / 31 * 10)
    assert isclose(kalman.level_variance, 21 * 10 / 31)
    assert isclose(kalman.covariance, 10 * 10 / 31)
    assert isclose(kalman.trend_variance, 10.1 - 100 / 31)


def test_a_short_observation_counts_for_less() -> None:
    """Half an interval has twice the noise, and half the drift before it."""
    kalman = Kalman()
    kalman.observe(10.0)
    kalman.observe(20.0, intervals=0.5)
    # Predicted covariance [[10 + 10/4 + 1/2, 5], [5, 10.05]]; the noise is 20.
    assert isclose(kalman.level, 10 + 13 / 33 * 10)
    assert isclose(kalman.trend, 5 / 33 * 10)
    assert isclose(kalman.trend_variance, 10.05 - 25 / 33)
    before = kalman.next()
    kalman.observe(1_000.0, intervals=0)
    assert kalman.next() == before


@given(
    st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 3)), min_size=1, max_size=30),
    st.booleans(),
)
def test_no_forecast_is_negative(seen: list[tuple[float, float]], is_constant: bool) -> None:
    """Whatever was seen, for however long, a load is forecast that can be."""
    forecast = LoadForecast(is_constant=is_constant)
    for rate, intervals in seen:
        forecast.observe(Load(rate, 1 + rate, 1 + rate / 2), intervals)
        ahead = forecast.next(CHAT)
        assert ahead.requests_per_s >= 0
        if is_constant and intervals:
            assert ahead.requests_per_s == rate


@given(
    st.lists(st.floats(0, 100), min_size=2, max_size=12),
    st.lists(st.floats(0, 100), min_size=12, max_size=12),
    st.integers(1, 11),
)
def test_a_forecast_sees_only_the_past(
    past: list[float], other: list[float], now_steps: int
) -> None:
    """Two traces that are the same until now give the same service until now."""
    cut = min(now_steps, len(past) - 1)
    steps = [(number * 20 * S, rate, 500.0, 100.0) for number, rate in enumerate(past)]
    changed = steps[:cut] + [
        (number * 20 * S, rate, 900.0, 50.0) for number, rate in enumerate(other[cut:], start=cut)
    ]
    twins = [InferenceService(spec(), LoadTrace(tuple(trace))) for trace in (steps, changed)]
    for twin in twins:
        twin.gain("h100/a", 0)
        twin.advance(cut * 20 * S - 1)
    assert twins[0].state() == twins[1].state()
    assert twins[0].forecast == twins[1].forecast


def test_a_trace_is_shown_interval_by_interval() -> None:
    """In an interval of 15 s nothing is known of it; when it is over, its mean is."""
    trace = LoadTrace(((0, 6.0, 400.0, 100.0), (10 * S, 12.0, 1_000.0, 100.0)))
    playing = InferenceService(spec(Load(1.0, 300.0, 50.0)), trace)
    playing.advance(15 * S - 1)
    assert playing.forecast == Load(1.0, 300.0, 50.0)
    playing.advance(15 * S)
    seen = playing.forecast  # of 60 requests of 400 tokens and 60 of 1000
    assert isclose(seen.requests_per_s, 8)
    assert isclose(seen.prompt_tokens, 700)
    assert isclose(seen.output_tokens, 100)


# Roles ----------------------------------------------------------------------------------------


def rates(prefill: float, decode: float) -> NodeRates:
    return NodeRates(prefill, decode, 50.0, 10.0, DecodeCurve((1, 10), (10.0, 20.0), 10.0))


rate_pairs = st.lists(
    st.tuples(
        st.one_of(st.just(0.0), st.floats(0.5, 50)), st.one_of(st.just(0.0), st.floats(0.5, 50))
    ),
    min_size=1,
    max_size=3,
)
few_nodes = st.lists(st.integers(0, 3), min_size=3, max_size=3)


def best_by_trying(kinds: list[tuple[float, float]], counts: list[int], parts: int) -> float:
    """Every node in either role, or one of them in `parts` mixtures of both."""
    nodes = [kinds[at] for at, count in enumerate(counts) for _ in range(count)]
    best = 0.0
    for roles in product((0.0, 1.0), repeat=len(nodes)):
        for mixed in range(max(1, len(nodes))):
            for part in range(parts + 1):
                shares = list(roles)
                if nodes:
                    shares[mixed] = part / parts
                prefills = sum(s * a for s, (a, _) in zip(shares, nodes, strict=True))
                decodes = sum((1 - s) * b for s, (_, b) in zip(shares, nodes, strict=True))
                best = max(best, min(prefills, decodes))
    return best


@given(rate_pairs, st.lists(st.integers(0, 2), min_size=3, max_size=3))
def test_roles_are_the_best_there_are(kinds: list[tuple[float, float]], counts: list[int]) -> None:
    """No split found by trying them all serves more, and a fine enough one serves nearly as much:
    at most one node has two roles."""
    counts = counts[: len(kinds)]
    if sum(counts) > 4:
        counts = [min(count, 1) for count in counts]
    pool = Pool([rates(*kind) for kind in kinds])
    tried = best_by_trying(kinds, counts, 20)
    served = pool.capacity_per_s(tuple(counts))
    step = max(a + b for a, b in kinds) / 20
    assert tried <= served + 1e-9
    assert served <= tried + step
    prefilling = pool.roles(counts).prefilling
    assert all(0 <= p <= n for p, n in zip(prefilling, counts, strict=True))
    assert sum(p % 1 > 1e-9 and p % 1 < 1 - 1e-9 for p in prefilling) <= 1


@given(rate_pairs, few_nodes, st.integers(0, 2))
def test_capacity_is_monotone_and_concave_in_a_kind(
    kinds: list[tuple[float, float]], counts: list[int], kind: int
) -> None:
    """One more node of a kind never takes anything away, nor adds more than the one before."""
    pool = Pool([rates(*at) for at in kinds])
    kind %= len(kinds)
    steps = []
    for more in range(5):
        nodes = counts[: len(kinds)]
        nodes[kind] += more
        steps.append(pool.capacity_per_s(tuple(nodes)))
    added = [after - before for before, after in pairwise(steps)]
    assert all(add >= -1e-9 for add in added)
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(added))


def test_one_node_serves_both_phases() -> None:
    """Six prefills or three decodes per second are two requests; a second node doubles that, and
    without nodes there is nothing."""
    pool = Pool([rates(6.0, 3.0)])
    assert [pool.capacity_per_s((count,)) for count in range(3)] == [0, 2, 4]
    assert pool.roles((3,)).prefilling == (1,)


def test_each_kind_does_what_it_is_comparatively_good_at() -> None:
    """Of two kinds the one with more prefills per decode prefills, though both are slower at it."""
    pool = Pool([rates(2.0, 8.0), rates(4.0, 5.0)])
    assert pool.roles((1, 2)).prefilling == (0.0, 2.0)
    assert pool.capacity_per_s((1, 2)) == 8


@given(rate_pairs, few_nodes, st.integers(0, 2), st.floats(0, 200))
def test_missing_is_the_smallest_number_that_does(
    kinds: list[tuple[float, float]], counts: list[int], kind: int, needed: float
) -> None:
    """With the missing nodes there is enough, or all that this kind can give; with one less not."""
    pool = Pool([rates(*at) for at in kinds])
    kind %= len(kinds)

    def capacity(more: int) -> float:
        nodes = counts[: len(kinds)]
        nodes[kind] += more
        return pool.capacity_per_s(tuple(nodes))

    missing = pool.missing(tuple(counts[: len(kinds)]), kind, needed)
    enough = min(needed, capacity(10_000)) * (1 - 1e-9)
    assert capacity(missing) >= enough
    assert missing == 0 or capacity(missing - 1) < enough


# The service ----------------------------------------------------------------------------------

few = st.fixed_dictionaries({kind: st.integers(0, 4) for kind in KINDS})


def test_the_service_is_an_application() -> None:
    """It has the whole interface, kinds best first, and nothing to lose but its nodes."""
    made: Application = service({"a100": 1}, 10.0)
    assert made.kinds == ("h100", "a100", "l40s")
    assert made.nodes == ("a100/east/0",)
    assert made.since_checkpoint_s("a100/east/0") == 0
    assert made.till_checkpoint_s("a100/east/0") is None
    assert not made.is_done


def test_worth_by_hand() -> None:
    """At 80% utilisation an H100 is worth 0.8 a b / (a + b) requests per second, up to the rate."""
    h100 = profile("Llama-3.1-8B", "h100_sxm")
    prefills = 1_000 / (22.11 / 0.75)
    decodes = h100.decode_tokens_per_s(1_024 + 100, 50) / 200
    alone = 0.8 * prefills * decodes / (prefills + decodes)
    made = service({}, 1.5 * alone)
    assert made.utility_gap() == 1.5 * alone
    assert made.missing("h100") == 2
    first = made.worth_of_gaining("h100")
    assert isclose(first.now, alone)
    assert first.full == first.now
    assert isclose(made.worth_of_gaining("h100/east", ["h100"]).now, 0.5 * alone)
    assert made.worth_of_gaining("h100", ["h100", "h100"]) == Worth(0, 0)
    assert made.worth_of_gaining("tpu") == Worth(0, 0)
    made.gain("h100/g0", 60 * S)
    made.gain("h100/g1", 60 * S)
    assert made.utility_gap() == 0
    assert isclose(made.worth_of_losing("h100/g0").now, 0.5 * alone)
    assert isclose(made.worth_of_losing("h100/g0", ["h100/g1"]).now, alone)
    assert made.worth_of_losing("h100/g0", ["h100/g0"]) == Worth(0, 0)


def told(made: InferenceService, *rates: float) -> InferenceService:
    """A rate measured every 15 s, the last one now; the forecast is the last one."""
    for number, rate in enumerate(rates):
        made.measure({"requests_per_s": rate}, (60 + 15 * (number + 1)) * S)
    return made


def test_under_a_steady_load_all_that_a_node_serves_is_needed() -> None:
    """Worth now is worth in full, for every node of a staircase, once it is all that was seen."""
    made = told(service({"h100": 3}, 0.0, predictor="constant"), *([40.0] * 30))
    nodes = made.nodes
    gone: list[str] = []
    for node in nodes:
        worth = made.worth_of_losing(node, gone)
        assert isclose(worth.now, worth.full)
        gone.append(node)
    assert made.worth_of_losing(nodes[0], nodes[1:]).now > 0


def test_a_node_that_only_the_highest_rate_needs_is_worth_less() -> None:
    """An H100 serves a rate a. If a and 2 a alternate, the first node is busy always and the second
    every other time. It is worth a/2, whichever of the two is forecast. In full it is a."""
    alone = service({}, 1_000.0).worth_of_gaining("h100").now
    for last in (2, 1):
        other = 3 - last
        made = service({"h100": 2}, 0.0, predictor="constant", keep_s=60)
        told(made, *(rate * alone for rate in (other, last) * 6))
        second = made.worth_of_losing(made.nodes[0])
        first = made.worth_of_losing(made.nodes[0], made.nodes[1:])
        assert tuple(second) == pytest.approx((alone / 2, alone))
        assert tuple(first) == pytest.approx((alone, alone))
        assert made.worth_of_gaining("h100") == Worth(0, 0)


def test_what_stands_still_with_a_node_is_what_it_serves() -> None:
    """At stake is what is lost with it and no other, for others go on; no end is in sight."""
    made = service({"h100": 2, "l40s": 1}, 40.0)
    for node in made.nodes:
        assert made.at_stake(node) == made.worth_of_losing(node).now
        assert made.ends_in_s(node) is None
    assert made.at_stake(made.nodes[0]) > 0
    assert made.at_stake("h100/west/9") == 0
    assert made.ends_in_s("h100") is None


@given(few, st.floats(0, 300), st.sampled_from(sorted(KINDS)))
def test_goodput_is_monotone_in_nodes(nodes: dict[str, int], rate: float, kind: str) -> None:
    """A node more is never worth less than nothing, and goodput is between none and the rate."""
    made = service(nodes, rate)
    before = made.goodput_per_s()
    worth = made.worth_of_gaining(kind)
    made.gain(f"{kind}/new", 60 * S)
    assert 0 <= before <= made.goodput_per_s() + 1e-9 <= rate + 2e-9
    assert isclose(made.goodput_per_s() - before, worth.now, abs_tol=1e-9)
    assert isclose(made.utility_gap(), rate - made.goodput_per_s(), abs_tol=1e-9)


@given(few, st.floats(0, 300), st.sampled_from(sorted(KINDS)))
def test_a_node_gained_and_lost_leaves_no_trace(
    nodes: dict[str, int], rate: float, kind: str
) -> None:
    """Gaining a node and losing it at the same instant restores everything, and questions
    asked in between change nothing."""
    made = service(nodes, rate)
    before = made.state()
    answers = ask_everything(made)
    assert made.state() == before
    made.gain(f"{kind}/new", 60 * S)
    ask_everything(made)
    made.lose(f"{kind}/new", 60 * S)
    assert made.state() == before
    assert ask_everything(made) == answers
    made.lose("h100/never/had", 60 * S)
    assert made.state() == before


def ask_everything(made: InferenceService) -> list[object]:
    return [
        (made.utility_gap(), made.is_done, made.quality(), made.forecast),
        [(made.missing(kind), made.worth_of_gaining(kind, [kind])) for kind in made.kinds],
        [
            (made.worth_of_losing(node, made.nodes[:1]), made.is_redundant(node))
            for node in made.nodes
        ],
        [made.cold_start_s(node) for node in (*made.nodes, "h100")],
    ]


@given(st.sampled_from(sorted(KINDS)), st.integers(1, 8), st.floats(0, 200))
def test_losing_more_hurts_more(kind: str, count: int, rate: float) -> None:
    """For one kind, the worth of a node does not fall with others gone, and all together are
    worth the goodput."""
    made = service({kind: count}, rate)
    stairs = [
        made.worth_of_losing(node, made.nodes[:number]).now
        for number, node in enumerate(made.nodes)
    ]
    assert all(b >= a - 1e-9 for a, b in pairwise(stairs))
    assert isclose(sum(stairs), made.goodput_per_s(), abs_tol=1e-6)


@given(few, st.floats(0, 300))
def test_what_is_redundant_can_go_at_once(nodes: dict[str, int], rate: float) -> None:
    """Without all that it calls redundant it serves as much, calls nothing more redundant, and
    asks for nothing back."""
    made = service(nodes, rate)
    goodput, missing = made.goodput_per_s(), [made.missing(kind) for kind in made.kinds]
    for node in [node for node in made.nodes if made.is_redundant(node)]:
        made.lose(node, 60 * S)
    assert made.goodput_per_s() >= goodput * (1 - 1e-6)
    assert [made.missing(kind) for kind in made.kinds] == missing
    assert not any(made.is_redundant(node) for node in made.nodes)
    if rate == 0:
        assert made.nodes == ()


def test_the_margin_keeps_a_node() -> None:
    """What is just enough is kept; only with a tenth to spare does a node go, the slowest first
    and the youngest of equals."""
    alone = service({"h100": 1}, 1_000.0).goodput_per_s()
    kept = service({"h100": 3}, 1.95 * alone)
    assert not any(map(kept.is_redundant, kept.nodes))
    spare = service({"h100": 3}, 1.8 * alone)
    assert [spare.is_redundant(node) for node in spare.nodes] == [False, False, True]
    slow = service({"a100": 1, "h100": 2}, 1.8 * alone)
    assert [slow.is_redundant(node) for node in slow.nodes] == [True, False, False]


def test_a_cold_node_goes_first_and_is_not_relied_on() -> None:
    """A cold node too many goes; but a warm one is kept until others that suffice are warm."""
    alone = service({"h100": 1}, 1_000.0).goodput_per_s()
    made = service({"a100": 1}, 0.9 * alone)
    made.gain("h100/new", 60 * S)
    assert [made.is_redundant(node) for node in made.nodes] == [False, False]
    made.advance(120 * S)
    assert [made.is_redundant(node) for node in made.nodes] == [True, False]

    made = service({"h100": 1}, 0.9 * alone)
    made.gain("h100/new", 60 * S)
    assert [made.is_redundant(node) for node in made.nodes] == [False, True]


def test_the_coldest_goes_first() -> None:
    """Of two cold nodes of which one is enough, the one that is warm later goes, though faster."""
    made = service({}, 1.0)
    made.gain("a100/sooner", 60 * S)
    made.gain("h100/later", 100 * S)
    assert [made.is_redundant(node) for node in made.nodes] == [False, True]


def test_a_node_of_no_use_is_redundant_even_in_need() -> None:
    """An L40S can't decode in 20 ms; with too few others to decode, the second one does nothing."""
    made = InferenceService(spec(Load(100.0, 1_237.0, 221.0), PRESETS["profiler-overview"]))
    assert made.missing("l40s") == 0
    made.gain("a100/0", 0)
    useful = made.missing("l40s")
    assert useful >= 1
    for number in range(useful + 1):
        made.gain(f"l40s/{number}", 0)
    made.advance(60 * S)
    assert [made.is_redundant(node) for node in made.nodes].count(True) == 1
    assert made.utility_gap() > 0


def test_a_node_works_after_its_cold_start() -> None:
    """In the first minute all requests are missed, and in the second nearly none."""
    trace = LoadTrace(((0, 5.0, 1_024.0, 200.0),), end_us=120 * S)
    made = InferenceService(spec(), trace)
    made.gain("h100/g0", 0)
    assert made.cold_start_s("h100/g0") == made.cold_start_s("h100/east") == 60
    made.advance(45 * S)
    assert made.cold_start_s("h100/g0") == 15
    assert made.tally.within == 0
    made.advance(120 * S)
    assert isclose(made.tally.requests, 600)
    assert 299 < made.tally.within <= 300
    assert made.is_done
    assert made.is_redundant("h100/g0")
    assert made.missing("h100") == 0


@given(
    st.lists(st.floats(0, 60), min_size=1, max_size=8),
    st.lists(st.integers(1, 160), max_size=6),
    few,
)
def test_it_does_not_matter_how_time_is_cut(
    loads: list[float], pauses: list[int], nodes: dict[str, int]
) -> None:
    """Time let pass in one go or in pieces gives the same requests, up to rounding, and the same
    forecast; a service that resumed from a state half-way goes on like the first."""
    trace = LoadTrace(tuple((at * 20 * S, rate, 700.0, 90.0) for at, rate in enumerate(loads)))

    def fresh() -> InferenceService:
        made = InferenceService(spec(), trace)
        for kind, count in nodes.items():
            for number in range(count):
                made.gain(f"{kind}/{number}", 0)
        return made

    at_once, in_pieces = fresh(), fresh()
    at_once.advance(160 * S)
    for pause in sorted(pauses):
        in_pieces.advance(pause * S)
        successor = InferenceService(spec(), trace)
        successor.resume(in_pieces.state())
        assert successor.state() == in_pieces.state()
        assert ask_everything(successor) == ask_everything(in_pieces)
        in_pieces = successor
    in_pieces.advance(160 * S)
    assert isclose(in_pieces.tally.requests, at_once.tally.requests, rel_tol=1e-9, abs_tol=1e-9)
    for fate in ("within", "late", "dropped", "waiting"):
        cut, whole = getattr(in_pieces.tally, fate), getattr(at_once.tally, fate)
        assert isclose(cut, whole, rel_tol=1e-9, abs_tol=1e-6), fate
    assert isclose(
        in_pieces.forecast.requests_per_s,
        at_once.forecast.requests_per_s,
        rel_tol=1e-9,
        abs_tol=1e-9,
    )


def test_a_measured_service_follows_its_readings() -> None:
    """Readings at any instant of a clock that did not start with the service make the forecast;
    lengths that are not given stay as they were."""
    start_us = 1_700_000_000 * S
    made = InferenceService(spec(Load(0.0, 1_000.0, 200.0)))
    made.gain("h100/g0", start_us)
    for number in range(20):
        readings = {"requests_per_s": 3.0, "prompt_tokens": 2_000.0}
        made.measure(readings, start_us + number * 15 * S)
    assert made.forecast == Load(3.0, 2_000.0, 200.0)
    assert made.tally.elapsed_us == 19 * 15 * S
    assert isclose(made.tally.requests, 3.0 * 19 * 15)
    assert made.missing("h100") == 0


def test_a_reading_counts_by_its_time() -> None:
    """A reading after half an interval moves the forecast by less, as the filter says."""
    made = InferenceService(spec(Load(0.0, 1_000.0, 200.0), interval_s=10))
    filtered = Kalman()
    for number, rate in enumerate((3.0, 9.0, 4.0, 8.0, 20.0, 5.0)):
        made.measure({"requests_per_s": rate}, number * 5 * S)
        filtered.observe(rate, 1.0 if number == 0 else 0.5)
    assert made.forecast.requests_per_s == filtered.next()


def test_a_reading_need_not_tell_everything() -> None:
    """Lengths without a rate change the lengths alone, and the next rate is still that of all the
    time since the last one; lengths of no request say nothing, nor does what is not known."""
    made, told_once = (InferenceService(spec(Load(2.0, 1_000.0, 200.0))) for _ in range(2))
    made.measure({"prompt_tokens": 3_000.0}, 0)
    made.advance(15 * S)
    assert made.forecast == Load(2.0, 3_000.0, 200.0)
    assert made.tally.requests == 0
    for each in (made, told_once):
        each.measure({"requests_per_s": 10.0, "prompt_tokens": 0.0, "output_tokens": 0.0}, 15 * S)
    assert made.forecast.requests_per_s == 10
    before = made.forecast
    made.measure({"rps": 1.0}, 20 * S)
    assert made.forecast == before
    made.measure({"output_tokens": 900.0}, 30 * S)
    made.advance(40 * S)
    assert isclose(made.tally.requests, 10.0 * 25)
    for number, rate in enumerate((30.0, 5.0, 40.0, 2.0, 9.0, 60.0)):
        for each in (made, told_once):
            each.measure({"requests_per_s": rate}, (60 + 20 * number) * S)
        made.measure({"output_tokens": 900.0}, (70 + 20 * number) * S)
        assert made.forecast.requests_per_s == told_once.forecast.requests_per_s
    assert made.forecast.output_tokens > 200 == told_once.forecast.output_tokens


@pytest.mark.parametrize(
    "readings",
    [
        {"requests_per_s": inf},
        {"requests_per_s": nan},
        {"requests_per_s": -1.0},
        {"requests_per_s": 1.0, "prompt_tokens": -1.0},
        {"output_tokens": inf},
    ],
)
def test_a_reading_that_can_not_be_is_refused_and_leaves_no_trace(
    readings: dict[str, float],
) -> None:
    """It is a BadApplication, and no time has passed either."""
    made = service({"h100": 1}, 5.0)
    before = made.state()
    with pytest.raises(BadApplication):
        made.measure(readings, 90 * S)
    assert made.state() == before


def test_what_is_told_late_happens_now() -> None:
    """A node gained in the past is cold from now on, and one of another kind is none of its own."""
    made = service({}, 5.0)
    made.gain("h100/late", 10 * S)
    assert made.cold_start_s("h100/late") == 60
    made.gain("tpu/0", 60 * S)
    made.measure({"requests_per_s": 4.0}, 30 * S)
    made.lose("h100/late", 0)
    assert made.nodes == ()
    made.advance(100 * S)
    assert made.tally.elapsed_us == 40 * S
    late, punctual = (service({}, 5.0) for _ in range(2))
    for number, rate in enumerate((3.0, 9.0, 4.0, 8.0, 20.0, 5.0)):
        at_us = (100 + 10 * number) * S
        for each, told_us in ((late, at_us - 7 * number * S), (punctual, at_us)):
            each.advance(at_us)
            each.measure({"requests_per_s": rate}, told_us)
    assert late.forecast == punctual.forecast


def test_a_state_of_something_else_is_refused() -> None:
    """Whatever is no state of such a service is a BadApplication, and it stays as it was."""
    other = InferenceService(
        InferenceSpec(model="Llama-3.1-8B", kinds={"b200": KINDS["h100"]}, objective=ROOMY)
    )
    other.gain("b200/0", 0)
    made = service({"h100": 1}, 5.0)
    before = made.state()
    foreign = before.replace(b"{", b'{"loaves":3,', 1)
    for state in (b"", b"{}", b"[]", b"\xff", b'{"nodes":["h100/a"]}', foreign, other.state()):
        with pytest.raises(BadApplication):
            made.resume(state)
        assert made.state() == before


def test_a_lull_is_waited_out() -> None:
    """For two minutes after a peak the service stays prepared for it, and no longer; a smaller one
    before it is forgotten."""
    made = InferenceService(spec(Load(0.0, 1_024.0, 200.0), keep_s=120))
    made.measure({"requests_per_s": 20.0}, -15 * S)
    made.measure({"requests_per_s": 60.0}, 0)
    needed = made.missing("h100")
    assert needed > 3
    for at_s in range(15, 120, 15):
        made.measure({"requests_per_s": 0.0}, at_s * S)
        assert made.missing("h100") == needed
    for at_s in range(120, 300, 15):
        made.measure({"requests_per_s": 0.0}, at_s * S)
    assert made.missing("h100") == 0


def test_mistakes_are_named() -> None:
    """What a user can get wrong is refused with a sentence about it."""
    trace = LoadTrace(((0, 1.0, 10.0, 10.0),))
    mistakes: dict[str, Callable[[], object]] = {
        "not both": lambda: InferenceService(spec(), trace).measure({"requests_per_s": 1.0}, 0),
        "utilisation is 2": lambda: spec(utilisation=2),
        "margin is 0.5": lambda: spec(margin=0.5),
        "interval_s is 0": lambda: spec(interval_s=0),
        "cold_start_s is -1; it can't be below 0": lambda: spec(cold_start_s=-1),
        "keep_s is inf": lambda: spec(keep_s=inf),
        "patience_s is nan": lambda: spec(patience_s=nan),
        "at least one kind": lambda: InferenceSpec(model="m", kinds={}, objective=ROOMY),
        "above 0": lambda: Objective(0, 10),
        "at least one step": lambda: LoadTrace(()),
        "one after the other": lambda: LoadTrace(((5, 1, 1, 1), (5, 1, 1, 1))),
        "at least 1 prompt token": lambda: Load(1, 0, 1),
        "requests_per_s is -1": lambda: Load(-1, 1, 1),
        "requests_per_s is inf": lambda: Load(inf, 1, 1),
        "and 1 output token": lambda: Load(1, 1, nan),
    }
    for sentence, mistake in mistakes.items():
        with pytest.raises(InferenceProblem, match=sentence):
            mistake()


def test_requests_become_a_trace() -> None:
    """Requests are counted step by step; an empty step keeps the lengths; a rate is scaled."""
    requests = [(0, 100.0, 10.0), (4 * S, 300.0, 30.0), (11 * S, 50.0, 5.0), (12 * S, 1.0, 1.0)]
    trace = trace_of_requests(requests, 5 * S, 12 * S, scale=10.0)
    assert trace == LoadTrace(
        ((0, 4.0, 200.0, 20.0), (5 * S, 0.0, 200.0, 20.0), (10 * S, 5.0, 50.0, 5.0)), 12 * S
    )
