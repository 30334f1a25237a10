"""The tables of the inference workload against the data that they were taken from, and a replay."""

from __future__ import annotations

import csv
import gzip
import json
from functools import lru_cache
from math import isclose
from pathlib import Path
from statistics import median

import pytest

from laissez.performance.inference import (
    PRESETS,
    Hardware,
    InferenceService,
    InferenceSpec,
    Load,
    profile,
    profiled,
    trace_of_requests,
)
from laissez.performance.inference import forecast as forecasts
from laissez.performance.inference.capacity import node_rates
from laissez.performance.inference.objective import CREDIT_TIERS
from laissez.performance.inference.profile import (
    ITL_MEASURED_PER_ESTIMATED,
    TTFT_FIXED_MS,
    TTFT_MEASURED_PER_ESTIMATED,
)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
S = 1_000_000

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the data folder is not there")

Key = tuple[str, str, int]


@lru_cache(maxsize=4)
def rows(name: str) -> list[dict[str, str]]:
    """A file of AIConfigurator's estimates, as far as they are for vLLM."""
    with gzip.open(DATA / "aiconfigurator" / f"{name}.csv.gz", "rt") as lines:
        return [row for row in csv.DictReader(lines) if row["backend"] == "vllm"]


def key(row: dict[str, str]) -> Key:
    return row["model"], row["gpu"], int(row["tp"])


PROFILED: set[Key] = {(model, at.gpu, at.gpus) for model, at in profiled()}


def test_every_shape_that_fits_is_in_the_tables() -> None:
    """Of the three models, all nodes on which the weights and a sequence fit are profiled, and
    no others."""
    models = {model for model, _ in profiled()}
    assert models == {"Llama-3.1-8B", "Qwen3-32B", "Llama-3.1-70B"}
    fitting = {
        key(row)
        for row in rows("decode")
        if row["model"] in models
        and (row["batch_size"], row["context_length"], row["fits"]) == ("1", "256", "1")
    }
    assert fitting == PROFILED


def test_prefill_times_are_those_of_the_data() -> None:
    """At every prompt length, also between those of the table, a profile is within a fifth of
    the corrected estimate; at those of the table it is the estimate."""
    for row in rows("prefill"):
        if row["batch_size"] == "1" and key(row) in PROFILED:
            prompt_tokens, estimated_ms = int(row["isl"]), float(row["ttft_ms"])
            ours_ms = profile(*key(row)).prefill_ms(prompt_tokens) / TTFT_MEASURED_PER_ESTIMATED
            is_in_table = prompt_tokens in profile(*key(row)).prompts
            near = 0.001 if is_in_table else 0.2
            assert isclose(ours_ms, estimated_ms, rel_tol=near), row


