"""Windows of requests: cut from the traces, and made up like them."""

import gzip
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from random import Random
from statistics import fmean, pstdev, quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.simulation.demand.fitted import FITS, FittedRequests, requests_of
from laissez.simulation.demand.requests import (
    SERVICES,
    STEP_S,
    WINDOW_S,
    Azure,
    BadData,
    Requests,
    RequestStep,
    Service,
    steps_of,
)
from laissez.simulation.kernel.streams import stream

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
STEPS = WINDOW_S // STEP_S
HEADER = "timestamp_utc,t_s,context_tokens,generated_tokens"
WINDOWS = 1_000

services = pytest.mark.parametrize("service", SERVICES)


class StartsAt(Random):
    """Chance that always gives the same moment, and remembers what it was asked."""

    def __init__(self, start_s: float) -> None:
        super().__init__(0)
        self.start_s = start_s
        self.asked: list[tuple[float, float]] = []

    def uniform(self, a: float, b: float) -> float:
        self.asked.append((a, b))
        return self.start_s


def trace(folder: Path, service: Service, rows: Sequence[str], header: str = HEADER) -> Path:
    """A file as the real ones are; a row is what follows the time of day."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"azure_llm_2023_{service}.csv.gz"
    lines = [header, *(f"2023-11-16 18:17:03.9799600,{row}" for row in rows)]
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    return path


def traces(folder: Path, *rows: str) -> Path:
    for service in SERVICES:
        trace(folder, service, rows)
    return folder


# Cutting windows from a trace


def test_steps_have_the_rate_and_the_mean_lengths_of_their_requests() -> None:
    """By hand: four requests in ten seconds are 0.4 a second; lengths are sums over requests."""
    assert steps_of([[4, 400, 8], [1, 50, 7]]) == (
        RequestStep(0.4, 100.0, 2.0),
        RequestStep(0.1, 50.0, 7.0),
    )


def test_a_step_without_requests_has_the_lengths_of_its_window() -> None:
    """The window's 5 requests have 500 prompt tokens and 20 of output: 100 and 4 each."""
    assert steps_of([[5, 500, 20], [0, 0, 0]])[1] == RequestStep(0.0, 100.0, 4.0)


def test_no_length_is_below_one_token() -> None:
    """Not of a step whose requests have none, nor of a window without any request."""
    assert steps_of([[2, 0, 0], [0, 0, 0]]) == (
        RequestStep(0.2, 1.0, 1.0),
        RequestStep(0.0, 1.0, 1.0),
    )
    nothing = steps_of([[0, 0, 0]])[0]
    assert nothing.requests_per_s == 0
    assert min(nothing.prompt_tokens, nothing.output_tokens) >= 1


def test_a_window_has_what_comes_from_its_start_to_before_its_end(tmp_path: Path) -> None:
    """From 50 s on: the request at 50 is the first of step 0, that at 60 is in step 1, that at 250
    is too late."""
    rows = ("0,9,9", "49.999999,9,9", "50,100,10", "59.9,300,20", "60,7,3", "249.9,5,2", "250,9,9")
    azure = Azure(traces(tmp_path, *rows, "300,9,9"))
    steps = azure.window("conv", StartsAt(50.0))
    assert len(steps) == STEPS
    assert steps[0] == RequestStep(0.2, 200.0, 15.0)
    assert steps[1] == RequestStep(0.1, 7.0, 3.0)
    assert steps[-1] == RequestStep(0.1, 5.0, 2.0)
    assert {step.requests_per_s for step in steps[2:-1]} == {0.0}
    assert steps[2].prompt_tokens == 412 / 4


def test_windows_start_anywhere_within_the_trace(tmp_path: Path) -> None:
    """So that a window begins no earlier than the first request and ends no later than the last,
    also when the rows are in no order."""
    chance = StartsAt(100.0)
    Azure(traces(tmp_path, "900,1,1", "100,1,1", "500,1,1")).window("code", chance)
    assert chance.asked == [(100.0, 700.0)]


def test_a_request_a_hair_before_the_end_belongs_to_no_step_that_is_not_there(
    tmp_path: Path,
) -> None:
    """With floats a moment may be before the end of a window, and yet 200 s after its start."""
    unit = 2.0**-45
    azure = Azure(traces(tmp_path, "0,1,1", f"{200 + unit!r},1,1", "500,1,1"))
    start_s = 1.5 * unit
    assert 200 + unit < start_s + WINDOW_S
    assert sum(step.requests_per_s for step in azure.window("conv", StartsAt(start_s))) == 0


