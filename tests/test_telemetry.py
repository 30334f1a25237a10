"""Telemetry: numbers from files, addresses and functions; and what holds while there are none."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from laissez.documents import BadDocument, read
from laissez.telemetry import (
    BadTelemetry,
    CsvReplay,
    Feed,
    JsonHttp,
    Level,
    Prometheus,
    PythonCallable,
    Reading,
    SourceDescription,
    Steady,
    Telemetry,
    Unreadable,
)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
S = 1_000_000
NOW_US = 1_700_000_000 * S
STEADY = Steady(stale_after_us=60 * S, drift_us=100 * S, default=0.0)


# --- a replay -----------------------------------------------------------------------------------

ROWS = "t,row_1,row_2\n100,1,10\n130,,20\n160,3,30\n"


def replay(text: str, **options: Any) -> CsvReplay:
    """A replay of a text; the file is gone when it is there."""
    return CsvReplay(written(text), **({"column": "row_1"} | options))


def written(text: str | bytes, name: str = "rows.csv") -> Path:
    path = SCRATCH[0] / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))
    return path


SCRATCH: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def _scratch(tmp_path_factory: pytest.TempPathFactory) -> None:
    SCRATCH[:] = [tmp_path_factory.mktemp("telemetry")]


def played(source: CsvReplay, *times_s: float) -> list[float | None]:
    """What is read at these times after a first read at NOW_US."""

    async def run() -> list[float | None]:
        await source.read(NOW_US)
        readings = [await source.read(NOW_US + round(time_s * S)) for time_s in times_s]
        return [None if reading is None else reading.value for reading in readings]

    return asyncio.run(run())


def test_a_row_holds_until_the_next() -> None:
    """The first read is the first row, whatever the clock; an empty cell is a gap."""
    assert played(replay(ROWS), 0, 29.9, 30, 59.9, 60, 1e6) == [1, 1, None, None, 3, 3]


def test_a_replay_can_be_faster_begin_later_and_begin_again() -> None:
    """The last row lasts as long as the one before it, then comes the first."""
    assert played(replay(ROWS, column="row_2", speed=60), 0, 0.5, 1) == [10, 20, 30]
    assert played(replay(ROWS, column="row_2", start_s=45), 0, 14, 15) == [20, 20, 30]
    looped = replay(ROWS, column="row_2", at_end="loop")
    assert played(looped, 89.9, 90, 120, 179.9, 180) == [30, 10, 20, 30, 10]
    assert played(replay("t,row_1\n5,7\n", at_end="loop"), 0, 99) == [7, 7]


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine in a zone of its own, or a date without a zone would be in UTC by chance."""
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
def test_times_can_be_dates_and_the_file_compressed() -> None:
    """Without a zone a date is in UTC, wherever the machine is; of two columns the one that is not
    the time is taken."""
    text = "at,grams\n2020-01-01 00:00:00,5\n2020-01-01T01:00:00Z,6\n2020-01-01 04:00+02:00,7\n"
    path = written(gzip.compress(b"\xef\xbb\xbf" + text.encode()), "carbon.csv.gz")
    assert played(CsvReplay(path), 0, 3599, 3600, 7200) == [5, 5, 6, 7]
    swapped = written("grams,at\n5,0\n6,60\n")
    assert played(CsvReplay(swapped, time_column="at"), 0, 60) == [5, 6]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=2, max_size=8),
    st.lists(st.integers(0, 400), max_size=20),
    st.integers(0, 60),
    st.booleans(),
)
def test_a_replay_agrees_with_a_walk_through_the_rows(
    steps: list[tuple[int, int]], times_s: list[int], start_s: int, is_loop: bool
) -> None:
    """Row by row, second by second, as one would with a finger on the file."""
    at_s = 0
    lines, per_second = ["t,v"], []
    for gap_s, number in steps:
        lines.append(f"{at_s},{number}")
        per_second += [number] * gap_s
        at_s += gap_s
    # The last row lasts as long as the one before it.
    per_second[at_s - steps[-1][0] :] = [steps[-1][1]] * steps[-2][0]

    def expected(second: int) -> int:
        if is_loop and per_second:
            return per_second[second % len(per_second)]
        return per_second[second] if second < len(per_second) else steps[-1][1]

    source = replay(
        "\n".join(lines), column="v", start_s=start_s, at_end="loop" if is_loop else "hold"
    )
    assert played(source, *times_s) == [expected(start_s + time_s) for time_s in times_s]


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("", {}, "rows.csv:1: say which column to take; the file has: nothing"),
        (ROWS, {"column": "row_3"}, "rows.csv:1: there is no column 'row_3'; did you mean 'row_"),
        (ROWS, {"column": None}, "rows.csv:1: say which column to take; the file has: t, row_1"),
        (ROWS, {"time_column": "x"}, "rows.csv:1: there is no column 'x'; the file has: t, row_1"),
        ("t,row_1\n", {}, "rows.csv:1: there is no row below the header"),
        ("t,row_1\n1,2\n\n1,two\n", {}, "rows.csv:4: 'two' is not a number"),
        ("t,row_1\n1,2\n3\n", {}, "rows.csv:3: the header has 2 cells, and this row 1"),
        ("t,row_1\n1,2\n0,2\n", {}, "rows.csv:3: this is before the row above"),
        ("t,row_1\nsoon,2\n", {}, "rows.csv:2: the time 'soon' is neither seconds nor a date"),
        ("t,row_1\nnan,2\n", {}, "rows.csv:2: the time 'nan' is no number of seconds"),
        (b"t,row_1\n1,\xff\n", {}, "rows.csv:2: this is not text in UTF-8"),
        (ROWS, {"speed": 0}, "a speed above 0"),
        (ROWS, {"start_s": -1}, "not before 0"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    text: str | bytes, options: dict[str, Any], sentence: str
) -> None:
    """Before anything runs."""
    with pytest.raises(BadTelemetry) as caught:
        CsvReplay(written(text), **({"column": "row_1"} | options))
    assert sentence in str(caught.value)


