"""The table of run times: as its sources have it, and what is derived from it."""

import csv
from itertools import pairwise
from pathlib import Path

import pytest

from laissez.performance.batch import Gpus, UnknownTool
from laissez.performance.batch.table import (
    GPU_SPEEDS,
    MEASURED,
    SERIAL_FRACTION,
    amdahl_speedup,
    hours_on,
    run_minutes,
)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# How a row of the data is found: how its tool, version, data set and note begin.
IN_DATA = {
    "fq2bam": ("fq2bam", "3.x", "ERR194147", "alignment phase"),
    "basecalling": ("Dorado", "0.2.4", "765 GB nanopore signal, no modification", ""),
    "germline": ("NCGM", "4.2.0", "1000 Genomes 30x", "low-memory"),
    "alignment": ("sarek", "4.x", "NA12878", ""),
    "deepvariant": ("Parabricks DeepVariant", "4.x", "NA12878", ""),
}


def rows() -> list[dict[str, str]]:
    path = DATA / "parabricks" / "runtimes.csv"
    if not path.exists():
        pytest.skip("the folder of data is not here")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def minutes_in_data(tool: str) -> dict[tuple[str, int], list[float]]:
    found: dict[tuple[str, int], list[float]] = {}
    for row in rows():
        words = (row["tool"], row["tool_version"], row["dataset"], row["note"])
        is_one = all(
            word.startswith(start) for word, start in zip(words, IN_DATA[tool], strict=True)
        )
        if is_one and row["kind"] == "measured":
            of = (row["gpu"], int(row["num_gpus"]))
            found.setdefault(of, []).append(float(row["runtime_min"]))
    return found


@pytest.mark.parametrize("tool", sorted(MEASURED))
def test_the_table_is_what_the_data_say(tool: str) -> None:
    """Every measured run of a tool in the table is in the data, and none of that tool is left
    out; of two runs on the same GPUs, the table has the shorter."""
    in_data = {of: min(minutes) for of, minutes in minutes_in_data(tool).items()}
    assert in_data == MEASURED[tool]


def test_one_serial_part_fits_all_counts() -> None:
    """Amdahl's law with the serial part of the table is within 2.3% of every measured count; with
    a part a third smaller or larger it misses one by more than 5%."""

    def misses(serial: float) -> list[float]:
        one = MEASURED["fq2bam"]["A100", 1]
        return [
            abs(amdahl_speedup(count, serial) * minutes / one - 1)
            for (_, count), minutes in MEASURED["fq2bam"].items()
        ]

    assert max(misses(SERIAL_FRACTION)) < 0.023
    assert max(misses(0.06)) > 0.05
    assert max(misses(0.11)) > 0.05


def test_what_was_measured_is_told_as_measured() -> None:
    """A run time of the table is given as it is, and everything else is marked as derived."""
    assert run_minutes("fq2bam", Gpus("A100", 4)) == (56.48, True)
    assert run_minutes("fq2bam", Gpus("a100", 4)) == (56.48, True)
    assert not run_minutes("fq2bam", Gpus("A100", 3)).is_measured
    assert not run_minutes("fq2bam", Gpus("H100", 8)).is_measured


def test_what_is_derived_by_hand() -> None:
    """A third GPU is reckoned from the nearest count, four; another model by its speed."""
    speedup_3, speedup_4 = 1 / (0.085 + 0.915 / 3), 1 / (0.085 + 0.915 / 4)
    three = run_minutes("fq2bam", Gpus("A100", 3)).minutes
    assert three == pytest.approx(56.48 * speedup_4 / speedup_3)
    assert run_minutes("fq2bam", Gpus("H100", 8)).minutes == pytest.approx(36.73 * 24.3 / 48.0)
    assert GPU_SPEEDS["H100"] == pytest.approx(48.0 / 24.3)
    assert GPU_SPEEDS["V100"] == pytest.approx(
        48.0 / 211.13 * amdahl_speedup(8) / amdahl_speedup(4)
    )
    assert hours_on("basecalling", {"a": Gpus("A100", 8)}) == {"a": 0.8}


@pytest.mark.parametrize(
    ("tool", "models"),
    [
        ("fq2bam", ("H100", "A100", "V100")),
        ("basecalling", ("H100", "A100", "V100")),
        ("germline", ("H100", "V100")),
        ("deepvariant", ("A10G",)),
    ],
)
def test_more_and_better_gpus_are_faster(tool: str, models: tuple[str, ...]) -> None:
    """With every GPU more, and with every better model, a run takes less time."""
    minutes = [
        [run_minutes(tool, Gpus(model, n)).minutes for n in range(1, 17)] for model in models
    ]
    for row in minutes:
        assert row == sorted(row, reverse=True)
        assert len(set(row)) == len(row)
    for better, worse in pairwise(minutes):
        assert all(b < w for b, w in zip(better, worse, strict=True))


@pytest.mark.parametrize(
    ("tool", "node", "says"),
    [
        ("chess", Gpus("A100", 1), "take one of alignment, basecalling"),
        ("fq2bam", Gpus("A100", 0), "at least 1"),
        ("fq2bam", Gpus("A10G", 1), "say the hours"),
        ("deepvariant", Gpus("H100", 1), "timed on A10G only"),
        ("germline", Gpus("A100", 8), "timed on H100, V100 only"),
    ],
)
def test_what_nobody_measured_is_not_made_up(tool: str, node: Gpus, says: str) -> None:
    """A run time that nothing tells is refused, with what to do instead."""
    with pytest.raises(UnknownTool, match=says):
        run_minutes(tool, node)
