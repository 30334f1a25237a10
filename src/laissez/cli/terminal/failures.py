"""What each error of the other rooms comes to.

It knows all of them and imports most of the house, so nobody imports it before something goes
wrong.
"""

from __future__ import annotations

import sqlite3

from laissez.cli.terminal.exits import Exit, Failure
from laissez.client import errors
from laissez.exchange.journal import FolderInUse, JournalError
from laissez.model import ServiceCode
from laissez.topology import TopologyError

NOT_GOOD = (
    "this token is unknown here, expired or revoked; ask the operator for another, and use it with "
    "'laissez login'"
)


def failure_of(error: Exception) -> Failure:
    if isinstance(error, errors.LoginNeeded):
        return Failure(Exit.NOT_LOGGED_IN, "login_needed", str(error))
    if isinstance(error, errors.ConnectionFailed):
        return Failure(Exit.UNREACHABLE, "unreachable", str(error))
    if isinstance(error, errors.Refusal):
        if error.code == ServiceCode.UNAUTHENTICATED:
            return Failure(Exit.NOT_LOGGED_IN, str(error.code), NOT_GOOD)
        return Failure(Exit.REFUSED, str(error.code), error.message)
    if isinstance(error, FolderInUse):
        return Failure(Exit.IN_USE, "folder_in_use", str(error))
    if isinstance(error, JournalError):
        return Failure(Exit.UNSOUND, "journal_unsound", str(error))
    if isinstance(error, sqlite3.DatabaseError):
        message = f"the journal can't be read ({error}); restore a backup"
        return Failure(Exit.UNSOUND, "journal_unsound", message)
    if isinstance(error, TopologyError):
        return Failure(Exit.USAGE, "bad_topology", f"the file can't be used:\n{error}")
    if isinstance(error, OSError):
        return Failure(Exit.USAGE, "file", _file_sentence(error))
    if isinstance(error, errors.LaissezError):
        return Failure(Exit.REFUSED, "refused", str(error))
    return Failure(
        Exit.DEFECT,
        "defect",
        f"this should not happen ({type(error).__name__}: {error}); run it again with "
        "LAISSEZ_DEBUG=1 and report what it prints",
    )


def _file_sentence(error: OSError) -> str:
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}; check the path and its permissions"