def test_decode_times_are_those_of_the_data() -> None:
    """A step is never shorter than estimated by more than interpolation costs, and longer only
    where a dip was levelled; most are the estimate."""
    ratios = []
    for row in rows("decode"):
        if row["fits"] == "1" and key(row) in PROFILED:
            ours_ms = profile(*key(row)).itl_ms(int(row["batch_size"]), int(row["context_length"]))
            ratios.append(ours_ms / ITL_MEASURED_PER_ESTIMATED / float(row["itl_ms"]))
    ratios.sort()
    assert len(ratios) > 2_500
    assert ratios[0] > 0.87
    assert ratios[len(ratios) // 20] > 0.96
    assert ratios[-1] < 1.2
    assert isclose(median(ratios), 1.0, abs_tol=0.002)


def test_what_fits_in_memory_is_what_the_data_says() -> None:
    """A batch of a context length is within a profile's memory just where the data says it fits."""
    for row in rows("decode"):
        if key(row) in PROFILED:
            batch, context_tokens = int(row["batch_size"]), int(row["context_length"])
            fits = batch * context_tokens <= profile(*key(row)).kv_tokens
            assert fits == (row["fits"] == "1"), row


def test_corrections_bring_the_estimates_to_what_was_measured() -> None:
    """The one measured profile is in FP8 and ours in bfloat16, which halves the arithmetic of a
    long prompt; with the correction ours lies above it, by no more than that."""
    with (DATA / "dynamo" / "h200_llama31_8b_fp8_tp1_prefill.csv").open() as lines:
        measured = [(float(row["isl"]), float(row["ttft_ms"])) for row in csv.DictReader(lines)]
    ours = profile("Llama-3.1-8B", "h200_sxm")
    ratios = [ours.ttft_ms(prompt) / ms for prompt, ms in measured if prompt >= 1_000]
    assert min(ratios) > 1.0
    assert max(ratios) < 2.0
    assert measured[0][1] > TTFT_FIXED_MS


def test_a_node_with_both_roles_serves_what_mixed_engines_do() -> None:
    """Dividing a node's time between the phases gives the best rate estimated for engines that run
    both at once, times something between the corrections of the two phases, where the objective
    leaves such engines room for many sequences."""
    objective, many = PRESETS["mixture-of-experts"], 96
    best: dict[tuple[Key, float, float], tuple[float, int]] = {}
    for row in rows("agg"):
        ttft_ms = float(row["ttft_ms"]) * TTFT_MEASURED_PER_ESTIMATED + TTFT_FIXED_MS
        itl_ms = float(row["tpot_ms"]) * ITL_MEASURED_PER_ESTIMATED
        is_within = ttft_ms <= objective.ttft_ms and itl_ms <= objective.itl_ms
        if row["kv_fits"] == "1" and key(row) in PROFILED and is_within:
            shape = (key(row), float(row["isl"]), float(row["osl"]))
            per_s = float(row["requests_per_s_per_gpu"]) * int(row["tp"])
            best[shape] = max((per_s, int(row["batch_size"])), best.get(shape, (0.0, 0)))
    ratios = [
        node_rates(profile(*at), Load(1.0, prompt, output), objective).requests_per_s / per_s
        for (at, prompt, output), (per_s, batch) in best.items()
        if batch >= many
    ]
    assert len(ratios) > 50
    assert min(ratios) > 1 / TTFT_MEASURED_PER_ESTIMATED - 0.02
    assert max(ratios) < 1 / ITL_MEASURED_PER_ESTIMATED + 0.02


def test_presets_and_settings_are_those_of_the_data() -> None:
    """Objectives in the order of the documentation, the filter's defaults, and the tiers."""
    with (DATA / "dynamo" / "documented_slo_presets.csv").open() as lines:
        documented = [
            (float(row["ttft_ms"]), float(row["itl_ms"])) for row in csv.DictReader(lines)
        ]
    assert [(at.ttft_ms, at.itl_ms) for at in PRESETS.values()] == documented

    kalman = json.loads((DATA / "dynamo" / "planner_defaults.json").read_text())["kalman"]
    assert kalman == {
        "q_level": forecasts.LEVEL_VARIANCE,
        "q_trend": forecasts.TREND_VARIANCE,
        "r": forecasts.NOISE_VARIANCE,
        "min_points": forecasts.POINTS_MIN,
    }
    constants = json.loads((DATA / "constants" / "simulator_constants.json").read_text())
    tiers = constants["sla_service_credit"]["tiers"]
    assert sorted((at["attainment_below"], at["credit_fraction"]) for at in tiers) == list(
        CREDIT_TIERS
    )
    start_s = constants["reconfiguration_overhead_s"]["inference_node_start"]["value"]
    spec = InferenceSpec(model="m", kinds={"a": Hardware("b")}, objective=PRESETS["load-test"])
    assert spec.cold_start_s == start_s


def requests_of(name: str, from_s: int) -> list[tuple[int, float, float]]:
    with gzip.open(DATA / "azure_llm" / f"azure_llm_2023_{name}.csv.gz", "rt") as lines:
        return [
            (
                round((float(row["t_s"]) - from_s) * S),
                float(row["context_tokens"]),
                float(row["generated_tokens"]),
            )
            for row in csv.DictReader(lines)
        ]


def spec_for(expected: Load, **more: float) -> InferenceSpec:
    return InferenceSpec(
        model="Llama-3.1-8B",
        kinds={"h100": Hardware("h100_sxm")},
        objective=PRESETS["planner-default"],
        expected=expected,
        **more,  # type: ignore[arg-type]
    )


def play(service: InferenceService, times_s: range, nodes_max: int) -> float:
    """With an autoscaler that gets at once what it asks for, up to a number of nodes; the mean of
    what it holds."""
    started = held = 0
    for at_s in times_s:
        service.advance(at_s * S)
        for node in service.nodes:
            if service.is_redundant(node):
                service.lose(node, at_s * S)
        for _ in range(min(service.missing("h100"), nodes_max - len(service.nodes))):
            service.gain(f"h100/{started}", at_s * S)
            started += 1
        held += len(service.nodes)
    return held / len(times_s)


def replay(scale: float, from_s: int, nodes_max: int) -> InferenceService:
    """200 s of conversations, with a minute before to start the first nodes."""
    trace = trace_of_requests(requests_of("conv", from_s), 10 * S, 200 * S, scale)
    service = InferenceService(spec_for(Load(5.6 * scale, 1_237.0, 221.0)), trace)
    play(service, range(-60, 201), nodes_max)
    return service


@pytest.mark.parametrize("from_s", [200, 700, 1_200])
def test_a_window_of_real_requests_is_served(from_s: int) -> None:
    """With the nodes that it asks for, a service keeps its objective for nearly all requests; with
    three nodes, for as many as these can serve."""
    served = replay(20.0, from_s, nodes_max=100)
    assert served.is_done
    assert served.nodes == ()
    assert 15_000 < served.tally.requests < 30_000
    assert 0.95 < served.tally.attainment <= 1

    starved = replay(20.0, from_s, nodes_max=3)
    assert 0.35 < starved.tally.attainment < 0.5
    assert isclose(starved.tally.requests, served.tally.requests)


def test_lulls_of_a_real_trace_are_waited_out() -> None:
    """Code comes in bursts, with lulls of up to 160 s. By default a service keeps its nodes for as
    long, and most requests are within their objective; with two minutes fewer than half are."""
    trace = trace_of_requests(requests_of("code", 0), 10 * S, 1_750 * S, scale=10.0)
    expected = Load(30.0, 1_200.0, 200.0)
    usual, forgetful = spec_for(expected), spec_for(expected, keep_s=120.0)
    attained = []
    for spec in (usual, forgetful):
        service = InferenceService(spec, trace)
        assert 5 < play(service, range(0, 1_751, 10), nodes_max=100) < 10
        attained.append(service.tally.attainment)
    assert attained[0] > 0.8
    assert attained[1] < 0.5
