"""Somebody who types commands, in this process, against `counter.Counter`."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from counter import Counter, CounterClient
from laissez.cli.main import cli
from laissez.cli.terminal import clock, connection, listening
from laissez.model import ChangeFloor, OfferResource, PlaceOrder, Role


class Shop:
    """A market of three GPUs at a floor of $2, and somebody who types commands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counter = Counter()
        self.operator = self.counter.client()
        self.asked: list[tuple[str | None, str | None]] = []
        self._monkeypatch = monkeypatch
        self.become("tenant", "ml")
        monkeypatch.setattr(clock, "now_us", lambda: self.counter.now)
        monkeypatch.setattr(listening, "listen", lambda client, **what: client.listen(**what))

    def fill(self) -> None:
        self.operator.do(ChangeFloor("h100", 2_000_000))
        for name in ("r1/g0", "r1/g1", "r2/g0"):
            attributes = {"levels": "zone/rack/gpu", "address": f"{name[:2]}.example"}
            self.operator.do(OfferResource(f"h100/east/{name}", attributes))

    def become(self, role: Role, tenant: str | None = None) -> CounterClient:
        """From now on commands run with this token."""
        client = self.counter.client(role, tenant)
        self.connect_to(lambda: client)
        return client

    def connect_to(self, connect: Callable[[], object]) -> None:
        def connected(
            url: str | None = None, token: str | None = None, *, patience_s: float = 3
        ) -> object:
            self.asked.append((url, token))
            return connect()

        self.connect_with(connected)

    def connect_with(self, connect: Callable[..., object]) -> None:
        self._monkeypatch.setattr(connection, "connect", connect)

    def rival(self, price: int, limit: int) -> None:
        """Somebody else orders any GPU."""
        self.counter.client("tenant", "bio").do(PlaceOrder("h100", price, limit))

    def run(self, *words: str, typed: str = "") -> Result:
        return CliRunner().invoke(cli, words, input=typed, catch_exceptions=False)

    def text(self, *words: str, exit_code: int = 0, typed: str = "") -> str:
        result = self.run(*words, typed=typed)
        assert result.exit_code == exit_code, result.output
        return result.stdout

    def json(self, *words: str, exit_code: int = 0) -> Any:
        result = self.run(*words, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    def error(self, *words: str, exit_code: int, typed: str = "") -> str:
        result = self.run(*words, typed=typed)
        assert result.exit_code == exit_code, result.output
        return result.stderr


@contextlib.contextmanager
def open_shop(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Shop]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("LAISSEZ_CONFIG", str(folder / "login.json"))
    time.tzset()
    made = Shop(monkeypatch)
    made.fill()
    yield made
    monkeypatch.undo()
    time.tzset()