def test_a_file_that_can_not_be_opened_is_named() -> None:
    """It is not there, a folder, or not compressed as its name says."""
    with pytest.raises(BadTelemetry, match=r"there is no file .*nowhere\.csv"):
        CsvReplay(SCRATCH[0] / "nowhere.csv")
    with pytest.raises(BadTelemetry, match="can't be read: "):
        CsvReplay(SCRATCH[0])
    for wrong in (b"t,v\n", gzip.compress(b"t,v\n1,2\n" * 99)[:-20]):
        with pytest.raises(BadTelemetry, match="can't be read: "):
            CsvReplay(written(wrong, "wrong.csv.gz"))


@given(st.one_of(st.text(), st.text(alphabet='t,v0159.-\n\r" \0').map("t,v\n".__add__)))
@example("t,v\n9999-12-31 23:59:59,1")
@example("t,v\n0001-01-01,1")
@example('t,v\n"')
@example("t,v\n1e308,1\n")
def test_any_file_is_a_replay_or_refused(text: str) -> None:
    """Never another exception, and what is read is a number."""
    try:
        source = replay(text, column=None)
    except BadTelemetry:
        return
    assert all(value is None or isinstance(value, float) for value in played(source, 0, 5, 1e9))


def test_the_power_trace_plays() -> None:
    """A day of a real power domain in 24 minutes stays within its published range."""
    path = DATA / "google_power" / "cell_a_pdus.csv.gz"
    if not path.exists():
        pytest.skip("the shared data is not here")
    values = played(CsvReplay(path, column="pdu6", speed=60), *range(0, 1440, 5))
    assert len(set(values)) > 10
    assert all(value is not None and 0.6 < value < 0.8 for value in values)


# --- addresses ----------------------------------------------------------------------------------


