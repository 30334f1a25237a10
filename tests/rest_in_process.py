"""REST over a real exchange on a real journal, without a socket: requests go straight into the app.

Five people are there: the operator, the tenants alpha (`a`) and bravo (`b`), `viewer`, who sees
everything, and `viewer-of-a`, who sees what alpha sees.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from litestar import Litestar

from laissez.exchange.access import new_token
from laissez.exchange.office import Office
from laissez.exchange.offline import grant
from laissez.exchange.pipeline import Exchange, Settings
from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.model import Role
from laissez.service.reception import Reception
from laissez.service.rest import build_app

PEOPLE: dict[str, tuple[Role, str | None]] = {
    "operator": ("operator", None),
    "a": ("tenant", "alpha"),
    "b": ("tenant", "bravo"),
    "viewer": ("viewer", None),
    "viewer-of-a": ("viewer", "alpha"),
}
FLOOR = 2_000_000
ORDER = {"scope": "h100", "price_micros_per_hour": FLOOR, "limit_micros_per_hour": 2 * FLOOR}


class House:
    """The app, what is behind it, and a client that speaks for any of the people."""

    def __init__(self, exchange: Exchange, app: Litestar, secrets: dict[str, str]) -> None:
        self.exchange = exchange
        self._begun = exchange.execution.sequence
        self.app = app
        self.secrets = secrets
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
        self._closing: asyncio.Task[None] | None = None
        self.client = httpx.AsyncClient(transport=transport, base_url="http://laissez")

    async def send(
        self,
        who: str | None,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        headers = {} if who is None else {"Authorization": f"Bearer {self.secrets[who]}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        return await self.client.request(method, path, json=body, content=content, headers=headers)

    async def ask(self, who: str, path: str) -> Any:
        """The answer to a question that has to be answered."""
        response = await self.send(who, "GET", path)
        assert response.status_code == 200, response.text
        return response.json()

    async def change(
        self, who: str, method: str, path: str, body: Any = None, *, key: str | None = None
    ) -> Any:
        """The answer to a change that has to be made."""
        response = await self.send(who, method, path, body, key=key)
        assert response.status_code in (200, 201), response.text
        return response.json()

    async def offer(self, *resources: str) -> None:
        """Put resources on the market, with a floor under each tree."""
        for tree in dict.fromkeys(resource.split("/")[0] for resource in resources):
            await self.change(
                "operator", "PUT", f"/v1/floors/{tree}", {"floor_micros_per_hour": FLOOR}
            )
        for resource in resources:
            await self.change("operator", "PUT", f"/v1/resources/{resource}", {})

    def begin_to_close(self) -> asyncio.Task[None]:
        """Stop taking requests; once, however often it is asked for."""
        if self._closing is None:
            self._closing = asyncio.create_task(self.exchange.close())
        return self._closing

    @property
    def changes(self) -> int:
        """How many commands were executed since it opened."""
        return self.exchange.execution.sequence - self._begun

    def digest(self) -> str:
        return self.exchange.execution.venue.digest()


@asynccontextmanager
async def rest(folder: Path, settings: Settings | None = None) -> AsyncIterator[House]:
    journal = SqliteJournal(folder)
    secrets, tokens = {}, []
    for name, (role, tenant) in PEOPLE.items():
        secrets[name], token = new_token(role, tenant, at=0)
        tokens.append(token)
    grant(journal, *tokens)
    exchange = Exchange(journal, settings)
    house = House(exchange, build_app(Reception(exchange, Office(exchange))), secrets)
    try:
        yield house
    finally:
        await house.client.aclose()
        await house.begin_to_close()


def in_house(
    folder: Path, test: Callable[[House], Awaitable[None]], settings: Settings | None = None
) -> None:
    async def run() -> None:
        async with rest(folder, settings) as house:
            await test(house)

    asyncio.run(run())


def problem_of(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem that a response must be."""
    assert (response.status_code, response.json().get("code")) == (status, code), response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert problem["type"] == "about:blank"
    assert problem["title"] and problem["detail"]
    return problem


def kinds(answer: Any) -> list[str]:
    return [event["type"] for event in answer["events"]]
