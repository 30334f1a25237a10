"""The wheel, installed bare and with each extra alone, does what it promises.

Nothing is there but what the wheel and the extra ask for, see `installing`.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import IO

import pytest
from packaging.requirements import Requirement

from installing import Installation, closure, installed
from laissez.cli.terminal import failures
from serving import Served

REPO = Path(__file__).resolve().parent.parent
PATIENCE_S = 60
JOB = ("--work", "48h", "--deadline", "60h", "--changeover", "12m", "--price-ratio", "3.3")
FIGURE = ("reproduce", "6", "--quick", "--regime", "1", "--seeds", "1", "--no-cache")
MAP = """\
telemetry: {row: {json: "URL", path: load}}
base: {h100: 2.00}
every: 100ms
maps: [{map: power, rows: {h100: row}, comfortable: 50%, full: 100%}]
"""


def build(checkout: Path, folder: Path) -> tuple[Path, Path]:
    """The wheel and the source archive, as `make dist` builds them."""
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(words, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(REPO, tmp_path_factory.mktemp("dist"))[0]


def asked_by(wheel: Path, extra: str) -> set[str]:
    """The distributions, of those that are here, to which the wheel with the extra comes."""
    name, version = wheel.name.split("-")[:2]
    inside = zipfile.Path(zipfile.ZipFile(wheel)) / f"{name}-{version}.dist-info"
    there = installed() | {name: PathDistribution(inside)}
    return closure([f"{name}[{extra}]"], there) - {name}


def install(folder: Path, wheel: Path, extra: str) -> Installation:
    installation = Installation(folder)
    installation.link(asked_by(wheel, extra))
    installation.install(f"{wheel}[{extra}]" if extra else str(wheel))
    return installation


Installed = Callable[[str], Installation]


@pytest.fixture(scope="module")
def installed_with(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An installation with an extra, or none; one for a file of tests."""
    made: dict[str, Installation] = {}

    def make(extra: str) -> Installation:
        if extra not in made:
            made[extra] = install(tmp_path_factory.mktemp(extra or "bare"), wheel, extra)
        return made[extra]

    return make


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


# --- what each promises -------------------------------------------------------------------------


def test_bare_it_plays_scenarios_and_reads_files(installed_with: Installed) -> None:
    """The market, the simulator, adapters and maps need no extra."""
    bare = installed_with("")
    assert "Evaluating" in said(bare.laissez("--help"))
    bare.laissez("sim", "init", "scenario.yaml")
    assert "Demand over capacity" in said(bare.laissez("sim", "run", "scenario.yaml", "--no-cache"))
    for file in sorted((REPO / "examples" / "adapters").glob("*.yaml")):
        assert "it may owe at most" in said(bare.laissez("adapter", "check", str(file)))
    file = REPO / "examples" / "inframaps" / "power.yaml"
    assert "never below" in said(bare.laissez("inframap", "check", str(file)))
    assert "laissez" in said(bare.laissez("completion", "bash"))
    python = str(bare.root / "bin" / "python")
    assert "Revenue" in said(bare.run(python, "-m", "laissez.sample.story", "--speed", "0"))


def test_bare_it_trades(installed_with: Installed, real: Served) -> None:
    """The command line and the SDK need no extra."""
    bare = installed_with("")
    login = {"LAISSEZ_URL": real.url, "LAISSEZ_TOKEN": real.secrets["operator"]}
    applied = REPO / "examples" / "cluster.yaml"
    done = bare.laissez("topology", "apply", str(applied), "--yes", **login)
    # The services of the tests give new trees no guard, and so it warns.
    assert done.returncode == 0 and "no commitment" in done.stderr, done
    login["LAISSEZ_TOKEN"] = real.secrets["ada"]
    assert "h100" in said(bare.laissez("buy", "h100", "--limit", "9", **login))
    program = "import laissez; print(len(laissez.Client().holdings()))"
    assert said(bare.run(str(bare.root / "bin" / "python"), "-c", program, **login)) == "1\n"