class Answers(ThreadingHTTPServer):
    """Answers as a test tells it to; remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.body: bytes | None = b"{}"
        self.status = 200
        self.asked: list[tuple[str, str | None]] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """Who asked has gone: that is what some tests are about."""

    def says(self, document: Any, status: int = 200) -> None:
        self.body, self.status = json.dumps(document).encode(), status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece, or each waits for an acknowledgement
    server: Answers

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        body = self.server.body
        if self.path.startswith("/slow"):
            self.server.released.wait(60)
        if body is None:  # broken
            self.close_connection = True
            return
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Answers]:
    with Answers() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def server(shared_server: Answers, monkeypatch: pytest.MonkeyPatch) -> Answers:
    monkeypatch.setenv("NO_PROXY", "*")
    shared_server.says({})
    shared_server.asked.clear()
    return shared_server


def reading_of(source: Prometheus | JsonHttp | PythonCallable) -> Reading | None:
    async def run() -> Reading | None:
        try:
            return await source.read(NOW_US)
        finally:
            await source.close()

    return asyncio.run(run())


def failure_of(source: Prometheus | JsonHttp | PythonCallable) -> str:
    with pytest.raises(Unreadable) as caught:
        reading_of(source)
    return str(caught.value)


def result(kind: str, value: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": value}}


@pytest.mark.parametrize(
    "answer",
    [
        result("scalar", [1700000000.1, "0.75"]),
        result("vector", [{"metric": {"row": "r1"}, "value": [1700000000.1, "0.75"]}]),
    ],
)
def test_a_query_gives_a_number(server: Answers, answer: Any) -> None:
    """A scalar, or the only series of a vector; the query goes as it is, with no token."""
    server.says(answer)
    found = reading_of(Prometheus(server.url + "/", 'sum(power{row="r1"}) / 2 + 1'))
    assert found == Reading(0.75, NOW_US)
    address, token = server.asked[0]
    assert urlsplit(address).path == "/api/v1/query"
    assert parse_qs(urlsplit(address).query) == {"query": ['sum(power{row="r1"}) / 2 + 1']}
    assert token is None


@pytest.mark.parametrize(
    ("answer", "status", "sentence"),
    [
        (result("vector", []), 200, "the query 'up' finds nothing"),
        (
            result("vector", [{"value": [0, "1"]}] * 3),
            200,
            "gives 3 series, and one is needed; agg",
        ),
        (result("vector", [{"value": [0, "1"]}] * 3), 200, "such as sum(up)"),
        (result("matrix", []), 200, "gives a matrix, and one number is needed"),
        (result("scalar", [0, "NaN"]), 200, "the result of 'up' is 'NaN', which is no number"),
        (result("scalar", [0, "+Inf"]), 200, "is '+Inf', which is no number"),
        (result("scalar", [0]), 200, "does not answer as Prometheus does"),
        (result("vector", ["x"]), 200, "does not answer as Prometheus does"),
        ({"data": []}, 200, "does not answer as Prometheus does"),
        ([], 200, "does not answer as Prometheus does"),
        ({"status": "error", "error": "parse error"}, 400, "answered 400: parse error"),
        ({"error": 5}, 500, "answered 500"),
        ({}, 302, "answered 302"),
    ],
)
def test_a_query_without_one_number_says_why(
    server: Answers, answer: Any, status: int, sentence: str
) -> None:
    """What the server says, and how to make one number of many."""
    server.says(answer, status)
    assert sentence in failure_of(Prometheus(server.url, "up"))


def test_a_redirect_is_not_followed(server: Answers) -> None:
    """Or a token would go where nobody meant it to; what would be found there is not asked for."""
    server.says({"v": 1}, 302)
    assert "answered 302" in failure_of(JsonHttp(f"{server.url}/here", "v"))
    assert [path for path, _ in server.asked] == ["/here"]


def test_a_number_is_found_in_a_document(server: Answers) -> None:
    """Names and indices lead to it; a number may be text."""
    server.says({"rows": [{"watts": 5}, {"watts": "7.5"}]})
    assert reading_of(JsonHttp(server.url, "rows.0.watts")) == Reading(5.0, NOW_US)
    assert reading_of(JsonHttp(server.url, "rows.1.watts")) == Reading(7.5, NOW_US)


def test_the_source_says_how_old_its_number_is(server: Answers) -> None:
    """A clock a little ahead of ours counts as now; one far ahead has another unit."""
    for ago_s, expected_us in ((90.5, NOW_US - 90_500_000), (-5, NOW_US), (2e9, 0)):
        server.says({"v": 1, "at": 1_700_000_000 - ago_s})
        source = JsonHttp(server.url, "v", timestamp_path="at")
        assert reading_of(source) == Reading(1.0, expected_us)
    server.says({"v": 1, "at": 1_700_000_000_000})
    assert "at is in the future" in failure_of(JsonHttp(server.url, "v", timestamp_path="at"))


@pytest.mark.parametrize(
    ("body", "path", "sentence"),
    [
        (b"<html>", "v", "did not answer in JSON"),
        (b"", "v", "did not answer in JSON"),
        (b"\xff", "v", "did not answer in JSON"),
        (b"[" * 100_000, "v", "did not answer in JSON"),
        (b"null", "v", "has no 'v' of 'v'"),
        (b'{"a": {"b": 1}}', "a.c", "has no 'c' of 'a.c'"),
        (b'{"a": [1]}', "a.1", "has no '1' of 'a.1'"),
        (b'{"a": [1]}', "a.x", "has no 'x' of 'a.x'"),
        (b'{"a": 1}', "a.b", "has no 'b' of 'a.b'"),
        (b'{"a": "1"}', "a.0", "has no '0' of 'a.0'"),
        (b'{"a": true}', "a", "a is 'True', which is no number"),
        (b'{"a": null}', "a", "a is 'None', which is no number"),
        (b'{"a": "much"}', "a", "a is 'much', which is no number"),
        (b'{"a": 1' + b"0" * 400 + b"}", "a", "which is no number"),
        (b'{"a": "' + b"x" * 2_000_000 + b'"}', "a", "answered more than 1,000,000 bytes"),
        (None, "v", "can't be reached: "),
    ],
)
def test_an_answer_without_the_number_says_why(
    server: Answers, body: bytes | None, path: str, sentence: str
) -> None:
    """Wrong JSON, wrong place, wrong kind, too long, or no answer at all."""
    server.body = body
    assert sentence in failure_of(JsonHttp(server.url, path))


def test_no_answer_is_waited_for_in_vain(server: Answers) -> None:
    """A server that takes its time is given up; one that is not there is said to be so."""
    slow = JsonHttp(f"{server.url}/slow", "v", timeout_us=50_000)
    assert failure_of(slow) == f"{server.url}/slow did not answer within 0.05s"
    assert "can't be reached: " in failure_of(JsonHttp("http://127.0.0.1:1/x", "v"))


def test_a_token_comes_from_the_environment(
    server: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent to the address that was given, and is said nowhere."""
    monkeypatch.setenv("POWER_TOKEN", " secret \n")
    server.says({"v": 1})
    reading_of(JsonHttp(server.url, "v", token_variable="POWER_TOKEN"))
    assert server.asked[0][1] == "Bearer secret"
    said = failure_of(JsonHttp(f"{server.url}/a?key=hidden", "w", token_variable="POWER_TOKEN"))
    assert said == f"{server.url}/a has no 'w' of 'w'"
    for wrong in ("", "two\nlines", "ü"):
        monkeypatch.setenv("POWER_TOKEN", wrong)
        with pytest.raises(BadTelemetry, match="POWER_TOKEN") as caught:
            Prometheus(server.url, "up", token_variable="POWER_TOKEN")
        assert "two" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "host:9090", "ftp://host", "http://", "http://[::1", "http://host:port", "http://h:0"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """Before anything is asked."""
    with pytest.raises(BadTelemetry, match="is no address; write one such as http"):
        JsonHttp(url, "v")


