"""The journal's file: what it keeps, who may read it, and that nothing in it changes unnoticed."""

import contextlib
import multiprocessing
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laissez.exchange.journal import (
    NO_LINK,
    Group,
    JournalError,
    JournalFailed,
    NotDurable,
    Snapshot,
    link_of,
)
from laissez.exchange.records import Cordon, Entry, Uncordon, read_entries, write_entries
from laissez.exchange.recovery import recover, verify
from laissez.exchange.snapshots import Child, take
from laissez.exchange.sqlite_journal import FILE_NAME, SqliteJournal
from laissez.exchange.venue import Venue
from laissez.market import RULES
from laissez.model import AddResource, Advance, Amend, Place, SetFloor, Settle

GROUPS = 4


def entries_at(number: int) -> list[Entry]:
    """A group of two or three entries; each group is different."""
    at = 10 * number
    made = [
        Entry("operator:1", AddResource(at, f"h/{number}", (("rack", "7"),))),
        Entry("ada", Place(at, "ada", f"ada/{number}", "h", 5 + number), f"key-{number}"),
    ]
    return made if number % 2 else [*made, Entry(":clock", Advance(at))]


def write(journal: SqliteJournal, number: int) -> None:
    entries = entries_at(number)
    journal.append(
        journal.head.sequence + 1, len(entries), 10 * number, RULES, write_entries(entries)
    )


def make(folder: Path, groups: int = GROUPS) -> list[Entry]:
    """A journal with some groups; what was written."""
    with contextlib.closing(SqliteJournal(folder)) as journal:
        for number in range(1, groups + 1):
            write(journal, number)
    return [entry for number in range(1, groups + 1) for entry in entries_at(number)]


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[SqliteJournal]:
    with contextlib.closing(SqliteJournal(folder, read_only=True)) as journal:
        yield journal


def alter(folder: Path, statement: str, *values: object) -> None:
    """Change the file behind the journal's back."""
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        connection.execute(statement, values)
        connection.commit()


def read_all(journal: SqliteJournal) -> list[Entry]:
    return [entry for group in journal.groups() for entry in group.read()]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- what it keeps ------------------------------------------------------------------------------


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Every entry, in order, numbered without gaps; the last group is known when it is opened."""
    written = make(tmp_path)
    with reading(tmp_path) as journal:
        assert read_all(journal) == written
        groups = list(journal.groups())
        assert [group.first for group in groups] == [1, 3, 6, 8]
        assert [group.last for group in groups] == [2, 5, 7, 10]
        assert [group.at_us for group in groups] == [10, 20, 30, 40]
        assert (journal.head.sequence, journal.head.at_us, journal.head.rules) == (10, 40, RULES)
        assert journal.head.link == groups[-1].link
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        write(journal, 5)
        assert journal.head.sequence == 12
        verify(journal)


def test_an_empty_journal(tmp_path: Path) -> None:
    """It begins at number 1, and is sound."""
    with contextlib.closing(SqliteJournal(tmp_path / "new" / "folder")) as journal:
        assert journal.head.sequence == 0
        assert list(journal.groups()) == []
        assert (verify(journal).sequence, verify(journal).groups) == (0, 0)
        assert recover(journal, 10).sequence == 0
        write(journal, 1)
        assert [group.first for group in journal.groups()] == [1]


def test_groups_from_anywhere(tmp_path: Path) -> None:
    """Those that hold anything after a number; backwards those that begin at it or before."""
    make(tmp_path)
    with reading(tmp_path) as journal:
        for after in range(12):
            expected = [g.first for g in journal.groups() if g.last > after]
            assert [group.first for group in journal.groups(after)] == expected
            backwards = [g.first for g in journal.groups() if g.first <= after]
            assert [g.first for g in journal.groups_backwards(after)] == backwards[::-1]


def test_every_record_survives_writing() -> None:
    """Cordons, keys, and the difference between leaving an expiry alone and taking it away."""
    entries = [
        Entry("operator:1", Cordon(1, "h")),
        Entry("operator:1", Uncordon(2, "h"), "key"),
        Entry("ada", Amend(3, "ada", "ada/1", 7)),
        Entry("ada", Amend(3, "ada", "ada/1", 7, expires=None), "ü\0"),
        Entry("ada", Place(4, "ada", "ada/2", "h", 10**40, None, -1)),
        Entry(":clock", Settle(5)),
    ]
    assert list(read_entries(write_entries(entries))) == entries


def test_bookmarks_are_kept(tmp_path: Path) -> None:
    """The newest of each name, and nothing of what was removed."""
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        for name, sequence in (("w1", 3), ("w2", 4), ("w1", 9)):
            journal.save_bookmark(name, sequence)
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        assert journal.bookmarks() == {"w1": 9, "w2": 4}
        journal.remove_bookmark("w1")
        assert journal.bookmarks() == {"w2": 4}


def a_snapshot(sequence: int) -> Snapshot:
    return Snapshot(sequence, RULES, str(sequence), b"state")


def test_few_snapshots_are_kept(tmp_path: Path) -> None:
    """The newest, and of the older ones some that are far enough apart to begin with."""
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        for sequence in (1, 5, 9, 11, 19, 25, 38, 39):
            journal.save_snapshot(a_snapshot(sequence), apart=10, keep=3)
        assert [label.sequence for label in journal.snapshots()] == [19, 25, 39]
        assert journal.snapshot(25, RULES) == a_snapshot(25)
        assert journal.snapshot(5, RULES) is None


def test_a_child_writes_the_same_snapshot() -> None:
    """A fork's snapshot is the one taken here and now, and the parent may go on meanwhile."""
    venue = Venue()
    for number in range(1, 4):
        for entry in entries_at(number):
            venue.apply(entry.do)
    expected = take(venue, 7)
    child = Child(venue, 7)
    venue.apply(SetFloor(1_000, "h", 99))
    assert child.collect() == expected
    assert take(venue, 7) != expected


