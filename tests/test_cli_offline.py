"""What the command line does without a service: journals, completion, its own papers."""

import asyncio
import json
import lzma
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from laissez.cli.main import COMMANDS, cli
from laissez.cli.reference import commands, reference
from laissez.cli.terminal.exits import MEANINGS
from laissez.exchange.access import Limits, Principal, new_token
from laissez.exchange.offline import grant
from laissez.exchange.pipeline import Exchange, Ticket
from laissez.exchange.sqlite_format import FORMAT
from laissez.exchange.sqlite_journal import FILE_NAME, SqliteJournal
from laissez.model import ChangeFloor, Instruction, OfferResource, PlaceOrder, Refused

REPO = Path(__file__).parents[1]
PAGE = REPO / "docs" / "cli.md"
ALL = dict(commands())
LEAVES = {path: each for path, each in ALL.items() if not isinstance(each, click.Group)}


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def text(*words: str, exit_code: int = 0) -> str:
    result = run(*words)
    assert result.exit_code == exit_code, result.output
    return result.stdout


def run_json(*words: str) -> Any:
    return json.loads(text(*words, "--json"))


# --- journals -----------------------------------------------------------------------------------


class Answered:
    """Where tickets are answered, and when all of them are."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.done = asyncio.Event()

    def answer(
        self, request_id: int, sequence: int, at: int, events: object, repeated: bool
    ) -> None:
        self._left -= 1
        if not self._left:
            self.done.set()

    def refuse(self, refused: Refused) -> None:
        raise AssertionError(refused)

    def flush(self) -> None:
        pass


DONE: tuple[tuple[str, Instruction], ...] = (
    ("operator", ChangeFloor("h100", 2_000_000)),
    ("operator", OfferResource("h100/r1/g0")),
    ("ml", PlaceOrder("h100", 3_000_000)),
    ("bio", PlaceOrder("h100", 4_000_000, order="mine")),
)


async def trade(folder: Path) -> None:
    """A short life of an exchange, in two groups and with a snapshot at the end."""
    journal = SqliteJournal(folder)
    _, operator = new_token("operator", None, at=0)
    grant(journal, operator)
    exchange = Exchange(journal)
    callers = {
        name: Principal(new_token("tenant", name, at=0)[1], Limits()) for name in ("ml", "bio")
    } | {"operator": Principal(operator, Limits())}
    for half in (DONE[:2], DONE[2:]):
        answered = Answered(len(half))
        for number, (name, do) in enumerate(half):
            key = "a-key" if name == "bio" else None
            exchange.submit(Ticket(callers[name], do, key, number, answered))
        await answered.done.wait()
    await exchange.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "journal"
    asyncio.run(trade(made))
    return made


def test_info(folder: Path) -> None:
    """How much a journal holds."""
    assert run_json("journal", "info", str(folder))["sequence"] == 5
    told = text("journal", "info", str(folder))
    assert "last entry" in told and "ago)" in told


def test_info_shows_the_format_on_the_disk(folder: Path, tmp_path: Path) -> None:
    """The format is that of the file: an old one, which is read as it is, has its own."""
    assert run_json("journal", "info", str(folder))["format"] == FORMAT
    assert re.search(rf"format +{FORMAT}\b", text("journal", "info", str(folder)))
    old = REPO / "tests" / "old_journals" / "format-1" / "stopped" / f"{FILE_NAME}.xz"
    (tmp_path / FILE_NAME).write_bytes(lzma.decompress(old.read_bytes()))
    assert run_json("journal", "info", str(tmp_path))["format"] == 1


def test_info_counts_the_write_ahead_log(folder: Path) -> None:
    """What a running service has not moved into the file yet is on the disk, too."""
    journal = SqliteJournal(folder)
    _, token = new_token("operator", None, at=0)
    grant(journal, token)
    size = run_json("journal", "info", str(folder))["size_bytes"]
    log = (folder / f"{FILE_NAME}-wal").stat().st_size
    assert log > 0
    assert size == (folder / FILE_NAME).stat().st_size + log
    journal.close()


def test_info_of_a_new_journal(tmp_path: Path) -> None:
    """A journal without an entry has no last one."""
    SqliteJournal(tmp_path).close()
    assert "none yet" in text("journal", "info", str(tmp_path))
    assert run_json("journal", "verify", str(tmp_path))["sequence"] == 0


def test_verify(folder: Path) -> None:
    """A sound journal is told to be, with its digest."""
    assert text("journal", "verify", str(folder)).startswith(
        "sound: 5 commands in 3 groups, 1 snap"
    )
    found = run_json("journal", "verify", str(folder))
    assert found["sequence"] == 5 and found["snapshots_compared"] == 1 and found["digest"]


def test_an_unsound_journal_is_noticed(folder: Path) -> None:
    """A changed row is exit code 6, with a sentence and no traceback."""
    connection = sqlite3.connect(folder / FILE_NAME)
    connection.execute(
        "UPDATE groups SET entries = CAST(replace(entries, '3000000', '3000001') AS BLOB)"
    )
    connection.commit()
    connection.close()
    result = run("journal", "verify", str(folder))
    assert result.exit_code == 6
    assert result.stderr.startswith("laissez: the group of commands")
    error = json.loads(run("journal", "verify", str(folder), "--json").stderr)
    assert error["code"] == "journal_unsound"


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    """A folder without a journal is a wrong argument; a file that is none is unsound."""
    assert run("journal", "verify", str(tmp_path)).exit_code == 2
    assert run("journal", "info", str(tmp_path / "nowhere")).exit_code == 2
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 100)
    assert run("journal", "info", str(tmp_path)).exit_code == 6


def test_export(folder: Path, tmp_path: Path) -> None:
    """Every entry is a line: who asked for what, when, under which key."""
    lines = [json.loads(line) for line in text("journal", "export", str(folder)).splitlines()]
    assert [line["sequence"] for line in lines] == [1, 2, 3, 4, 5]
    assert [line["author"] for line in lines][3:] == ["ml", "bio"]
    assert lines[4]["key"] == "a-key" and lines[3]["key"] is None
    assert lines[4]["do"]["type"] == "Place" and lines[4]["do"]["order"] == "bio/mine"
    assert list(lines[0]) == ["sequence", "at_us", "author", "key", "do"]
    file = tmp_path / "entries.jsonl"
    assert text("journal", "export", str(folder), "-o", str(file)) == f"5 entries are in {file}\n"
    assert [json.loads(line) for line in file.read_text().splitlines()] == lines
    again = run("journal", "export", str(folder), "-o", str(file))
    assert again.exit_code == 2 and "say --force" in again.stderr
    told = run_json("journal", "export", str(folder), "-o", str(file), "--force")
    assert told["entries"] == 5


def test_backup_while_the_journal_is_written(folder: Path, tmp_path: Path) -> None:
    """A copy is a journal of its own, also of one that is in use; never over another."""
    writer = SqliteJournal(folder)
    try:
        copy = tmp_path / "copy"
        assert run_json("journal", "backup", str(folder), str(copy))["size_bytes"] > 0
    finally:
        writer.close()
    assert copy.stat().st_mode & 0o077 == 0
    digest = run_json("journal", "verify", str(folder))["digest"]
    assert run_json("journal", "verify", str(copy))["digest"] == digest
    assert run("journal", "backup", str(folder), str(copy)).exit_code == 2
    assert "is a copy" in text("journal", "backup", str(folder), str(tmp_path / "another"))


# --- the commands and their papers --------------------------------------------------------------


@pytest.mark.parametrize("path", ALL)
def test_every_command_says_what_it_does(path: str) -> None:
    """Each has a help text, and is in the reference."""
    assert ALL[path].help
    assert f"\n## {path}\n" in PAGE.read_text()


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_speaks_json(path: str) -> None:
    """Each takes --json, and each of its options says what it is for."""
    options = [each for each in LEAVES[path].params if isinstance(each, click.Option)]
    assert any("--json" in each.opts for each in options)
    assert [each.opts for each in options if not each.help] == []


def test_the_reference_is_fresh() -> None:
    """docs/cli.md is what `python -m laissez.cli.reference` prints."""
    assert PAGE.read_text() == reference()


def test_the_list_of_commands_is_true() -> None:
    """What `laissez --help` says of a command without importing it, the command says itself."""
    for _, entries in COMMANDS:
        for entry in entries:
            command = ALL[f"laissez {entry.name}"]
            assert command.name == entry.name
            assert command.get_short_help_str(limit=200) == entry.help


def test_exit_codes_are_documented() -> None:
    """Each code is in the help and in the reference."""
    told = " ".join(text("--help").split())
    for code, meaning in MEANINGS.items():
        assert f"{code.value} {meaning}" in told
        assert f"| {code.value} | {meaning} |" in PAGE.read_text()


def test_without_a_command_there_is_help() -> None:
    """`laissez`, and a group alone, print what there is."""
    for words in ((), ("topology",)):
        result = run(*words)
        assert result.exit_code == 2 and "Usage: laissez" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    """The script for each shell calls laissez back."""
    assert "_LAISSEZ_COMPLETE" in text("completion", shell)
    assert "_LAISSEZ_COMPLETE" in run_json("completion", shell)["script"]


# --- in a process of its own --------------------------------------------------------------------


def process(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "laissez.cli.main", *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_imports_no_command() -> None:
    """`laissez --help` is quick because it needs neither rich nor the SDK nor the exchange."""
    script = (
        "import sys; from laissez.cli.main import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert "laissez.cli.main" in loaded
    assert loaded.isdisjoint({"rich", "picows", "yaml", "laissez.client", "laissez.exchange"})


def test_words_are_completed_in_the_shell() -> None:
    """The shell is told the commands, with what they do, and the commands of a group."""
    done = process(_LAISSEZ_COMPLETE="zsh_complete", COMP_WORDS="laissez b", COMP_CWORD="1")
    assert {"buy", "bill"} <= set(done.stdout.split("\n"))
    done = process(_LAISSEZ_COMPLETE="zsh_complete", COMP_WORDS="laissez journal v", COMP_CWORD="2")
    assert "verify" in done.stdout.split("\n")


def test_a_reader_who_leaves_is_no_error(folder: Path) -> None:
    """When the pipe's other end is gone the command ends quietly."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "laissez.cli.main", "journal", "export", str(folder)],
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_nobody_is_logged_in(tmp_path: Path) -> None:
    """Without a login, in a process of its own: exit code 5 and what to do."""
    place = {"LAISSEZ_CONFIG": str(tmp_path / "none.json"), "LAISSEZ_URL": "", "LAISSEZ_TOKEN": ""}
    done = process("status", **place)
    assert done.returncode == 5 and "laissez login" in done.stderr
