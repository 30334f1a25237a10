"""What each error of the other rooms comes to.

It knows all of them and imports most of the house, so nobody imports it before something goes
wrong.
"""

from __future__ import annotations

import sqlite3

from laissez.cli.terminal.exits import Exit, ExtraMissing, Failure, usage_failure
from laissez.client import errors
from laissez.exchange.journal import FolderInUse, JournalError, JournalFailed, NotDurable
from laissez.exchange.pipeline import Fault
from laissez.exchange.recovery import NotExecuted
from laissez.model import ServiceCode
from laissez.topology import TopologyError

EXTRAS = {
    "deadline": {"matplotlib", "numpy"},
    "service": {"httpx", "litestar", "uvicorn", "uvloop"},
    "simulation": {"highspy", "matplotlib", "numpy"},
    "telemetry": {"httpx"},
}
"""The packages that come with each extra, by the names under which they are imported."""

NOT_GOOD = (
    "this token is unknown here, expired or revoked; ask the operator for another, and use it with "
    "'laissez login'"
)

NOT_GOOD_TO_LOG_IN = (
    "the service does not know this token, or it has expired or was revoked; copy all of it in one "
    "piece, lz_ and what follows, and nothing else, or ask the operator for another"
)

EXTRA_OF_COMMAND = {
    "bench": "service",
    "deadline": "deadline",
    "reproduce": "simulation",
    "sim": "simulation",
    "up": "service",
}
"""For packages that come with several: which of them is for this command."""


def failure_of(error: Exception, command: str = "") -> Failure:
    """What is said of it; `command` is the one that was run."""
    if isinstance(error, ModuleNotFoundError):
        extra = extra_with(error.name or "", command)
        if extra is not None:
            why = f"'laissez {command}' needs {error.name}"
            return usage_failure(ExtraMissing(why, f"laissez[{extra}]"))
    if isinstance(error, errors.BadAddress):
        return Failure(Exit.USAGE, "bad_address", str(error))
    if isinstance(error, errors.LoginNeeded):
        return Failure(Exit.NOT_LOGGED_IN, "login_needed", str(error))
    if isinstance(error, errors.ConnectionFailed):
        return Failure(Exit.UNREACHABLE, "unreachable", str(error))
    if isinstance(error, errors.Refusal):
        if error.code == ServiceCode.UNAUTHENTICATED:
            told = NOT_GOOD_TO_LOG_IN if command == "login" else NOT_GOOD
            return Failure(Exit.NOT_LOGGED_IN, str(error.code), told)
        return Failure(Exit.REFUSED, str(error.code), error.message)
    if isinstance(error, Fault | NotExecuted):
        return Failure(Exit.DEFECT, "stopped", str(error))
    if isinstance(error, FolderInUse):
        return Failure(Exit.IN_USE, "folder_in_use", str(error))
    if isinstance(error, JournalError | JournalFailed | NotDurable):
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


def extra_with(module: str, command: str) -> str | None:
    """The extra that brings a module which a command looked for in vain, if one does."""
    package = module.partition(".")[0]
    bringing = [extra for extra, packages in EXTRAS.items() if package in packages]
    preferred = EXTRA_OF_COMMAND.get(command)
    return preferred if preferred in bringing else next(iter(bringing), None)


def _file_sentence(error: OSError) -> str:
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}; check the path and its permissions"
