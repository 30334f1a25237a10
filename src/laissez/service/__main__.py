"""The service as a child process: `python -m laissez.service FOLDER [--port N]`.

Prints one line of JSON when it listens, `{"url": ...}`, and serves until SIGTERM or SIGINT. For
people there is `laissez up`; this is for programs that start a service of their own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
import uvloop

from laissez.exchange.journal import JournalError
from laissez.exchange.pipeline import Settings
from laissez.service.server import BadSettings, Running, ServerSettings, serve_until_stopped
from laissez.service.stopping import stop_on_signals


async def _serve(settings: ServerSettings) -> str | None:
    def ready(running: Running) -> None:
        print(msgspec.json.encode({"url": running.url}).decode(), flush=True)

    return await serve_until_stopped(settings, ready, stop=stop_on_signals())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m laissez.service", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--settings", type=str, default="{}", help="exchange settings, as JSON")
    arguments = parser.parse_args()
    exchange = msgspec.json.decode(arguments.settings, type=Settings)
    settings = ServerSettings(arguments.folder, port=arguments.port, exchange=exchange)
    try:
        failure = uvloop.run(_serve(settings))
    except (BadSettings, JournalError) as error:
        failure = str(error)
    if failure is not None:
        print(f"laissez: {failure}", file=sys.stderr)
    return 0 if failure is None else 1


if __name__ == "__main__":
    sys.exit(main())