# --- who may read and write ---------------------------------------------------------------------


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    """The folder that is made, the file, its log, and a backup of it."""
    folder = tmp_path / "journal"
    with contextlib.closing(SqliteJournal(folder)) as journal:
        write(journal, 1)
        assert mode(folder) == 0o700
        names = {path.name: mode(path) for path in folder.iterdir() if path.name != "lock"}
        assert names == {
            FILE_NAME: 0o600,
            f"{FILE_NAME}-wal": 0o600,
            f"{FILE_NAME}-shm": 0o600,
            f"{FILE_NAME}-head": 0o600,
        }
        journal.backup(tmp_path / "backup")
    assert mode(tmp_path / "backup") == 0o600


def open_it(folder: Path, outcome: "multiprocessing.Queue[str]") -> None:
    try:
        SqliteJournal(folder).close()
    except JournalError as error:
        outcome.put(str(error))
    else:
        outcome.put("opened")


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """A second one is refused, in this process and in another, until the first has closed."""
    processes = multiprocessing.get_context("fork")

    def in_another_process() -> str:
        outcome: multiprocessing.Queue[str] = processes.Queue()
        child = processes.Process(target=open_it, args=(tmp_path, outcome))
        child.start()
        said = outcome.get(timeout=20)
        child.join(20)
        outcome.close()
        outcome.join_thread()
        return said

    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        write(journal, 1)
        with pytest.raises(JournalError, match="another laissez is running"):
            SqliteJournal(tmp_path)
        with reading(tmp_path) as reader:
            assert reader.head.sequence == 2
        assert "another laissez is running" in in_another_process()
    assert in_another_process() == "opened"


def test_reading_changes_nothing(tmp_path: Path) -> None:
    """A reader can't write, sees what a writer has written, and needs a journal to be there."""
    with pytest.raises(JournalError, match="no journal"):
        SqliteJournal(tmp_path / "nowhere", read_only=True)
    assert not (tmp_path / "nowhere").exists()
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        with reading(tmp_path) as reader:
            write(journal, 1)
            assert read_all(reader) == entries_at(1)
            with pytest.raises(JournalFailed, match="readonly"):
                reader.append(reader.head.sequence + 1, 1, 1, RULES, b"[]")
            with pytest.raises(JournalFailed, match="readonly"):
                reader.save_snapshot(Snapshot(1, RULES, "x", b""))
        write(journal, 2)
        assert verify(journal).sequence == 5


def test_a_backup_while_it_is_written(tmp_path: Path) -> None:
    """A whole journal as it was at one instant, openable by itself; never over another file."""
    target = tmp_path / "copy" / FILE_NAME
    target.parent.mkdir()
    with contextlib.closing(SqliteJournal(tmp_path / "live")) as journal:
        write(journal, 1)
        write(journal, 2)
        with reading(tmp_path / "live") as reader:
            groups = reader.groups()
            next(groups)
            reader.backup(target)
            write(journal, 3)
            with pytest.raises(JournalError, match="exists already"):
                reader.backup(target)
        digest = verify(journal).digest
    assert [path.name for path in target.parent.iterdir()] == [FILE_NAME]
    with contextlib.closing(SqliteJournal(target.parent)) as copy:
        assert read_all(copy) == entries_at(1) + entries_at(2)
        write(copy, 3)
        assert verify(copy).digest == digest