def test_each_service_has_its_own_file(tmp_path: Path) -> None:
    """Conversations are not served from the file of code."""
    trace(tmp_path, "conv", ("0,11,1", "200,11,1"))
    trace(tmp_path, "code", ("0,22,2", "200,22,2"))
    azure = Azure(tmp_path)
    assert azure.window("conv", Random(1))[0].prompt_tokens == 11
    assert azure.window("code", Random(1))[0].prompt_tokens == 22


@given(st.lists(st.integers(0, 6_000_000), min_size=1, max_size=60), st.integers(0, 2**32))
def test_windows_count_as_a_plain_loop_does(
    tmp_path_factory: pytest.TempPathFactory, micros: list[int], seed: int
) -> None:
    """Whatever the trace, a step has the requests whose time lies in its ten seconds."""
    times_s = [0.0, *(each / 10_000 for each in micros), 600.0]
    folder = traces(tmp_path_factory.mktemp("t"), *(f"{each!r},10,10" for each in times_s))
    start_s = Random(seed).uniform(0, 600 - WINDOW_S)
    ends = [(start_s + STEP_S * at, start_s + STEP_S * (at + 1)) for at in range(STEPS)]
    steps = Azure(folder).window("conv", Random(seed))
    assert [step.requests_per_s * STEP_S for step in steps] == pytest.approx(
        [sum(low <= each < high for each in times_s) for low, high in ends]
    )


# What is wrong with a folder


def test_the_folder_of_data_will_do_as_well_as_the_traces_own(tmp_path: Path) -> None:
    """Both give the same windows."""
    traces(tmp_path / "azure_llm", "0,5,1", "150,8,2", "400,6,3")
    outer, inner = Azure(tmp_path), Azure(tmp_path / "azure_llm")
    assert outer.window("conv", Random(3)) == inner.window("conv", Random(3))


