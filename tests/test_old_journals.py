"""A journal that any laissez ever wrote opens, and says what it said then.

`tests/old_journals` keeps some by the format in which they were written; `write.py` there makes
new ones. What is added there is never taken away.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from faults.talk import ask
from laissez.exchange import recovery
from laissez.exchange.execution import Execution
from laissez.exchange.journal import JournalError
from laissez.exchange.records import Entry, write_entries
from laissez.exchange.recovery import make_ready, recover, verify
from laissez.exchange.snapshots import take
from laissez.exchange.sqlite_journal import FILE_NAME, SqliteJournal
from laissez.exchange.venue import Venue
from laissez.model import AskBill, AskHoldings, Bill, HoldingList, Reply, Settle
from serving import served

OLD = Path(__file__).parent / "old_journals"
JOURNALS = sorted(path.parent for path in OLD.glob("*/*/expected.json"))
STOPPED = [each for each in JOURNALS if each.name == "stopped"]
KILLED = [each for each in JOURNALS if each.name == "killed"]
FORMAT_1 = OLD / "format-1"


def unpacked(kept: Path, folder: Path) -> dict[str, Any]:
    """A journal as it was left, and what its own laissez said of it."""
    folder.mkdir()
    for packed in kept.glob("*.xz"):
        (folder / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    expected: dict[str, Any] = json.loads((kept / "expected.json").read_text())
    return expected


def as_found(expected: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """What was expected then, of what is described now; a guard that is off may go unsaid."""
    guards = [
        {name: value for name, value in guard.items() if value is not None}
        for guard in expected["guards"]
    ]
    return {name: guards if name == "guards" else expected[name] for name in found}


@contextlib.contextmanager
def opened(folder: Path, *, read_only: bool = False) -> Iterator[SqliteJournal]:
    with contextlib.closing(SqliteJournal(folder, read_only=read_only)) as journal:
        yield journal


def described(execution: Execution, bookmarks: dict[str, int]) -> dict[str, Any]:
    """What `write.py` wrote down of an exchange, as far as it may never change."""
    market, now, rights = execution.venue.market, execution.venue.market.now, execution.venue.rights
    tenants = market.tenants()
    return {
        "now": now,
        "cordons": {scope: sorted(aside) for scope, aside in execution.venue.cordons.items()},
        "resources": {
            path: [market.owner(path), market.limit(path), market.rate(path)]
            for path in market.resources()
        },
        "attributes": {path: market.attributes(path) for path in market.resources()},
        "bills": {tenant: market.bill(tenant, now) for tenant in tenants},
        "segments": {
            tenant: {
                path: [list(each) for each in segments]
                for path, segments in market.segments(tenant, now).items()
            }
            for tenant in tenants
        },
        "orders": {
            tenant: [
                [order.order, order.scope, order.price, order.limit, order.expires]
                for order in market.orders(tenant)
            ]
            for tenant in tenants
        },
        "floors": dict(market.floors()),
        "guards": [
            {name: value for name, value in guard.items() if value is not None}
            for guard in json.loads(msgspec.json.encode(market.guards()))
        ],
        "tokens": {token.id: msgspec.to_builtins(token) for token in rights.tokens.values()},
        "webhooks": [
            [msgspec.to_builtins(webhook), bookmarks.get(webhook.id, 0)]
            for webhook in rights.webhooks.values()
        ],
        "keys": {key: execution.keys.sequence("grace", key) for key in ("grace-1", "grace-2")},
    }


@pytest.mark.parametrize("kept", STOPPED, ids=lambda kept: kept.parent.name)
def test_an_old_journal_says_what_it_said(kept: Path, tmp_path: Path) -> None:
    """Holdings, limits, rates, bills, segments, orders, floors, cordons, tokens, webhooks, keys."""
    expected = unpacked(kept, tmp_path / "journal")
    with opened(tmp_path / "journal") as journal:
        make_ready(journal)
        found = described(recover(journal, 10_000), journal.bookmarks())
    assert found == as_found(expected, found)
    assert any(expected["bills"].values()) and expected["tokens"] and expected["webhooks"]


@pytest.mark.parametrize("kept", STOPPED, ids=lambda kept: kept.parent.name)
def test_an_old_journal_is_served_and_stays_sound(kept: Path, tmp_path: Path) -> None:
    """It trades on with its tokens, and once more after that; nothing of it is lost."""
    folder = tmp_path / "journal"
    expected = unpacked(kept, folder)
    for _ in range(2):
        with served(folder, "ada") as service:
            told, bill = ask(service.url, service.secrets["ada"], AskHoldings(), AskBill())
        assert isinstance(told, Reply) and isinstance(told.told, HoldingList)
        held = {holding.resource for holding in told.told.holdings}
        assert held == {p for p, (owner, _, _) in expected["resources"].items() if owner == "ada"}
        assert isinstance(bill, Reply) and isinstance(bill.told, Bill)
        assert bill.told.charge >= expected["bills"]["ada"]
    with opened(folder, read_only=True) as journal:
        assert verify(journal).executed_from == expected["sequence"] + 1


@pytest.mark.parametrize("kept", KILLED, ids=lambda kept: kept.parent.name)
def test_what_was_written_under_older_rules_is_finished_by_its_own_laissez(
    kept: Path, tmp_path: Path
) -> None:
    """A journal that was not stopped in order keeps every entry, and the version is named."""
    folder = tmp_path / "journal"
    unpacked(kept, folder)

    def written() -> list[tuple[object, ...]]:
        with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as file:
            found = file.execute("SELECT * FROM groups").fetchall()
            return found + file.execute("SELECT * FROM snapshots").fetchall()

    before = written()
    with pytest.raises(JournalError, match=r"laissez 0\.[23]"), opened(folder) as journal:
        make_ready(journal)
    assert before and written() == before


@pytest.mark.parametrize("kept", [FORMAT_1 / "stopped"], ids=lambda kept: kept.name)
def test_a_journal_of_format_1_can_be_looked_at(kept: Path, tmp_path: Path) -> None:
    """Reading it changes nothing and follows every link; what it executes is of today's rules."""
    folder = tmp_path / "journal"
    expected = unpacked(kept, folder)
    before = (folder / FILE_NAME).read_bytes()
    with opened(folder, read_only=True) as journal:
        verified = verify(journal)
        assert (verified.executed_from, verified.last) == (
            expected["sequence"] + 1,
            expected["sequence"],
        )
        journal.backup(folder / "copy")
    assert (folder / FILE_NAME).read_bytes() == before
    assert not (folder / f"{FILE_NAME}-head").exists()


