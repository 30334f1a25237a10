"""The service as anybody would start it, but with few descriptors and a disk that can stall.

While the file `stall` lies beside the journal, the next write to it takes as long as the file
says, in seconds. It is the statement that takes long, whoever gives it and in whatever thread, and
it leaves the interpreter to others meanwhile, as a sync does that the disk does not answer. If a
certificate and its key lie there when it starts, it speaks TLS.
"""

import resource
import sqlite3
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from laissez.service import __main__ as service
from laissez.service.server import ServerSettings

DESCRIPTORS = 1_024
STALL = "stall"
CERTIFICATE, KEY = "certificate.pem", "key.pem"
WRITES = ("INSERT", "COMMIT")

_connect = sqlite3.connect


class StallingConnection(sqlite3.Connection):
    stall: Path

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement.startswith(WRITES):
            self._stall()
        return super().execute(statement, *values)

    def commit(self) -> None:
        self._stall()
        super().commit()

    def _stall(self) -> None:
        try:
            seconds = float(self.stall.read_text())
            self.stall.unlink()
        except OSError:
            return
        time.sleep(seconds)


def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
    connection = _connect(*arguments, factory=StallingConnection, **options)
    connection.stall = Path(sys.argv[1]) / STALL
    return connection


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, most), most))
    sqlite3.connect = connect  # type: ignore[assignment]
    folder = Path(sys.argv[1])
    if (folder / CERTIFICATE).exists():
        with_tls = partial(
            ServerSettings, tls_certificate=folder / CERTIFICATE, tls_key=folder / KEY
        )
        setattr(service, "ServerSettings", with_tls)  # noqa: B010
    sys.exit(service.main())