def test_a_password_has_no_place_in_an_address() -> None:
    """And is not repeated in the sentence that says so."""
    with pytest.raises(BadTelemetry, match="token_variable") as caught:
        JsonHttp("http://me:secret@host", "v")
    assert "secret" not in str(caught.value)


def test_without_httpx_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those who read addresses need it."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(BadTelemetry, match=r"pip install 'laissez\[telemetry\]'"):
        Prometheus("http://host:9090", "up")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "resultType", "result", "value"]), inner)
    ),
    max_leaves=8,
)
KINDS = st.sampled_from(["scalar", "vector", "matrix", "string"])


def test_any_document_gives_a_number_or_a_reason(server: Answers) -> None:
    """Never another exception, and never a number that is not finite."""
    with asyncio.Runner() as runner:
        query = Prometheus(server.url, "up")
        place = JsonHttp(server.url, "data.result", timestamp_path="data.value")

        @given(st.one_of(JSON, st.builds(result, KINDS, JSON)))
        def ask(document: Any) -> None:
            server.says(document)
            for source in (query, place):
                try:
                    found = runner.run(source.read(NOW_US))
                except Unreadable:
                    continue
                assert found is not None
                assert math.isfinite(found.value)
                assert found.at_us <= NOW_US

        ask()
        runner.run(query.close())
        runner.run(place.close())


# --- functions ----------------------------------------------------------------------------------

MODULE = """
import threading
held = threading.Event()
def seconds(at_us): return at_us // 1_000_000
def nothing(at_us): return None
def text(at_us): return "5"
def infinite(at_us): return float("inf")
def fails(at_us): raise KeyError("row")
def ends(at_us): raise SystemExit(3)
def hangs(at_us):
    held.wait(60)
    return 1
five = 5
"""


@pytest.fixture(scope="module")
def functions() -> Iterator[Any]:
    """A folder with a module of functions; the module itself is found by its name."""
    folder = SCRATCH[0] / "functions"
    folder.mkdir()
    (folder / "made_for_telemetry.py").write_text(MODULE)
    PythonCallable("made_for_telemetry:seconds", folder=folder)
    module = sys.modules["made_for_telemetry"]
    yield module
    module.held.set()
    sys.path.remove(str(folder))


@pytest.mark.usefixtures("functions")
def test_a_function_is_asked_with_the_instant() -> None:
    """It returns a number, or None if there is none."""
    assert reading_of(PythonCallable("made_for_telemetry:seconds")) == Reading(1.7e9, NOW_US)
    assert reading_of(PythonCallable("made_for_telemetry:nothing")) is None


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("text", "made_for_telemetry:text returned a str; it must return a number or None"),
        ("infinite", "made_for_telemetry:infinite returned inf, which is no number"),
        ("fails", "made_for_telemetry:fails failed: KeyError: 'row'"),
        ("ends", "made_for_telemetry:ends failed: SystemExit: 3"),
    ],
)
def test_a_function_that_has_no_number_says_why(name: str, sentence: str) -> None:
    """Whatever it raises or returns."""
    assert failure_of(PythonCallable(f"made_for_telemetry:{name}")) == sentence