@pytest.mark.parametrize(
    "name",
    [
        "what?",
        "a#b",
        "per%41cent",
        "blank space",
        "ünï",
    ],
)
def test_folders_of_any_name(tmp_path: Path, name: str) -> None:
    """The journal is in the folder that was given, whatever its name would mean in an address."""
    written = make(tmp_path / name, 1)
    with reading(tmp_path / name) as journal:
        assert read_all(journal) == written
    assert [path.name for path in tmp_path.iterdir()] == [name]


# --- what is no journal -------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("content", [b"", b"hello" * 1_000, b"SQLite format 3\0" + b"x" * 5_000])
def test_other_files_are_left_alone(tmp_path: Path, content: bytes, read_only: bool) -> None:
    """What is no journal is refused with a sentence, is not changed, and is not kept locked."""
    (tmp_path / FILE_NAME).write_bytes(content)
    for _ in range(2):
        with pytest.raises(JournalError, match="journal"):
            SqliteJournal(tmp_path, read_only=read_only)
    assert (tmp_path / FILE_NAME).read_bytes() == content


@pytest.mark.parametrize("read_only", [True, False])
def test_another_format_is_refused(tmp_path: Path, read_only: bool) -> None:
    """By name, and with what to do; the right version can open it afterwards."""
    make(tmp_path)
    alter(tmp_path, "UPDATE meta SET value = '3'")
    for _ in range(2):
        with pytest.raises(JournalError, match="written in format 3, this laissez reads format 2"):
            SqliteJournal(tmp_path, read_only=read_only)
    alter(tmp_path, "UPDATE meta SET value = '2'")
    SqliteJournal(tmp_path).close()
    alter(tmp_path, "DELETE FROM meta")
    with pytest.raises(JournalError, match="not a journal of laissez"):
        SqliteJournal(tmp_path, read_only=read_only)


# --- a disk that is full or broken --------------------------------------------------------------


def test_a_full_disk_keeps_nothing_of_a_group(tmp_path: Path) -> None:
    """It says so, the same number is used next, and it goes on when there is room."""
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        write(journal, 1)
        (pages,) = journal._execute("PRAGMA page_count").fetchone()
        journal._execute(f"PRAGMA max_page_count={pages}")
        last = journal.head
        big = write_entries([Entry("ada", Advance(20), "k" * 200_000)])
        with pytest.raises(NotDurable, match="full"):
            journal.append(3, 1, 20, RULES, big)
        assert journal.head == last
        assert read_all(journal) == entries_at(1)
        journal._execute(f"PRAGMA max_page_count={pages + 100}")
        journal.append(3, 1, 20, RULES, big)
        assert verify(journal).sequence == 3


def test_a_broken_file_is_another_failure(tmp_path: Path) -> None:
    """Anything else that goes wrong leaves open what was written."""
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        write(journal, 1)
        alter(tmp_path, "DROP TABLE groups")
        with pytest.raises(JournalFailed):
            write(journal, 2)
        assert journal.head.sequence == 2


# --- nothing changes unnoticed ------------------------------------------------------------------


