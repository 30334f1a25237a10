"""The tables of the training model agree with the data, and the model with measured iterations."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from laissez.performance.training.gpus import A100_40, A100_80, H100, Distance, Gpu
from laissez.performance.training.iteration import (
    COPIES_OF_PARAMETERS,
    RUNTIME_BYTES,
    layers,
    shape_of,
)
from laissez.performance.training.options import Option, candidate_of
from laissez.performance.training.profiles import MODELS, TIMES, LayerBytes, LayerTimes, ModelBytes
from laissez.performance.training.search import Choice, time_of

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
MICRO_BATCH_MAX = 32
# GH200 nodes of 4 GPUs with the links that were measured between them, over the node's 4 GPUs.
GH200 = Gpu("GH200", "GH-96", 102_625_181_696, 250.6e9, 92.55e9 / 4, 92.55e9 / 4)


def rows(name: str) -> list[dict[str, str]]:
    path = DATA / "sailor" / name
    if not path.exists():
        pytest.skip(f"needs the data folder: {name} is not there")
    with path.open() as file:
        return list(csv.DictReader(file))


def measured() -> list[dict[str, str]]:
    return [
        row
        for row in rows("measured_iterations.csv")
        if row["site"] == "clariden" and row["suspect"] == "0"
    ]


def profile(model: str, gpu: str, tensor_parallel: int, micro_batch: int) -> LayerTimes:
    return next(row for row in TIMES[model][gpu] if row[:2] == (tensor_parallel, micro_batch))


def microseconds(of_layers: list[dict[str, str]], column: str) -> int:
    """The mean over all layers of these rows."""
    counts = [int(row["layer_last"]) - int(row["layer_first"]) + 1 for row in of_layers]
    total = sum(count * float(row[column]) for count, row in zip(counts, of_layers, strict=True))
    return round(total / sum(counts) * 1e6)


def test_times_are_those_of_the_profiles() -> None:
    """Every profiled combination up to the largest micro-batch is there, with its own times."""
    by_key: dict[tuple[str, str, int, int], list[dict[str, str]]] = {}
    for row in rows("layer_times.csv"):
        key = (row["model"], row["gpu"], int(row["tp"]), int(row["micro_batch"]))
        if row["gpu"] in TIMES.get(row["model"], {}) and key[3] <= MICRO_BATCH_MAX:
            by_key.setdefault(key, []).append(row)
    expected = {}
    for key, of_key in by_key.items():
        kinds = {
            kind: [row for row in of_key if row["layer_kind"] == kind]
            for kind in ("embedding", "block", "head")
        }
        times = [
            microseconds(of_kind, column)
            for of_kind in kinds.values()
            for column in ("fwd_s", "bwd_s")
        ]
        expected[key] = LayerTimes._make([*key[2:], *times, microseconds(of_key, "update_s")])
    ours = {
        (model, gpu, row.tensor_parallel, row.micro_batch): row
        for model, by_gpu in TIMES.items()
        for gpu, of_gpu in by_gpu.items()
        for row in of_gpu
        # The one that stands in for a profile that nobody made.
        if (model, gpu) != ("GPT-Neo-2.7", "A100-80")
    }
    assert ours == expected


def test_bytes_are_those_of_the_profiles() -> None:
    """Bytes of each layer are the data's; of blocks that differ slightly, the common figure."""
    sizes: dict[tuple[str, int], list[tuple[int, LayerBytes]]] = {}
    for row in rows("layer_memory.csv"):
        if row["model"] in MODELS and int(row["tp"]) <= 4:
            size = LayerBytes(
                int(row["params_bytes"]), int(row["act_output_bytes"]), int(row["act_mem_bytes"])
            )
            count = int(row["layer_last"]) - int(row["layer_first"]) + 1
            sizes.setdefault((row["model"], int(row["tp"])), []).append((count, size))
    assert len(sizes) == 6
    for (model, tensor_parallel), of_model in sizes.items():
        embedding, head = of_model[0][1], of_model[-1][1]
        block = max(of_model[1:-1])[1]
        assert MODELS[model].layer_bytes[tensor_parallel] == ModelBytes(embedding, block, head)
        assert sum(count for count, _ in of_model) == MODELS[model].blocks + 2


