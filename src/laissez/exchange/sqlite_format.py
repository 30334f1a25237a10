"""The tables of an SQLite journal, by format, and the way from one format to the next.

A format is about tables, rules are about what the entries in them do: the two are numbered apart.
An upgrade is one transaction: it is done, or nothing has happened.

Format 1 knew one version of the rules, and kept tokens and webhooks in tables of their own. In
format 2 these are entries like everything else: the upgrade keeps one for each aside, and whoever
goes on with the journal appends them first, under its own rules (`carried_over`). How far a webhook
has got is a bookmark.
"""

from __future__ import annotations

import sqlite3

import msgspec

from laissez.exchange.access import Token
from laissez.exchange.journal import JournalError
from laissez.exchange.records import Entry, GrantToken, Record, StartWebhook, Webhook, write_entries
from laissez.exchange.venue import Venue

FORMAT = 2
FORMATS_READ = (1, 2)
RULES_OF_FORMAT_1 = 1
UPGRADE = ":upgrade"  # no tenant can be called that

_SNAPSHOTS = """
CREATE TABLE snapshots (
    sequence INTEGER NOT NULL, rules INTEGER NOT NULL, digest TEXT NOT NULL, state BLOB NOT NULL,
    keys BLOB NOT NULL, PRIMARY KEY (sequence, rules)
);
"""
_BOOKMARKS = """
CREATE TABLE bookmarks (name TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;
"""
SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE groups (
    first INTEGER PRIMARY KEY, count INTEGER NOT NULL, at_us INTEGER NOT NULL,
    entries BLOB NOT NULL, link BLOB NOT NULL, rules INTEGER NOT NULL DEFAULT {RULES_OF_FORMAT_1}
);
{_SNAPSHOTS}
{_BOOKMARKS}
"""
# A file of format 1 that is only read shows itself in the tables of format 2.
VIEWS_OF_FORMAT_1 = f"""
CREATE TEMP VIEW groups AS
    SELECT first, count, at_us, entries, link, {RULES_OF_FORMAT_1} AS rules FROM main.groups;
CREATE TEMP VIEW snapshots AS
    SELECT sequence, {RULES_OF_FORMAT_1} AS rules, digest, state, x'' AS keys FROM main.snapshots;
CREATE TEMP VIEW bookmarks AS SELECT id AS name, delivered AS sequence FROM main.webhooks;
"""


def upgrade(connection: sqlite3.Connection, written_in: int) -> None:
    """Bring a file to the present format."""
    assert written_in == 1
    connection.execute("BEGIN IMMEDIATE")
    try:
        if Venue.rules > RULES_OF_FORMAT_1:
            _check_that_it_was_stopped(connection)
        _from_1_to_2(connection)
        connection.execute("UPDATE meta SET value = ? WHERE name = 'format'", (str(FORMAT),))
    except BaseException as error:
        connection.rollback()
        if isinstance(error, msgspec.MsgspecError):
            raise JournalError(
                f"a token or a webhook can't be read ({error}), and nothing was changed; restore a "
                "backup"
            ) from None
        raise
    connection.commit()


def _from_1_to_2(connection: sqlite3.Connection) -> None:
    execute = connection.execute
    execute(f"ALTER TABLE groups ADD COLUMN rules INTEGER NOT NULL DEFAULT {RULES_OF_FORMAT_1}")
    execute("ALTER TABLE snapshots RENAME TO old_snapshots")
    execute(_SNAPSHOTS)
    execute(
        f"INSERT INTO snapshots SELECT sequence, {RULES_OF_FORMAT_1}, digest, state, x'' "
        "FROM old_snapshots"
    )
    execute("DROP TABLE old_snapshots")
    execute(_BOOKMARKS)
    execute("INSERT INTO bookmarks SELECT id, delivered FROM webhooks")
    execute("CREATE TABLE carried_over (place INTEGER PRIMARY KEY, entry TEXT NOT NULL)")
    for entry in _rights(connection):
        execute("INSERT INTO carried_over (entry) VALUES (?)", (write_entries([entry]).decode(),))
    execute("DROP TABLE tokens")
    execute("DROP TABLE webhooks")


def _check_that_it_was_stopped(connection: sqlite3.Connection) -> None:
    """Its entries can't be executed any more, so its last snapshot must stand at its very end."""
    last = _newest(connection)[0]
    statement = "SELECT coalesce(max(sequence), 0) FROM snapshots"
    (newest,) = connection.execute(statement).fetchone()
    if newest < last:
        raise JournalError(
            f"entries {newest + 1} to {last} were written by laissez 0.2 after its last snapshot, "
            "and only that can finish them; nothing was changed: start laissez 0.2.0 on the folder "
            "once, stop it with SIGTERM, and then start this one again"
        )


def _newest(connection: sqlite3.Connection) -> tuple[int, int]:
    statement = "SELECT first + count - 1, at_us FROM groups ORDER BY first DESC LIMIT 1"
    found: tuple[int, int] | None = connection.execute(statement).fetchone()
    return found or (0, 0)


def _rights(connection: sqlite3.Connection) -> list[Entry]:
    """One entry for each token and webhook, in the order in which the tokens were made."""
    at = _newest(connection)[1]
    tokens = [
        msgspec.json.decode(token, type=Token)
        for (token,) in connection.execute("SELECT token FROM tokens")
    ]
    records: list[Record] = [
        GrantToken(at, token) for token in sorted(tokens, key=lambda t: (t.created_us, t.id))
    ]
    records += [
        StartWebhook(at, msgspec.json.decode(webhook, type=Webhook))
        for (webhook,) in connection.execute("SELECT webhook FROM webhooks ORDER BY id")
    ]
    return [Entry(UPGRADE, record) for record in records]