@contextmanager
def running(there: Installation, *words: str, **environment: str) -> Iterator[IO[str]]:
    """What a command says until Ctrl-C stops it; it must then end well."""
    process = subprocess.Popen(
        [str(there.root / "bin" / "laissez"), *words],
        cwd=there.home,
        env=there.environment | environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_with_service_it_serves(installed_with: Installed) -> None:
    """An exchange is started, and asked from the same installation, also over REST."""
    there = installed_with("service")
    options = ("--port", "0", "--allow-private-webhooks", "--json")
    with running(there, "up", "journal", *options) as lines:
        started = json.loads(lines.readline())
        login = {"LAISSEZ_URL": started["url"], "LAISSEZ_TOKEN": started["operator_token"]}
        assert "operator" in said(there.laissez("status", **login))
        assert there.laissez("webhooks", "add", "https://hooks.example/", **login).returncode == 0


def test_with_service_it_shows_the_sample(installed_with: Installed) -> None:
    """What `make up` runs."""
    with running(installed_with("service"), "up", "sample", "--sample", "--port", "0") as lines:
        assert any("takes h100/" in line for line in lines)


def test_with_service_it_is_measured(installed_with: Installed) -> None:
    """Server and load are processes of their own."""
    load = ("--connections", "2", "--under-way", "2", "--seconds", "0.2", "--rounds", "1")
    done = installed_with("service").laissez("bench", "service", *load, "--json")
    assert '"durable": true' in said(done)


def test_with_deadline_it_plans_and_draws(installed_with: Installed) -> None:
    """Deadlines and their pictures."""
    there = installed_with("deadline")
    assert "Pilot" in said(there.laissez("deadline", "plan", *JOB, "--plot", "plan.png"))
    assert said(there.laissez("deadline", "traces", "--plot", "traces.svg"))
    assert {"plan.png", "traces.svg"} <= {each.name for each in there.home.iterdir()}


def test_with_simulation_it_compares_bounds_and_draws(installed_with: Installed) -> None:
    """What the simulator can do with pictures and with the bound, and a figure of ours."""
    there = installed_with("simulation")
    there.laissez("sim", "init", "scenario.yaml")
    wanted = ("--bound", "--no-cache", "--contract", "market", "--plot", "contracts.svg")
    assert "Demand over capacity" in said(there.laissez("sim", "compare", "scenario.yaml", *wanted))
    wanted = ("--contract", "market", "--contract", "clairvoyant", "--plot", "figure.png")
    assert "Mean retention" in said(there.laissez(*FIGURE, *wanted))
    assert {"contracts.svg", "figure.png"} <= {each.name for each in there.home.iterdir()}


class Loaded(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"load": 0.9}')

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def load_at_an_address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Loaded) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/load"
        finally:
            server.shutdown()
            thread.join()


def test_with_telemetry_it_reads_an_address(installed_with: Installed, real: Served) -> None:
    """A map asks it, and sets a floor by what it answers."""
    there = installed_with("telemetry")
    login = {"LAISSEZ_URL": real.url, "LAISSEZ_TOKEN": real.secrets["operator"]}
    with load_at_an_address() as url:
        (there.home / "map.yaml").write_text(MAP.replace("URL", url))
        with running(there, "inframap", "run", "map.yaml", **login) as lines:
            assert any("base 2.00, power +" in line for line in lines)


@pytest.mark.parametrize("page", ["README.md", "docs/operator.md"])
def test_the_pages_say_how_to_install_the_wheel(wheel: Path, tmp_path: Path, page: str) -> None:
    """With an extra, however the wheel is called by then."""
    found = re.search(
        r'pip install ("\$\(echo (.*)laissez-\*\.whl\)\[service\]")', (REPO / page).read_text()
    )
    assert found
    line, folder = found[1], tmp_path / found[2]
    folder.mkdir(exist_ok=True)
    shutil.copy(wheel, folder)
    there = Installation(tmp_path / "there")
    there.link(asked_by(wheel, "service"))
    wanted = said(there.run("sh", "-c", f"cd '{tmp_path}'; printf '%s' {line}"))
    there.install(str(tmp_path / wanted))
    assert "Start the service." in said(there.laissez("up", "--help"))


# --- what it says when an extra is missing ------------------------------------------------------