@pytest.mark.parametrize("folder", ["", "azure_llm", "data"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_files_are_taken_as_they_are_published(
    tmp_path: Path, folder: str, is_packed: bool
) -> None:
    """With times of day, the first of which is the beginning, and with the mark that some editors
    put before the first column."""
    traces(tmp_path / "ours", "0,5,1", "150.25,8,2", "400,6,3")
    place = tmp_path / "theirs" / folder
    place.mkdir(parents=True)
    lines = (
        "\ufeffTIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 23:58:03.9799600,5,1",
        "2023-11-17 00:00:34.2299600,8,2",
        "2023-11-17 00:04:43.9799600,6,3",
    )
    for service in SERVICES:
        content = "\n".join(lines).encode()
        name = f"AzureLLMInferenceTrace_{service}.csv"
        if is_packed:
            (place / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (place / name).write_bytes(content)
    ours, theirs = Azure(tmp_path / "ours"), Azure(tmp_path / "theirs")
    for seed, service in product(range(20), SERVICES):
        assert ours.window(service, Random(seed)) == theirs.window(service, Random(seed))


def test_a_time_that_is_none_is_said_at_its_line(tmp_path: Path) -> None:
    """In a file with times of day."""
    path = tmp_path / "AzureLLMInferenceTrace_conv.csv"
    for cell in ("yesterday", ""):
        path.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{cell},1,1\n")
        trace(tmp_path, "code", ["0,1,1", "300,1,1"])
        with pytest.raises(BadData) as caught:
            Azure(tmp_path)
        assert str(caught.value) == (
            f"{path}:2: TIMESTAMP is {cell or 'missing'}; write a time such as "
            "2023-11-16 18:17:03.9799600"
        )


def test_a_missing_file_is_named_with_where_to_get_it(tmp_path: Path) -> None:
    """And the sentence says what to give instead."""
    trace(tmp_path, "conv", ("0,1,1", "300,1,1"))
    with pytest.raises(BadData) as caught:
        requests_of(tmp_path)
    assert str(caught.value) == (
        f"there is no AzureLLMInferenceTrace_code.csv in {tmp_path}; clone "
        "https://github.com/Azure/AzurePublicDataset and give its folder, or give none, for "
        "requests made up like theirs"
    )


def test_a_folder_that_is_not_there_is_a_missing_file(tmp_path: Path) -> None:
    """Nor does a file in the folder's place go wrong in another way."""
    (tmp_path / "file").write_text("")
    for name in ("nowhere", "file"):
        with pytest.raises(BadData, match=rf"there is no .*_conv\.csv in .*{name}; "):
            Azure(tmp_path / name)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["0,1,1", "199.9,1,1"], " has less than the 200 s of a window; give a longer trace"),
        ([], " has less than the 200 s of a window; give a longer trace"),
        (["0,1,1", "300,x,1"], ":3: context_tokens is x; write a number that is not below 0"),
        (["0,1,-2", "300,1,1"], ":2: generated_tokens is -2; write a number that is not below 0"),
        (["nan,1,1", "300,1,1"], ":2: t_s is nan; write a number that is not below 0"),
        (["0,inf,1", "300,1,1"], ":2: context_tokens is inf; write a number that is not below 0"),
        (["0,1"], ":2: generated_tokens is missing; write a number that is not below 0"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_at_its_line(
    tmp_path: Path, rows: list[str], said: str
) -> None:
    """Cells that are no lengths or times, and traces too short to cut."""
    traces(tmp_path, "0,1,1", "300,1,1")
    path = trace(tmp_path, "code", rows)
    with pytest.raises(BadData) as caught:
        Azure(tmp_path)
    assert str(caught.value) == f"{path}{said}"


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    """As it is in a file of another release of the traces, with either kind of times."""
    trace(tmp_path, "code", ["0,1,1", "300,1,1"])
    for header, missing in (
        ("time,ContextTokens,GeneratedTokens", "t_s"),
        ("TIMESTAMP,NumImages,GeneratedTokens", "ContextTokens"),
    ):
        path = trace(tmp_path, "conv", ["0,1,1"], header=header)
        with pytest.raises(BadData) as caught:
            Azure(tmp_path)
        said = f"{path}:1: there is no column {missing}; name it in the first line"
        assert str(caught.value) == said


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(gzip.decompress, id="not-gzip"),
        pytest.param(lambda whole: whole[: len(whole) // 2], id="cut-short"),
        pytest.param(lambda whole: whole[:12] + b"\xff" * 20, id="garbled"),
        pytest.param(lambda whole: gzip.compress(b"\xff\xfe"), id="not-text"),
    ],
)
def test_a_file_that_is_broken_is_to_be_fetched_again(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    """Whichever way it broke."""
    path = traces(tmp_path, "0,1,1", "300,1,1") / "azure_llm_2023_conv.csv.gz"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(BadData, match=r"conv\.csv\.gz can't be read \(.+\); fetch it again"):
        Azure(tmp_path)


# Windows made up


def test_without_a_folder_requests_are_made_up(tmp_path: Path) -> None:
    """With one, they are those of the traces."""
    assert isinstance(requests_of(None), FittedRequests)
    assert isinstance(requests_of(traces(tmp_path, "0,1,1", "300,1,1")), Azure)


@services
@given(seed=st.integers(0, 2**64))
def test_made_up_windows_are_whole(service: Service, seed: int) -> None:
    """Twenty steps; rates not below 0 whose mean is within the levels; lengths of a token or
    more."""
    steps = FittedRequests().window(service, Random(seed))
    assert len(steps) == STEPS
    assert min(step.requests_per_s for step in steps) >= 0
    assert min(min(step.prompt_tokens, step.output_tokens) for step in steps) >= 1
    levels = FITS[service].levels
    level = fmean(step.requests_per_s for step in steps)
    assert levels[0] * (1 - 1e-9) <= level <= levels[-1] * (1 + 1e-9)


@services
def test_the_same_chance_gives_the_same_window(service: Service) -> None:
    """To the digit, and another chance another one."""
    one, again, other = (FittedRequests().window(service, Random(seed)) for seed in (5, 5, 6))
    assert one == again != other


def test_windows_of_one_stream_do_not_depend_on_another() -> None:
    """One more tenant that draws in between, from the same object, changes nothing."""
    requests = FittedRequests()
    lonely = stream(1, "inference", 0)
    alone = [requests.window("code", lonely) for _ in range(3)]
    own, foreign = stream(1, "inference", 0), stream(1, "inference", 1)
    together = []
    for _ in range(3):
        others = requests.window("conv", foreign)
        together.append(requests.window("code", own))
        assert others != together[-1]
    assert together == alone


# Made up against real


class Moments:
    """What many windows of one service are like."""

    def __init__(self, requests: Requests, service: Service) -> None:
        chance = stream(7, "moments", service)
        windows = [requests.window(service, chance) for _ in range(WINDOWS)]
        rates = [[step.requests_per_s for step in window] for window in windows]
        levels = [fmean(each) for each in rates]
        total = sum(map(sum, rates))
        self.level = fmean(levels)
        self.quartiles = quantiles(levels, n=4)
        self.variation = fmean(pstdev(each) / fmean(each) for each in rates)
        self.correlation = correlation(rates)
        self.quiet = sum(each.count(0.0) for each in rates) / (WINDOWS * STEPS)
        steps = [step for window in windows for step in window]
        self.prompt = sum(step.requests_per_s * step.prompt_tokens for step in steps) / total
        self.output = sum(step.requests_per_s * step.output_tokens for step in steps) / total
        prompts = [lengths(window, [step.prompt_tokens for step in window]) for window in windows]
        outputs = [lengths(window, [step.output_tokens for step in window]) for window in windows]
        self.prompt_spread = pstdev(prompts) / fmean(prompts)
        self.output_spread = pstdev(outputs) / fmean(outputs)
        busy = [(at, step) for at, window in enumerate(windows) for step in window if step[0]]
        self.prompt_spread_in_window = pstdev(step.prompt_tokens / prompts[at] for at, step in busy)
        self.output_spread_in_window = pstdev(step.output_tokens / outputs[at] for at, step in busy)
        order = sorted(range(WINDOWS), key=levels.__getitem__)
        half = WINDOWS // 2
        self.output_when_busy = fmean(outputs[at] for at in order[half:]) / fmean(
            outputs[at] for at in order[:half]
        )


def correlation(rates: Sequence[Sequence[float]]) -> float:
    """Of a step with the one before, around the mean of its window."""
    deviations = [[rate - fmean(each) for rate in each] for each in rates]
    pairs = sum(a * b for each in deviations for a, b in pairwise(each))
    return pairs / sum(each * each for window in deviations for each in window)


def lengths(window: Sequence[RequestStep], of_steps: Sequence[float]) -> float:
    """The mean over the window's requests."""
    weights = [step.requests_per_s for step in window]
    return sum(map(float.__mul__, weights, of_steps)) / sum(weights)


@cache
def moments(service: Service) -> tuple[Moments, Moments]:
    """Real ones, and those made up."""
    if not (DATA / "azure_llm").is_dir():
        pytest.skip("the data folder is not there")
    return Moments(Azure(DATA), service), Moments(FittedRequests(), service)


@services
def test_made_up_rates_have_the_levels_of_the_real_ones(service: Service) -> None:
    """Mean rate and its quartiles over windows."""
    real, made_up = moments(service)
    assert made_up.level == pytest.approx(real.level, rel=0.05)
    assert made_up.quartiles == pytest.approx(real.quartiles, rel=0.08)


@services
def test_made_up_rates_are_as_bursty_as_the_real_ones(service: Service) -> None:
    """Variation and correlation within windows, and how many steps are quiet."""
    real, made_up = moments(service)
    assert made_up.variation == pytest.approx(real.variation, rel=0.07)
    assert made_up.correlation == pytest.approx(real.correlation, abs=0.06)
    assert made_up.quiet == pytest.approx(real.quiet, abs=0.04)


@services
def test_made_up_lengths_are_those_of_the_real_ones(service: Service) -> None:
    """Means over all requests, spread between windows and between the steps of one, and how busy
    windows differ from calm ones."""
    real, made_up = moments(service)
    assert made_up.prompt == pytest.approx(real.prompt, rel=0.03)
    assert made_up.output == pytest.approx(real.output, rel=0.03)
    assert made_up.prompt_spread == pytest.approx(real.prompt_spread, abs=0.02)
    assert made_up.output_spread == pytest.approx(real.output_spread, abs=0.03)
    assert made_up.prompt_spread_in_window == pytest.approx(real.prompt_spread_in_window, rel=0.15)
    assert made_up.output_spread_in_window == pytest.approx(real.output_spread_in_window, rel=0.15)
    assert made_up.output_when_busy == pytest.approx(real.output_when_busy, abs=0.05)


def test_services_differ_as_the_fit_says() -> None:
    """Conversations come steadily, with long outputs; code in bursts, with short ones. That holds
    without the traces too."""
    conv, code = (Moments(FittedRequests(), service) for service in SERVICES)
    assert conv.variation < 0.2 < 1.2 < code.variation
    assert conv.quiet == 0 < 0.4 < code.quiet
    assert conv.output > 5 * code.output
    assert conv.output_when_busy < 0.85
