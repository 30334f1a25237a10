"""What is written into a journal while no exchange runs on it: the first tokens.

Somebody has to hold a token before anybody can ask for one. Whoever may write to the journal's
folder may make one, as an entry like all others.
"""

from __future__ import annotations

from collections.abc import Iterable

from laissez.exchange.access import Token
from laissez.exchange.journal import Journal, JournalError
from laissez.exchange.records import EndToken, Entry, GrantToken, Record, write_entries
from laissez.exchange.recovery import make_ready, recover
from laissez.exchange.rights import Rights
from laissez.exchange.venue import Venue

AUTHOR = ":offline"  # no tenant can be called that


def grant(journal: Journal, *tokens: Token) -> None:
    """Make tokens good from now on."""
    _append(journal, [GrantToken(max(token.created_us, 0), token) for token in tokens])


def end(journal: Journal, token_ids: Iterable[str], *, at: int) -> None:
    """Make tokens good no longer."""
    _append(journal, [EndToken(at, token_id) for token_id in token_ids])


def rights_of(journal: Journal) -> Rights:
    """Who may do what, as far as the journal goes."""
    make_ready(journal)
    return recover(journal, keys_kept=1).venue.rights


def _append(journal: Journal, records: list[Record]) -> None:
    if not records:
        return
    make_ready(journal)
    head = journal.head
    if head.rules > Venue.rules:
        raise JournalError(f"the journal in {journal.name} belongs to a newer laissez; use that")
    at = max(head.at_us, *(record.at for record in records))
    entries = [Entry(AUTHOR, _at(record, at)) for record in records]
    data = write_entries(entries)
    journal.append(head.sequence + 1, len(entries), at, Venue.rules, data)


def _at(record: Record, at: int) -> Record:
    if isinstance(record, GrantToken):
        return GrantToken(at, record.token)
    assert isinstance(record, EndToken)
    return EndToken(at, record.token)