LACKING = [
    ("", ("up",), "uvloop", "service"),
    ("", ("up", "--sample"), "uvloop", "service"),
    ("", ("bench", "service"), "uvloop", "service"),
    ("", ("deadline", "plan", *JOB), "numpy", "deadline"),
    ("", ("deadline", "traces"), "numpy", "deadline"),
    ("", ("deadline", "evaluate"), "numpy", "deadline"),
    ("", ("sim", "run", "s.yaml", "--plot", "a.png"), "matplotlib", "simulation"),
    ("deadline", ("sim", "compare", "s.yaml", "--bound"), "highspy", "simulation"),
    ("deadline", FIGURE, "highspy", "simulation"),
    ("", (*FIGURE, "--plot", "a.png"), "matplotlib", "simulation"),
    ("", ("inframap", "check", "map.yaml"), "httpx", "telemetry"),
    ("telemetry", ("up",), "uvloop", "service"),
]


@pytest.mark.parametrize(("extra", "words", "package", "lacks"), LACKING)
def test_it_says_which_extra_to_install(
    installed_with: Installed, extra: str, words: tuple[str, ...], package: str, lacks: str
) -> None:
    """One sentence, the exit code of what is not right, and nothing done before."""
    there = installed_with(extra)
    there.laissez("sim", "init", "s.yaml")
    (there.home / "map.yaml").write_text(MAP.replace("URL", "http://127.0.0.1:9/load"))
    before = sorted(there.home.iterdir())
    done = there.laissez(*words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert package in done.stderr
    assert f"pip install 'laissez[{lacks}]'\n" in done.stderr
    assert sorted(there.home.iterdir()) == before


@pytest.mark.parametrize("words", [words for *_, words, _, _ in LACKING if words[0] != "inframap"])
def test_programs_are_told_by_a_code(installed_with: Installed, words: tuple[str, ...]) -> None:
    """With --json, the refusal has a code that stays."""
    there = installed_with("")
    there.laissez("sim", "init", "s.yaml")
    done = there.laissez(*words, "--json")
    assert done.returncode == 2
    assert json.loads(done.stderr)["code"] == "extra_missing"


def test_a_program_that_starts_a_service_is_told_too(installed_with: Installed) -> None:
    """It is one line of what the child says."""
    bare = installed_with("")
    done = bare.run(str(bare.root / "bin" / "python"), "-m", "laissez.service", "journal")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "needs uvloop, which is not installed: pip install 'laissez[service]'" in done.stderr


def test_what_it_says_to_do_helps(wheel: Path, tmp_path: Path) -> None:
    """pip adds the extra to the installation that is there, and looks for no other laissez."""
    there = install(tmp_path, wheel, "")
    refused = there.laissez("up", "--port", "0")
    hint = re.search(r"pip install '(.*)'", refused.stderr)
    assert hint
    there.link(asked_by(wheel, Requirement(hint[1]).extras.pop()))
    there.install(hint[1])
    with running(there, "up", "--port", "0", "--json") as lines:
        assert "operator_token" in json.loads(lines.readline())


def test_an_extra_that_forgets_a_package_is_found(wheel: Path, tmp_path: Path) -> None:
    """What no requirement names is not there, although it lies beside these tests."""
    forgetful = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(forgetful, "w") as less:
        for name in whole.namelist():
            lines = whole.read(name)
            if name.endswith("/METADATA"):
                lines = re.sub(rb"Requires-Dist: uvicorn.*\n", b"", lines)
            less.writestr(name, lines)
    there = install(tmp_path, forgetful, "service")
    assert "'laissez up' needs uvicorn" in there.laissez("up").stderr


# --- what is written down twice -----------------------------------------------------------------


def test_the_extras_are_those_of_the_project() -> None:
    """What a refusal knows of extras, and what make installs, is what pyproject.toml says."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    extras = {
        extra: {Requirement(each).name for each in asked}
        for extra, asked in project["optional-dependencies"].items()
    }
    assert extras == failures.EXTRAS
    (made,) = re.findall(r"^EXTRAS := (.*)$", (REPO / "Makefile").read_text(), re.MULTILINE)
    assert set(made.split(",")) == set(extras)


def test_the_source_archive_builds_the_same_wheel(tmp_path: Path) -> None:
    """So whoever packages it needs no checkout; and the tests are in it."""
    wheel, source = build(REPO, tmp_path / "dist")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / source.name.removesuffix(".tar.gz")
    again, _ = build(unpacked, tmp_path / "again")
    assert again.read_bytes() == wheel.read_bytes()
    for name in ("Makefile", "requirements.txt", "requirements.in", ".ci/run", "tests/conftest.py"):
        assert (unpacked / name).is_file(), name
