"""Numbers from an address: a Prometheus query, or a place in a JSON document.

One answer is one number. A token comes from an environment variable that the description names, so
that it stands in no file; it is never sent on to where an answer redirects. What is said about a
failure has the address without its query, which may hold a key.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from laissez.telemetry.source import US_PER_S, BadTelemetry, Reading, Unreadable, seconds

if TYPE_CHECKING:
    import httpx

TIMEOUT_US = 5 * US_PER_S
BYTES_MAX = 1_000_000
AHEAD_MAX_US = 60 * US_PER_S
"""How far the clock of a source may be ahead of ours."""
SAID_LENGTH = 200
_NOT_JSON = object()


class _Address:
    """Where documents are fetched from, over a connection that is kept."""

    def __init__(self, url: str, token_variable: str | None, timeout_us: int) -> None:
        try:
            parts = urlsplit(url)
            is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
            is_good = is_good and parts.port != 0
        except ValueError:
            is_good = False
        if not is_good:
            raise BadTelemetry(f"{url!r} is no address; write one such as http://host:9090")
        if parts.username is not None or parts.password is not None:
            raise BadTelemetry("keep user and password out of the address; name a token_variable")
        self._httpx = _httpx()
        self._url = url
        self.shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._headers = _headers(token_variable)
        self._timeout_us = timeout_us
        self._client: httpx.AsyncClient | None = None

    async def get(self, query: dict[str, str] | None = None) -> Any:
        """The JSON document at the address."""
        try:
            async with asyncio.timeout(self._timeout_us / US_PER_S):
                status, body = await self._fetch(query)
        except TimeoutError:
            waited = seconds(self._timeout_us)
            raise Unreadable(f"{self.shown} did not answer within {waited}") from None
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise Unreadable(f"{self.shown} can't be reached: {reason}") from None
        try:
            document = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            document = _NOT_JSON
        if status != self._httpx.codes.OK:
            raise Unreadable(f"{self.shown} answered {status}{_reason(document)}")
        if document is _NOT_JSON:
            raise Unreadable(f"{self.shown} did not answer in JSON")
        return document

    async def _fetch(self, query: dict[str, str] | None) -> tuple[int, bytes]:
        if self._client is None:
            self._client = self._httpx.AsyncClient(timeout=None, follow_redirects=False)
        body = b""
        async with self._client.stream(
            "GET", self._url, params=query, headers=self._headers
        ) as answer:
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > BYTES_MAX:
                    raise Unreadable(f"{self.shown} answered more than {BYTES_MAX:,} bytes")
        return answer.status_code, body

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


class Prometheus:
    """An instant query, evaluated by the server at its own now; staleness is the server's."""

    def __init__(
        self,
        url: str,
        query: str,
        *,
        token_variable: str | None = None,
        timeout_us: int = TIMEOUT_US,
    ) -> None:
        self._query = query
        self._address = _Address(f"{url.rstrip('/')}/api/v1/query", token_variable, timeout_us)

    async def read(self, at_us: int) -> Reading | None:
        document = await self._address.get({"query": self._query})
        try:
            kind, result = document["data"]["resultType"], document["data"]["result"]
            if kind == "vector" and isinstance(result, list):
                sample = self._only(result)["value"]
            elif kind in ("scalar", "vector"):
                sample = result
            else:
                raise Unreadable(
                    f"the query {self._query!r} gives a {kind}, and one number is needed; "
                    "take an instant, such as avg_over_time(...[5m])"
                )
            _, value = sample
        except (KeyError, TypeError, ValueError, IndexError):
            raise Unreadable(f"{self._address.shown} does not answer as Prometheus does") from None
        return Reading(_number(value, f"the result of {self._query!r}"), at_us)

    async def close(self) -> None:
        await self._address.close()

    def _only(self, series: list[Any]) -> Any:
        if not series:
            raise Unreadable(f"the query {self._query!r} finds nothing; check the names in it")
        if len(series) > 1:
            raise Unreadable(
                f"the query {self._query!r} gives {len(series)} series, and one is needed; "
                f"aggregate them, such as sum({self._query})"
            )
        return series[0]


class JsonHttp:
    """A number at a dotted path (`rows.0.watts`); with a path to its time, in seconds since 1970,
    it is seen when the source itself is behind."""

    def __init__(
        self,
        url: str,
        path: str,
        *,
        timestamp_path: str | None = None,
        token_variable: str | None = None,
        timeout_us: int = TIMEOUT_US,
    ) -> None:
        self._path = path
        self._timestamp_path = timestamp_path
        self._address = _Address(url, token_variable, timeout_us)

    async def read(self, at_us: int) -> Reading | None:
        document = await self._address.get()
        value = _number(self._at(document, self._path), self._path)
        if self._timestamp_path is None:
            return Reading(value, at_us)
        time_s = _number(self._at(document, self._timestamp_path), self._timestamp_path)
        if time_s > (at_us + AHEAD_MAX_US) / US_PER_S:
            raise Unreadable(
                f"{self._timestamp_path} is in the future; it must be in seconds since 1970"
            )
        return Reading(value, min(at_us, int(max(0.0, time_s) * US_PER_S)))

    async def close(self) -> None:
        await self._address.close()

    def _at(self, document: Any, path: str) -> Any:
        place = document
        for step in path.split("."):
            try:
                place = place[int(step)] if isinstance(place, list) else place[step]
            except (KeyError, IndexError, TypeError, ValueError):
                raise Unreadable(f"{self._address.shown} has no {step!r} of {path!r}") from None
        return place


def _number(value: Any, what: str) -> float:
    """A number, also where it is written as text, as Prometheus does."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise Unreadable(f"{what} is {str(value)[:SAID_LENGTH]!r}, which is no number")


def _reason(document: Any) -> str:
    """What a server says about its refusal, if it says so in the way of Prometheus."""
    said = document.get("error") if isinstance(document, dict) else None
    return f": {said[:SAID_LENGTH]}" if isinstance(said, str) else ""


def _headers(token_variable: str | None) -> dict[str, str]:
    if token_variable is None:
        return {}
    token = os.environ.get(token_variable, "").strip()
    if not token:
        raise BadTelemetry(f"the environment variable {token_variable} has no token; set it")
    if not (token.isascii() and token.isprintable()):
        raise BadTelemetry(f"the token in {token_variable} has signs that no token has; check it")
    return {"Authorization": f"Bearer {token}"}


def _httpx() -> Any:
    """httpx, which only those who read addresses need."""
    try:
        return importlib.import_module("httpx")
    except ImportError:
        raise BadTelemetry(
            "an address is read with httpx, which is not installed; "
            "run pip install 'laissez[telemetry]'"
        ) from None