def test_a_function_that_hangs_is_asked_once(functions: Any) -> None:
    """Who waits can give up; until it has returned, it is not called again."""

    async def run() -> list[str]:
        source = PythonCallable("made_for_telemetry:hangs")
        feed = Feed(source, STEADY, timeout_us=50_000)
        said = []
        for _ in range(2):
            await feed.refresh(NOW_US)
            said.append(str(feed.level(NOW_US).sentence))
        functions.held.set()
        while feed.level(NOW_US).freshness != "fresh":
            await feed.refresh(NOW_US)
        return said

    first, second = asyncio.run(run())
    assert first.startswith("the source did not answer within 0.05s")
    assert second.startswith("made_for_telemetry:hangs has not returned from an earlier call")


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("made_for_telemetry", "names no function; write package.module:function"),
        (":seconds", "names no function"),
        ("no_such_module:f", "no_such_module can't be imported (ModuleNotFoundError: "),
        ("made_for_telemetry:minutes", "has no function 'minutes'"),
        ("made_for_telemetry:five", "has no function 'five'"),
    ],
)
def test_a_function_that_is_not_there_is_refused(name: str, sentence: str) -> None:
    """Before anything runs."""
    with pytest.raises(BadTelemetry) as caught:
        PythonCallable(name)
    assert sentence in str(caught.value)


# --- steadying ----------------------------------------------------------------------------------


def test_a_value_holds_then_drifts_then_is_the_default() -> None:
    """80 at 0 s, stale after 60 s, then in 100 s down to 30: half-way at 110 s."""
    steady = Steady(stale_after_us=60 * S, drift_us=100 * S, default=30.0)
    levels = {at_s: steady.level(Reading(80.0, 0), at_s * S) for at_s in (0, 60, 85, 110, 160, 999)}
    assert {at_s: (level.value, level.freshness) for at_s, level in levels.items()} == {
        0: (80, "fresh"),
        60: (80, "fresh"),
        85: (67.5, "drifting"),
        110: (55, "drifting"),
        160: (30, "default"),
        999: (30, "default"),
    }
    assert levels[0].sentence is None
    assert levels[110].sentence == (
        "the last reading is 110s old; moving from 80 to the default 30"
    )


def test_a_failure_is_said_while_the_value_holds() -> None:
    """Never read is the default; not read now, but not long ago, is held."""
    held = STEADY.level(Reading(8.0, 0), 30 * S, "no answer")
    assert held == Level(8.0, "held", "no answer; 8 is held for now", 0)
    assert STEADY.level(None, 0) == Level(
        0.0, "default", "nothing was read yet; the default 0 is taken"
    )
    assert STEADY.level(None, 0, "no answer").sentence == "no answer; the default 0 is taken"


def test_what_was_never_read_is_awaited_first() -> None:
    """From when it was first asked for until a reading would be stale; then it is the default."""
    levels = [STEADY.level(None, at_s * S, "no answer", asked_us=10 * S) for at_s in (10, 69, 70)]
    assert [level.freshness for level in levels] == ["awaited", "awaited", "default"]
    assert levels[0].sentence == "no answer; what depends on it stays as it is, for up to 60s"


def test_a_trifle_beyond_a_bound_is_the_bound() -> None:
    """A share of 1.0001 is all of it, and not a number that can't be; 1.01 is."""
    share = Steady(stale_after_us=S, drift_us=S, default=0.0, least=0.0, most=1.0)
    values = (-0.01, -0.0001, 0.0, 0.9999, 1.0, 1.0001, 1.01, 40.0)
    found = levels_of(Feed(Told(*values), share), *range(len(values)))
    assert [level.freshness == "fresh" for level in found] == [False, *[True] * 5, False, False]
    assert [level.value for level in found[1:6]] == [0.0, 0.0, 0.9999, 1.0, 1.0]
    assert STEADY.rounded(5e9) == 5e9


def test_a_clock_that_goes_back_makes_nothing_stale() -> None:
    """A reading that is from later than now, by whatever clock, is fresh, and does not drift."""
    for back_s in (1, 61, 161):
        assert STEADY.level(Reading(8.0, 1_000 * S), (1_000 - back_s) * S) == Level(
            8.0, "fresh", None, 1_000 * S
        )


@pytest.mark.parametrize(
    "options",
    [
        {"default": math.nan},
        {"default": math.inf},
        {"least": 1.0},
        {"most": -1.0},
        {"drift_us": 0},
        {"stale_after_us": -1},
    ],
)
def test_a_steadying_that_could_jump_is_refused(options: dict[str, Any]) -> None:
    """A default must be a value that would be believed, and a drift takes time."""
    with pytest.raises(BadTelemetry):
        Steady(**({"stale_after_us": 1, "drift_us": 1, "default": 0.0} | options))