def test_an_upgrade_that_is_interrupted_has_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that can't be read stops it half way: the file is of format 1 still, and whole."""
    expected = unpacked(FORMAT_1 / "stopped", tmp_path / "journal")
    with contextlib.closing(sqlite3.connect(tmp_path / "journal" / FILE_NAME)) as file:
        (sound,) = file.execute("SELECT token FROM tokens LIMIT 1").fetchone()
        file.execute("UPDATE tokens SET token = 'x' WHERE token = ?", (sound,))
        file.commit()
    with pytest.raises(JournalError, match="a token or a webhook can't be read"):
        SqliteJournal(tmp_path / "journal")
    with contextlib.closing(sqlite3.connect(tmp_path / "journal" / FILE_NAME)) as file:
        assert file.execute("SELECT value FROM meta WHERE name = 'format'").fetchone() == ("1",)
        file.execute("UPDATE tokens SET token = ? WHERE token = 'x'", (sound,))
        file.commit()
    with opened(tmp_path / "journal") as journal:
        make_ready(journal)
        rights = recover(journal, 10_000).venue.rights
        assert set(rights.tokens) == set(expected["tokens"])


# --- rules that change --------------------------------------------------------------------------


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A journal of today with a snapshot at its end, and one before it."""
    folder = tmp_path / "journal"
    unpacked(FORMAT_1 / "stopped", folder)
    with opened(folder) as journal:
        make_ready(journal)
        journal.note_writer(Venue.rules, "0.3.0")
        execution = recover(journal, 10_000)
        append_settlement(journal, execution)
        journal.save_snapshot(take(execution.venue, execution.sequence, execution.keys))
    return folder


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A journal that was begun by today's laissez."""
    folder = tmp_path / "journal"
    with opened(folder) as journal:
        make_ready(journal)
        journal.note_writer(Venue.rules, "0.3.0")
        execution = recover(journal, 10_000)
        append_settlement(journal, execution)
        journal.save_snapshot(take(execution.venue, execution.sequence, execution.keys))
    return folder


