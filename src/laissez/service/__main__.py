"""The service as a child process: `python -m laissez.service FOLDER [--port N]`.

Prints one line of JSON when it listens, `{"url": ...}`, and serves until SIGTERM or SIGINT; with
`--until-stdin-closes` also no longer than whoever holds the other end of its stdin, a pipe. For
people there is `laissez up`; this is for programs that start a service of their own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from laissez.exchange.journal import JournalError, JournalFailed
from laissez.exchange.pipeline import Fault
from laissez.exchange.recovery import NotExecuted
from laissez.service.stopping import stop_on_signals, stop_when_closed

try:
    import uvloop

    from laissez.service.server import (
        BadSettings,
        Running,
        ServerSettings,
        read_settings,
        serve_until_stopped,
    )
except ModuleNotFoundError as missing:
    if (missing.name or "").startswith("laissez"):
        raise
    sys.exit(
        f"laissez: the service needs {missing.name}, which is not installed: "
        "pip install 'laissez[service]'"
    )

EXIT_FAILURE = 1
EXIT_FAULT = 70  # as `laissez up` ends when it is laissez that is at fault


async def _serve(settings: ServerSettings, *, until_stdin_closes: bool) -> None:
    stop = stop_on_signals()
    if until_stdin_closes:
        try:
            stop_when_closed(sys.stdin.fileno(), stop)
        except ValueError as error:
            raise BadSettings(f"--until-stdin-closes: {error}") from None

    async def ready(running: Running) -> None:
        print(msgspec.json.encode({"url": running.url}).decode(), flush=True)

    await serve_until_stopped(settings, ready, stop=stop)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m laissez.service", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--settings", type=str, default="{}", help="as JSON, by name")
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="end with who holds the pipe"
    )
    arguments = parser.parse_args()
    try:
        given = read_settings(arguments.settings)
        settings = ServerSettings(
            arguments.folder,
            port=arguments.port,
            exchange=given,
            connections_max=given.connections_max,
            strangers_max=given.strangers_max,
        )
        uvloop.run(_serve(settings, until_stdin_closes=arguments.until_stdin_closes))
    except (Fault, NotExecuted) as fault:
        return _say(fault, EXIT_FAULT)
    except (BadSettings, JournalError, JournalFailed) as error:
        return _say(error, EXIT_FAILURE)
    return 0


def _say(error: Exception, exit_code: int) -> int:
    print(f"laissez: {error}", file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