VALUES = st.floats(allow_nan=False, allow_infinity=False)
SPANS_US = st.integers(1, 10**9)


@given(VALUES, VALUES, SPANS_US, SPANS_US, st.lists(st.integers(0, 3 * 10**9), min_size=2))
@example(1.7976931348623157e308, -1.7976931348623157e308, 1, 10, [5, 6])
def test_a_gap_never_makes_a_spike(
    value: float, default: float, stale_us: int, drift_us: int, times_us: list[int]
) -> None:
    """Between two good readings the level stays between the last value and the default, moves
    towards the default only, and no faster than the whole way in the time of the drift."""
    steady = Steady(stale_after_us=stale_us, drift_us=drift_us, default=default)
    low, high = sorted((value, default))
    way = abs(Fraction(default) - Fraction(value))
    rounding = 4 * Fraction(max(abs(low), abs(high), sys.float_info.min)) / 2**52
    times_us.sort()
    levels = [steady.level(Reading(value, 0), at_us).value for at_us in times_us]
    assert all(low <= level <= high for level in levels)
    for at in range(1, len(levels)):
        moved = Fraction(levels[at]) - Fraction(levels[at - 1])
        assert abs(moved) <= way * (times_us[at] - times_us[at - 1]) / drift_us + rounding
        assert moved * (1 if default >= value else -1) >= -rounding
    for at_us, level in zip(times_us, levels, strict=True):
        done = min(Fraction(1), max(Fraction(0), Fraction(at_us - stale_us, drift_us)))
        exact = Fraction(value) * (1 - done) + Fraction(default) * done
        assert abs(Fraction(level) - exact) <= rounding


# --- feeds --------------------------------------------------------------------------------------