def test_batches_memory_and_links_are_those_of_the_data() -> None:
    """Global batches, memory and link rates are the figures that the docstrings name."""
    rows("layer_times.csv")
    nodes = json.loads((DATA / "sailor" / "models_and_nodes.json").read_text())
    specs = json.loads((DATA / "aiconfigurator" / "gpu_specs.json").read_text())
    links = {
        (row["scope"], row["gpu"], row["gpus_per_node"]): float(row["max_bytes_per_s"])
        for row in rows("network_bandwidth.csv")
    }
    for name, model in MODELS.items():
        assert model.global_batch == nodes["training_configs"][name]["global_batch_size"]
        assert model.blocks == nodes["training_configs"][name]["num_layers"]
    for gpu in (A100_40, A100_80):
        assert gpu.memory_bytes == nodes["node_types"][gpu.name]["mem_per_gpu"]
        assert gpu.rack_bytes_per_s == specs["a100_sxm"]["inter_node_bytes_per_s_per_gpu"]
        measured_scale_up = links["intra_node", gpu.name, "4"]
        assert gpu.scale_up_bytes_per_s == pytest.approx(measured_scale_up, rel=0.01)
        measured_far = links["inter_node_same_zone", gpu.name, "4"] / 4
        assert gpu.far_bytes_per_s == pytest.approx(measured_far, rel=0.01)
    assert H100.memory_bytes == specs["h100_sxm"]["mem_bytes"]
    assert H100.scale_up_bytes_per_s == specs["h100_sxm"]["intra_node_bytes_per_s_per_gpu"]
    assert H100.rack_bytes_per_s == specs["h100_sxm"]["inter_node_bytes_per_s_per_gpu"]
    assert H100.far_bytes_per_s == 2 * A100_80.far_bytes_per_s
    between = links["inter_node_same_zone", "GH-96", "4"] / 4
    assert GH200.rack_bytes_per_s == pytest.approx(between, rel=0.01)


def test_iterations_are_as_long_as_measured() -> None:
    """Over the measured plans the mean error is below 9%, and below 30% for every single one."""
    errors = []
    for row in measured():
        split = tuple(int(count) for count in row["layers_per_stage"].split("/"))
        times = profile(row["model"], "GH-96", int(row["tensor_parallel"]), int(row["micro_batch"]))
        shape = shape_of(row["model"], GH200, times, Distance.RACK, split)
        assert shape is not None
        replicas = int(row["data_parallel"])
        link = GH200.rack_bytes_per_s if replicas > 1 else None
        option = Option("gh200", candidate_of(shape, link), replicas)
        ours_s = time_of([Choice(option, replicas)], int(row["global_batch"]))
        error = ours_s / float(row["measured_iteration_s"]) - 1
        print(
            f"{row['model']:12} {split!s:14} x{replicas} micro-batch {shape.micro_batch}"
            f" batch {row['global_batch']:>4}: {ours_s:7.3f} s, measured"
            f" {float(row['measured_iteration_s']):7.3f} s, {error:+.1%}"
        )
        errors.append(abs(error))
    assert len(errors) == 13
    assert sum(errors) / len(errors) < 0.09
    assert max(errors) < 0.30


def test_memory_is_as_much_as_measured() -> None:
    """The peak of the fullest stage is within 25% of what was measured, and 10% on average."""
    errors = []
    for row in measured():
        split = [int(count) for count in row["layers_per_stage"].split("/")]
        micro_batch = int(row["micro_batch"])
        times = profile(row["model"], "GH-96", int(row["tensor_parallel"]), micro_batch)
        every = layers(row["model"], times)
        per_replica = int(row["global_batch"]) // int(row["data_parallel"]) // micro_batch
        first, peaks = 0, []
        for stage, count in enumerate(split):
            run = every[first : first + count]
            first += count
            under_way = min(len(split) - stage, per_replica)
            peaks.append(
                RUNTIME_BYTES
                + COPIES_OF_PARAMETERS * sum(layer.size.parameters for layer in run)
                + sum(layer.size.kept for layer in run) * micro_batch * under_way
            )
        errors.append(abs(max(peaks) / float(row["measured_peak_mem_bytes"]) - 1))
        print(row["model"], split, f"{max(peaks) / 1e9:.1f} GB", f"{errors[-1]:.1%}")
    assert max(errors) < 0.25
    assert sum(errors) / len(errors) < 0.10
