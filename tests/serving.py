"""The real service, inside the test's process: on a port of its own, in a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import uvloop

from laissez.exchange.access import new_token
from laissez.exchange.offline import grant
from laissez.exchange.pipeline import Exchange, Settings
from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.model import Role
from laissez.service.server import Running, ServerSettings, serving

T = TypeVar("T")


class Served(msgspec.Struct):
    """A service that listens, and the secrets of the tokens that were asked for."""

    url: str
    running: Running
    secrets: dict[str, str]
    loop: asyncio.AbstractEventLoop

    def call(self, question: Callable[[Exchange], T]) -> T:
        """Ask something of the exchange in its own thread."""

        async def ask() -> T:
            return question(self.running.exchange)

        return asyncio.run_coroutine_threadsafe(ask(), self.loop).result(10)


def make_tokens(folder: Path, *names: str) -> dict[str, str]:
    """Tokens for tenants by name; "operator" and "viewer" are roles. Before the service starts."""
    secrets, tokens = {}, []
    for name in names:
        role: Role = "operator" if name == "operator" else "tenant"
        if name == "viewer":
            role = "viewer"
        tenant = name if role == "tenant" else None
        secret, token = new_token(role, tenant, at=0)
        tokens.append(token)
        secrets[name] = secret
    journal = SqliteJournal(folder)
    grant(journal, *tokens)
    journal.close()
    return secrets


@contextlib.contextmanager
def served(
    folder: Path, *names: str, settings: Settings | None = None, port: int = 0
) -> Iterator[Served]:
    """Serve a journal's folder as long as the block lasts."""
    secrets = make_tokens(folder, *names)
    ready: list[Served] = []
    failures: list[BaseException] = []
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        server_settings = ServerSettings(folder, port=port, exchange=settings or Settings())
        async with serving(server_settings) as running:
            ready.append(Served(running.url, running, secrets, asyncio.get_running_loop()))
            started.set()
            while not stop.is_set():
                await asyncio.sleep(0.01)

    def run() -> None:
        try:
            uvloop.run(serve())
        except BaseException as error:
            failures.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait(30)
    try:
        if not ready:
            raise failures[0]
        yield ready[0]
    finally:
        stop.set()
        thread.join(30)
    if failures:
        raise failures[0]