class Told:
    """A source that a test tells what to do."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.closed = False

    async def read(self, at_us: int) -> Reading | None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return None
        if isinstance(answer, BaseException):
            raise answer
        found: Reading | None = Reading(answer, at_us) if isinstance(answer, float) else answer
        return found

    async def close(self) -> None:
        self.closed = True
        if isinstance(self.answers[0], BaseException):
            raise self.answers[0]


def levels_of(feed: Feed, *times_s: int) -> list[Level]:
    async def run() -> list[Level]:
        levels = []
        for time_s in times_s:
            await feed.refresh(time_s * S)
            levels.append(feed.level(time_s * S))
        return levels

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (None, "the source has no value now"),
        (Unreadable("no answer"), "no answer"),
        (math.nan, "the value nan is no number"),
        (math.inf, "the value inf is no number"),
        (9.5, "the value 19.5 is above 10"),
        (-1.0, "the value -1.5 is below 0"),
        (ValueError("five"), "the source failed: ValueError: five"),
        (TimeoutError(), "the source did not answer within 5s"),
        (Reading("5", 0), "the source failed: TypeError"),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_believable_is_missing(answer: Any, sentence: str) -> None:
    """The last good value, rescaled, is held, with the reason; then a good one is fresh again."""
    steady = Steady(stale_after_us=60 * S, drift_us=100 * S, default=1.0, least=0.0, most=10.0)
    feed = Feed(Told(1.0, answer, 2.0), steady, scale=2.0, offset=0.5)
    good, missing, again = levels_of(feed, 0, 1, 2)
    assert good == Level(2.5, "fresh", None, 0)
    assert missing[:2] == (2.5, "held")
    assert str(missing.sentence).startswith(sentence)
    assert again == Level(4.5, "fresh", None, 2 * S)


def test_a_source_that_is_behind_is_stale_though_it_answers() -> None:
    """What counts is the time of the number, not of the answer; an older number is not believed
    over a newer one, and one from the future is from now."""
    feed = Feed(Told(Reading(8.0, 10 * S)), STEADY)
    assert [level.freshness for level in levels_of(feed, 10, 70, 71, 170)] == [
        "fresh",
        "fresh",
        "drifting",
        "default",
    ]
    older = Feed(Told(Reading(8.0, 10 * S), Reading(5.0, 9 * S)), STEADY)
    assert [level.value for level in levels_of(older, 10, 11)] == [8, 8]
    future = Feed(Told(Reading(8.0, 999 * S), None), STEADY)
    assert [level.freshness for level in levels_of(future, 0, 110)] == ["fresh", "drifting"]


STEPS = st.lists(
    st.tuples(st.integers(1, 80), st.one_of(st.none(), st.floats(-20, 20))), min_size=1
)


@given(STEPS)
def test_a_feed_agrees_with_its_history(steps: list[tuple[int, float | None]]) -> None:
    """The level is that of the last believable reading of all, and of nothing else."""
    steady = Steady(stale_after_us=60 * S, drift_us=100 * S, default=1.0, least=-10.0, most=10.0)
    times_s = [sum(gap for gap, _ in steps[: at + 1]) for at in range(len(steps))]
    levels = levels_of(Feed(Told(*(value for _, value in steps)), steady), *times_s)
    for at, level in enumerate(levels):
        good = [
            (times_s[before], value)
            for before, (_, value) in enumerate(steps[: at + 1])
            if value is not None and -10 <= value <= 10
        ]
        if not good:
            is_soon = times_s[at] - times_s[0] < 60
            assert level[:2] == (1.0, "awaited" if is_soon else "default")
            continue
        then_s, value = good[-1]
        done = min(1.0, max(0.0, (times_s[at] - then_s - 60) / 100))
        assert level.value == pytest.approx(value + (1.0 - value) * done)
        assert (level.freshness == "fresh") == (then_s == times_s[at])


def test_a_slow_or_broken_source_holds_up_no_other() -> None:
    """The good one is fresh while the slow one is still waited for; each has its own reason."""

    async def run() -> tuple[dict[str, Level], dict[str, Level]]:
        sources = {"good": Told(1.0), "slow": Told(asyncio.Event()), "bad": Told(OSError("gone"))}
        telemetry = Telemetry(
            {name: Feed(source, STEADY, timeout_us=S // 5) for name, source in sources.items()}
        )
        refreshing = asyncio.create_task(telemetry.refresh(0))
        while telemetry.levels(0)["good"].freshness != "fresh":
            await asyncio.sleep(0)
        assert not refreshing.done()
        before = telemetry.levels(0)
        await refreshing
        await telemetry.close()
        assert all(source.closed for source in sources.values())
        return before, telemetry.levels(0)

    before, after = asyncio.run(run())
    assert list(after) == ["good", "slow", "bad"]
    assert str(before["slow"].sentence).startswith("nothing was read yet")
    assert str(after["slow"].sentence).startswith("the source did not answer within 0.2s")
    assert str(after["bad"].sentence).startswith("the source failed: OSError: gone")
    assert after["good"] == Level(1.0, "fresh", None, 0)


def test_a_source_that_hangs_does_not_keep_others_from_being_read_again() -> None:
    """Each is asked anew as soon as it has answered; nobody waits longer than it wants to."""

    async def run() -> list[float]:
        hanging = Told(asyncio.Event())
        slow = Feed(hanging, STEADY, timeout_us=3_600 * S)
        telemetry = Telemetry({"good": Feed(Told(1.0, 2.0, 3.0), STEADY), "slow": slow})
        found = []
        for at in range(3):
            await telemetry.refresh(at * S, wait_s=0.01)
            found.append(telemetry.levels(at * S)["good"].value)
        assert telemetry.levels(0)["slow"].freshness == "awaited"
        async with asyncio.timeout(30):
            await telemetry.close()
        assert hanging.closed
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return found

    assert asyncio.run(run()) == [1, 2, 3]


def test_nothing_to_read_is_read_at_once() -> None:
    """Without a feed there is nothing to wait for."""
    asyncio.run(Telemetry({}).refresh(0))


def test_whoever_stops_a_refresh_stops_it() -> None:
    """A task that is cancelled while it reads ends at once, and no failure is made up."""

    async def run() -> Level:
        feed = Feed(Told(asyncio.Event()), STEADY)
        refreshing = asyncio.create_task(Telemetry({"a": feed}).refresh(0))
        await asyncio.sleep(0.01)
        refreshing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await refreshing
        return feed.level(0)

    assert str(asyncio.run(run()).sentence).startswith("nothing was read yet")


def test_a_source_that_breaks_and_comes_back(server: Answers) -> None:
    """Over a real connection: good, then every kind of failure, then good again."""

    async def run() -> list[tuple[float, str]]:
        feed = Feed(JsonHttp(server.url, "v"), STEADY)
        telemetry = Telemetry({"power": feed})
        found: list[tuple[float, str]] = []
        breakages: list[Callable[[], None]] = [
            lambda: server.says({"v": 8}),
            lambda: server.says({"v": 8}, 500),
            lambda: setattr(server, "body", None),
            lambda: setattr(server, "body", b"{"),
            lambda: server.says({"v": 9}),
        ]
        for at, change in enumerate(breakages):
            change()
            await telemetry.refresh(at * 30 * S)
            level = telemetry.levels(at * 30 * S)["power"]
            found.append((level.value, level.freshness))
        await telemetry.close()
        return found

    expected = [(8, "fresh"), (8, "held"), (8, "held"), (pytest.approx(5.6), "drifting")]
    assert asyncio.run(run()) == [*expected, (9, "fresh")]


# --- in a document ------------------------------------------------------------------------------


class Map(Struct):
    power: SourceDescription


def described(text: str) -> SourceDescription:
    return read(f"power: {text}", Map, file_name="map.yaml").value.power


def test_a_replay_is_described() -> None:
    """The file is beside the document; every option reaches the feed."""
    written(ROWS, "power.csv")
    feed = described(
        "{csv: power.csv, column: row_2, time: t, speed: 60, start: 30s, at_end: loop, scale: 0.1, "
        "offset: 1, stale_after: 5s, drift: 1m, default: 2, least: 0, most: 9}"
    ).feed(SCRATCH[0], default=5.0)
    assert [level.value for level in levels_of(feed, 0, 1)] == [3, 2]
    assert feed.steady == Steady(
        stale_after_us=5 * S, drift_us=60 * S, default=2.0, least=0.0, most=9.0
    )
    plain = described("{csv: power.csv, column: row_2}").feed(SCRATCH[0], default=5.0)
    assert plain.steady.default == 5.0
    assert [level.value for level in levels_of(plain, 0, 30)] == [10, 20]
    ranged = described("{csv: power.csv, column: row_2, most: 99}").feed(
        SCRATCH[0], default=5.0, least=0.0, most=9.0
    )
    assert (ranged.steady.least, ranged.steady.most) == (0.0, 99.0)


def test_addresses_and_functions_are_described(server: Answers, functions: Any) -> None:
    """Each kind becomes its source, with its own options."""
    server.says({"a": {"b": 2}, "at": 5} | result("scalar", [0, "3"]))
    feeds = {
        "query": described(f"{{prometheus: '{server.url}', query: up}}"),
        "place": described(f"{{json: '{server.url}', path: a.b, timestamp: at}}"),
        "slow": described(f"{{json: '{server.url}/slow', path: a.b, timeout: 50ms}}"),
        "code": described(f"{{python: '{functions.__name__}:seconds'}}"),
    }

    async def run() -> dict[str, Level]:
        telemetry = Telemetry(
            {name: each.feed(SCRATCH[0], default=7.0) for name, each in feeds.items()}
        )
        await telemetry.refresh(60 * S)
        await telemetry.close()
        return telemetry.levels(66 * S)

    levels = asyncio.run(run())
    assert {name: level.value for name, level in levels.items()} == {
        "query": 3,
        "place": pytest.approx(2 + 5 * 1 / 600),
        "slow": 7,
        "code": 60,
    }


@pytest.mark.parametrize(
    ("text", "column", "sentence"),
    [
        ("{}", 8, "a source is exactly one of: csv, prometheus, json, python; write one"),
        ("{csv: a, json: b}", 8, "a source is exactly one of: csv, prometheus, json, python"),
        ("{prometheus: a}", 8, "a source with 'prometheus' needs 'query'; add it"),
        ("{json: a}", 8, "a source with 'json' needs 'path'; add it"),
        ("{python: a, column: b}", 29 - 1, "this belongs to csv; take it out"),
        ("{csv: a, token_variable: b}", 33, "this belongs to prometheus or json; take it out"),
        ("{csv: a, speed: 0}", 24, "this is 0.0; write more than 0"),
        ("{csv: a, drift: 0s}", 24, "this is 0s; write more than 0s"),
        ("{csv: a, drift: 5}", 24, "a duration needs a unit; write 5s"),
        ("{csv: a, at_end: stop}", 25, "'stop' is none of: hold, loop"),
        ("{csv: a, least: 2, most: 1}", 33, "this is less than 'least'"),
        ("{csv: a, least: 2, default: 1}", 36, "this is not between 'least' and 'most'"),
        ("{csv: a, default: .nan}", 26, "here must be a number in plain digits"),
        ("{csv: a, defalt: 1}", 17, "there is no field 'defalt'; did you mean 'default'?"),
    ],
)
def test_what_is_wrong_with_a_description_is_said_with_its_place(
    text: str, column: int, sentence: str
) -> None:
    """In the line and column of the field that is wrong."""
    with pytest.raises(BadDocument) as caught:
        described(text)
    assert str(caught.value).startswith(f"map.yaml:1:{column}: {sentence}")


def test_a_description_of_what_is_not_there_is_refused() -> None:
    """A default that would not be believed, a file that is not there."""
    with pytest.raises(BadTelemetry, match="the default 5 is above 1; take another"):
        described("{csv: power.csv, most: 1}").feed(SCRATCH[0], default=5.0)
    with pytest.raises(BadTelemetry, match="there is no file"):
        described("{csv: nowhere.csv}").feed(SCRATCH[0], default=5.0)