def test_the_links_are_a_chain(tmp_path: Path) -> None:
    """Each is the hash of the one before, of the first number and of the entries."""
    make(tmp_path)
    with reading(tmp_path) as journal:
        link = NO_LINK
        for group in journal.groups():
            link = link_of(link, group.first, group.entries)
            assert group.link == link and len(link) == 16
            assert journal.link_before(group.last + 1) == link
    links = {link_of(b"x" * 16, 1, b"[]"), link_of(b"y" * 16, 1, b"[]")}
    assert len(links | {link_of(b"x" * 16, 2, b"[]"), link_of(b"x" * 16, 1, b"[ ]")}) == 4


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a sound journal, with a snapshot at its end."""
    folder = tmp_path_factory.mktemp("sound")
    make(folder)
    with contextlib.closing(SqliteJournal(folder)) as journal:
        journal.save_snapshot(take(recover(journal, 10).venue, 10))
        assert verify(journal).snapshots_compared == 1
    return (folder / FILE_NAME).read_bytes()


def other(value: object) -> st.SearchStrategy[object]:
    """Anything that could stand in a column instead of what does."""
    anything = st.one_of(st.integers(-3, 100), st.text(max_size=5), st.binary(max_size=20))
    near: st.SearchStrategy[object] = st.nothing()
    if isinstance(value, int):
        near = st.integers(value - 3, value + 3)
    elif isinstance(value, bytes):
        places = st.integers(0, len(value) - 1)
        near = st.one_of(
            st.tuples(places, st.integers(1, 255)).map(
                lambda at: value[: at[0]] + bytes([value[at[0]] ^ at[1]]) + value[at[0] + 1 :]
            ),
            places.map(lambda at: value[:at] + value[at + 1 :]),
            places.map(lambda at: value[:at]),
            st.just(value.replace(b'"ada"', b'"bob"')),
            st.just(value + b" "),
        )
    return st.one_of(near, anything).filter(
        lambda changed: (type(changed), changed) != (type(value), value)
    )


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_a_group_is_noticed(
    sound: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    """A row that was altered in any column, removed, moved, exchanged or made up is found."""
    for path in tmp_path.iterdir():
        path.unlink()
    (tmp_path / FILE_NAME).write_bytes(sound)
    with reading(tmp_path) as journal:
        groups = list(journal.groups())
    group = data.draw(st.sampled_from(groups))
    how = data.draw(st.sampled_from(["alter", "alter", "remove", "exchange", "add"]))
    if how == "alter":
        column = data.draw(st.sampled_from(["first", "count", "at_us", "entries", "link"]))
        value = data.draw(other(getattr(group, column)))
        try:
            alter(tmp_path, f"UPDATE groups SET {column} = ? WHERE first = ?", value, group.first)
        except sqlite3.IntegrityError:
            return
        with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
            if Group(*row_at(connection, group)) in groups:
                return
    elif how == "remove":
        alter(tmp_path, "DELETE FROM groups WHERE first = ?", group.first)
    elif how == "exchange":
        other_one = data.draw(st.sampled_from([g for g in groups if g.count == group.count]))
        if other_one == group:
            return
        exchange(tmp_path, group, other_one)
    else:
        last = groups[-1]
        entries = write_entries([Entry("operator:1", SetFloor(last.at_us, "h", 1))])
        alter(
            tmp_path,
            "INSERT INTO groups VALUES (?, 1, ?, ?, ?, 1)",
            last.last + 1,
            last.at_us,
            entries,
            data.draw(st.one_of(st.just(last.link), st.binary(min_size=16, max_size=16))),
        )
    with pytest.raises(JournalError), reading(tmp_path) as journal:
        verify(journal)


def row_at(connection: sqlite3.Connection, group: Group) -> tuple[int, int, int, bytes, bytes, int]:
    """The row in a group's place, or one like none that was written."""
    found = connection.execute("SELECT * FROM groups WHERE first = ?", (group.first,)).fetchone()
    return found or (0, 0, 0, b"", b"", 0)


def exchange(folder: Path, one: Group, another: Group) -> None:
    statement = "UPDATE groups SET at_us = ?, entries = ?, link = ? WHERE first = ?"
    alter(folder, statement, another.at_us, another.entries, another.link, one.first)
    alter(folder, statement, one.at_us, one.entries, one.link, another.first)


def test_a_snapshot_that_does_not_fit_is_noticed(tmp_path: Path, sound: bytes) -> None:
    """Its digest, its state, or a number that the journal does not reach."""
    changes = (
        "UPDATE snapshots SET digest = 'x'",
        "UPDATE snapshots SET state = x'00'",
        "UPDATE snapshots SET sequence = 8",
        "UPDATE snapshots SET sequence = 11",
    )
    for change in changes:
        (tmp_path / FILE_NAME).write_bytes(sound)
        alter(tmp_path, change)
        with pytest.raises(JournalError), reading(tmp_path) as journal:
            verify(journal)


def test_a_restart_notices_what_is_missing(tmp_path: Path, sound: bytes) -> None:
    """It does not go on from a journal that has a hole or was changed."""
    for change in (
        "DELETE FROM groups WHERE first = 3",
        "DELETE FROM groups WHERE first = 8",
        "UPDATE groups SET link = x'00' WHERE first = 3",
        "UPDATE groups SET count = 1 WHERE first = 6",
    ):
        (tmp_path / FILE_NAME).write_bytes(sound)
        alter(tmp_path, change)
        with pytest.raises(JournalError), reading(tmp_path) as journal:
            recover(journal, 10)