def come_to_new_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A laissez under whose rules a digest is another, and which reads the states of today's."""
    older = Venue.rules
    read = Venue.restore.__func__  # type: ignore[attr-defined]

    def restore(cls: type[Venue], data: bytes) -> Venue:
        snapshot = msgspec.json.decode(data, type=dict[str, Any])
        assert snapshot.pop("made_up_rules", older) in (older, older + 1)
        venue: Venue = read(cls, msgspec.json.encode(snapshot))
        return venue

    def snapshot(venue: Venue) -> bytes:
        plain: dict[str, Any] = msgspec.json.decode(write(venue))
        return msgspec.json.encode(plain | {"made_up_rules": older + 1})

    digest, write = Venue.digest, Venue.snapshot
    monkeypatch.setattr(Venue, "rules", older + 1)
    monkeypatch.setattr(Venue, "restore", classmethod(restore))
    monkeypatch.setattr(Venue, "snapshot", snapshot)
    monkeypatch.setattr(Venue, "digest", lambda venue: f"new {digest(venue)}")


def refuse_to_execute(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: object) -> None:
        raise AssertionError("an entry of older rules was executed under new ones")

    monkeypatch.setattr(Venue, "apply", never)


def test_new_rules_go_on_from_a_converted_snapshot(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No older entry is executed; what follows is, from the converted state, at every restart."""
    with opened(stopped) as journal:
        before = described(recover(journal, 10_000), journal.bookmarks())
        end = journal.head.sequence
    come_to_new_rules(monkeypatch)
    with monkeypatch.context() as until_it_trades, opened(stopped) as journal:
        refuse_to_execute(until_it_trades)
        for _ in range(2):
            make_ready(journal)
            assert described(recover(journal, 10_000), journal.bookmarks()) == before
            assert journal.snapshots()[-1].rules == Venue.rules
            kept = journal.snapshot(end, Venue.rules)
            assert kept is not None and kept.keys
    with served(stopped, "ada") as service:
        (held,) = ask(service.url, service.secrets["ada"], AskHoldings())
        assert isinstance(held, Reply)
    with opened(stopped, read_only=True) as journal:
        verified = verify(journal)
        assert verified.executed_from == end + 1
        assert verified.sequence == verified.last == journal.head.sequence
        assert verified.snapshots_compared >= 1
        assert journal.rules_since()[-1] == (end + 1, Venue.rules)
        recover(journal, 10_000)


def test_a_stopped_journal_of_format_1_goes_on_under_new_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over both upgrades at once, without an entry of 0.2.0 being executed; tokens and all."""
    folder = tmp_path / "journal"
    expected = unpacked(FORMAT_1 / "stopped", folder)
    come_to_new_rules(monkeypatch)
    with opened(folder) as journal:
        make_ready(journal)
        found = described(recover(journal, 10_000), journal.bookmarks())
        assert found == as_found(expected, found)
        assert verify(journal).executed_from == expected["sequence"] + 1
    with served(folder, "ada") as service:
        (held,) = ask(service.url, service.secrets["ada"], AskHoldings())
        assert isinstance(held, Reply)


def test_a_killed_journal_of_format_1_is_left_to_its_own_laissez(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under new rules it is refused with the version that can finish it, which still can."""
    folder = tmp_path / "journal"
    unpacked(FORMAT_1 / "killed", folder)
    come_to_new_rules(monkeypatch)
    with pytest.raises(JournalError, match=r"nothing was changed: start laissez 0\.2\.0"):
        SqliteJournal(folder)
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as file:
        assert file.execute("SELECT value FROM meta WHERE name = 'format'").fetchone() == ("1",)
        assert file.execute("SELECT count(*) FROM tokens").fetchone()[0] > 0


def test_an_upgrade_that_dies_in_the_middle_grants_no_token_twice(tmp_path: Path) -> None:
    """What was carried over may be appended once more, and means the same."""
    folder = tmp_path / "journal"
    expected = unpacked(FORMAT_1 / "stopped", folder)
    with opened(folder) as journal:
        forget = journal.forget_carried_over
        setattr(journal, "forget_carried_over", lambda: None)  # noqa: B010
        make_ready(journal)
        setattr(journal, "forget_carried_over", forget)  # noqa: B010
        make_ready(journal)
        assert journal.carried_over() == ()
        rights = recover(journal, 10_000).venue.rights
        assert set(rights.tokens) == set(expected["tokens"])
        verify(journal)


def test_where_new_rules_begin_is_kept(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The converted snapshot is never forgotten: it is the only way to what came after it."""
    come_to_new_rules(monkeypatch)
    with opened(stopped) as journal:
        make_ready(journal)
        end = journal.head.sequence
        execution = recover(journal, 10_000)
        for number in range(1, 9):
            append_settlement(journal, execution)
            journal.save_snapshot(take(execution.venue, execution.sequence), apart=1, keep=2)
            assert journal.snapshots()[0].sequence == end
            assert len(journal.snapshots()) == min(number + 1, 3)
        monkeypatch.setattr(recovery, "REPLAYED", 1_000)
        assert recover(journal, 10_000).venue.digest() == execution.venue.digest()


def append_settlement(journal: SqliteJournal, execution: Execution) -> None:
    entry = Entry(":clock", Settle(journal.head.at_us + 1))
    first, data = journal.head.sequence + 1, write_entries([entry])
    journal.append(first, 1, entry.do.at, Venue.rules, data)
    execution.execute(entry)


def test_older_entries_after_the_last_snapshot_are_finished_by_their_own_laissez(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused with the version that can, which then takes the snapshot that is missing."""
    with opened(stopped) as journal:
        execution = recover(journal, 10_000)
        append_settlement(journal, execution)
        last = journal.head.sequence
    with monkeypatch.context() as newer, opened(stopped) as journal:
        come_to_new_rules(newer)
        with pytest.raises(
            JournalError, match=rf"entries {last} to {last} .* only laissez 0\.3\.0"
        ):
            make_ready(journal)
        assert journal.head.sequence == last
    with served(stopped):
        pass
    come_to_new_rules(monkeypatch)
    with opened(stopped) as journal:
        make_ready(journal)
        recover(journal, 10_000)


def test_an_older_laissez_says_what_is_beyond_it(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It verifies what it wrote, follows the links of the rest, and does not trade on it."""
    with opened(fresh) as journal:
        end = journal.head.sequence
    with monkeypatch.context() as newer:
        come_to_new_rules(newer)
        with opened(fresh) as journal:
            make_ready(journal)
            append_settlement(journal, recover(journal, 10_000))
            journal.note_writer(Venue.rules, "9.9")
    with opened(fresh) as journal:
        verified = verify(journal)
        assert (verified.executed_from, verified.sequence, verified.last) == (1, end, end + 1)
        with pytest.raises(JournalError, match=r"by laissez 9\.9, and this laissez knows version"):
            recover(journal, 10_000)
    with contextlib.closing(sqlite3.connect(fresh / FILE_NAME)) as file:
        harmed = "CAST(replace(entries, 'Settle', 'Advance') AS BLOB)"
        file.execute(f"UPDATE groups SET entries = {harmed} WHERE rules <> ?", (Venue.rules,))
        file.commit()
    (fresh / f"{FILE_NAME}-head").unlink()
    with opened(fresh) as journal, pytest.raises(JournalError, match="is not what was written"):
        verify(journal)
