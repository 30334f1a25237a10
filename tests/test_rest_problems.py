"""Whatever REST refuses is a problem with a stable code, the status of that code, and advice."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laissez.exchange.access import Limits, Principal
from laissez.exchange.clock import Clock
from laissez.exchange.journal import NotDurable
from laissez.exchange.pipeline import Settings
from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.model import Cancelled, Code, Rejected, ServiceCode
from laissez.service.rest.caller import Answered
from laissez.service.rest.problems import STATUS_BY_CODE
from rest_in_process import FLOOR, ORDER, House, in_house, kinds, problem_of


def test_every_code_has_a_status() -> None:
    """The table has each code of the market and of the service, and no other but the one for
    faults of our own, and no refusal looks like a success."""
    assert set(STATUS_BY_CODE) == {*Code, *ServiceCode}
    assert all(400 <= status <= 503 for status in STATUS_BY_CODE.values())
    ours = {code for code, status in STATUS_BY_CODE.items() if status >= 500}
    assert ours == {"busy", "not_durable", "stopping", "internal_error"}


UNREADABLE: list[tuple[str, str, bytes, str]] = [
    ("POST", "/v1/orders", b"", "truncated"),
    ("POST", "/v1/orders", b"{", "truncated"),
    ("POST", "/v1/orders", b"nothing", "malformed"),
    ("POST", "/v1/orders", b"[]", "object"),
    ("POST", "/v1/orders", b"{}", "scope"),
    ("POST", "/v1/orders", b'{"scope": 7}', "scope"),
    ("POST", "/v1/orders", b'{"scope": "\xff"}', "UTF-8"),
    ("POST", "/v1/orders", b'{"scope": "h", "price": 1}', "price"),
    (
        "POST",
        "/v1/orders",
        b'{"scope": "h", "limit_micros_per_hour": "1"}',
        "limit_micros_per_hour",
    ),
    (
        "POST",
        "/v1/orders",
        b'{"scope": "h", "limit_micros_per_hour": 1.5}',
        "limit_micros_per_hour",
    ),
    ("POST", "/v1/orders?scope=h", b"{}", "scope"),
    ("PATCH", "/v1/orders/x", b'{"order": "y"}', "order"),
    ("PATCH", "/v1/orders/%ff", b"{}", "order"),
    ("PATCH", f"/v1/orders/{'x' * 129}", b"{}", "order id"),
    ("GET", "/v1/orders?tenants=a", b"", "tenants"),
    ("GET", "/v1/orders?tenant=a&tenant=b", b"", "tenant"),
    ("GET", "/v1/orders?tenant=", b"", "tenant"),
    ("GET", "/v1/orders?tenant=%ff", b"", "query"),
    ("GET", "/v1/bill?explain=yes", b"", "explain"),
]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A request that can't be read is refused with the name of what is wrong, and never acts."""

    async def send_all(house: House) -> None:
        for method, path, content, named in UNREADABLE:
            response = await house.send("a", method, path, content=content)
            assert named in problem_of(response, 400, "bad_request")["detail"], path
        response = await house.send("a", "POST", "/v1/orders", ORDER, key="k" * 129)
        assert "Idempotency-Key" in problem_of(response, 400, "bad_request")["detail"]
        assert house.changes == 0

    in_house(tmp_path, send_all)


def test_nothing_there_and_no_such_method(tmp_path: Path) -> None:
    """An unknown path and an unknown method are problems, too; the second says what is allowed."""

    async def miss(house: House) -> None:
        for path in ("/v2/orders", "/v1", "/v1/order", "/v1/stream", "/v1/status/x"):
            problem_of(await house.send("a", "GET", path), 404, "not_found")
        response = await house.send("a", "DELETE", "/v1/orders")
        problem_of(response, 405, "method_not_allowed")
        assert {"GET", "POST"} <= set(response.headers["allow"].split(", "))

    in_house(tmp_path, miss)


def test_a_body_has_a_largest_size(tmp_path: Path) -> None:
    """65,536 bytes are read, one more is refused, announced or not."""

    async def stream(size: int) -> Any:
        for _ in range(size):
            yield b" "

    async def send_all(house: House) -> None:
        body = msgspec.json.encode(ORDER)
        most = body + b" " * (64 * 1024 - len(body))
        problem_of(await house.send("a", "POST", "/v1/orders", content=most), 404, "unknown_scope")
        response = await house.send("a", "POST", "/v1/orders", content=most + b" ")
        problem_of(response, 413, "too_large")
        response = await house.client.post(
            "/v1/orders",
            content=stream(64 * 1024 + 1),
            headers={"Authorization": f"Bearer {house.secrets['a']}"},
        )
        problem_of(response, 413, "too_large")

    in_house(tmp_path, send_all)


def test_market_refusals_have_their_status(tmp_path: Path) -> None:
    """A rule of the market that is broken gives its code, the status of that code, and where in
    the journal it was refused."""

    async def break_rules(house: House) -> None:
        await house.offer("h100/r1/g0")
        await house.change("a", "POST", "/v1/orders", ORDER)
        await house.change("b", "POST", "/v1/orders", ORDER | {"order": "x"})
        above = ORDER | {"price_micros_per_hour": 3 * FLOOR}
        expected = [
            ("b", "POST", "/v1/orders", ORDER | {"order": "x"}, 409, "order_id_taken"),
            ("b", "POST", "/v1/orders", above, 422, "price_above_limit"),
            ("b", "POST", "/v1/orders", ORDER | {"scope": "x"}, 404, "unknown_scope"),
            ("b", "POST", "/v1/orders", ORDER | {"expires_us": 1}, 422, "bad_expiry"),
            ("b", "DELETE", "/v1/holdings/h100/r1/g0", None, 403, "not_the_holder"),
            ("b", "DELETE", "/v1/holdings/h100/r1/g9", None, 404, "unknown_resource"),
            ("operator", "PUT", "/v1/resources/h100/r1/g0", {}, 409, "resource_exists"),
            ("operator", "PUT", "/v1/resources/h100", {}, 422, "root_is_not_a_resource"),
            ("operator", "PUT", "/v1/guards/h100", {"rise_basis_points": 1}, 422, "bad_guard"),
        ]
        for who, method, path, body, status, code in expected:
            problem = problem_of(await house.send(who, method, path, body), status, code)
            assert problem["sequence"] == house.exchange.execution.sequence
            assert problem["at_us"] > 0
        problem = problem_of(
            await house.send("b", "GET", "/v1/quotes/h100/r1"), 403, "scope_not_visible"
        )
        assert "sequence" not in problem

    in_house(tmp_path, break_rules)


def test_cordoned_ground_is_in_conflict(tmp_path: Path) -> None:
    """A resource can't be added under a cordon."""

    async def add(house: House) -> None:
        await house.offer("h100/r1/g0")
        await house.change("operator", "PUT", "/v1/cordons/h100/r1")
        response = await house.send("operator", "PUT", "/v1/resources/h100/r1/g1", {})
        problem_of(response, 409, "cordoned")

    in_house(tmp_path, add)


def test_too_many_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that has used its allowance is told to wait, whatever it asks, and others are not."""

    async def flood(house: House) -> None:
        for path in ("/v1/status", "/v1/orders"):
            await house.ask("a", path)
        for method, path in (("GET", "/v1/status"), ("DELETE", "/v1/orders/x")):
            response = await house.send("a", method, path)
            problem_of(response, 429, "too_many_requests")
            assert response.headers["retry-after"] == "2"  # 1,001 ms, rounded up
        await house.ask("b", "/v1/status")

    # The clock stands still, so that the allowance never comes back.
    monkeypatch.setattr(Clock, "now", lambda clock: 1_000_000_000)
    in_house(tmp_path, flood, Settings(limits=Limits(requests_per_s=1, burst=2)))


def test_busy_is_not_for_ever(tmp_path: Path) -> None:
    """An exchange with no room in its queue says when to come back."""

    async def crowd(house: House) -> None:
        response = await house.send("a", "POST", "/v1/orders", ORDER)
        problem_of(response, 503, "busy")
        assert response.headers["retry-after"] == "1"

    in_house(tmp_path, crowd, Settings(queue_max=0))


def test_a_full_disk_is_not_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written is refused, and the same key works when there is room."""

    async def fill_up(house: House) -> None:
        await house.offer("h100/r1/g0")

        def no_room(*group: Any) -> None:
            raise NotDurable("no room")

        with monkeypatch.context() as patched:
            patched.setattr(SqliteJournal, "append", no_room)
            response = await house.send("a", "POST", "/v1/orders", ORDER, key="k")
            problem_of(response, 503, "not_durable")
            assert response.headers["retry-after"] == "1"
        answer = await house.change("a", "POST", "/v1/orders", ORDER, key="k")
        assert kinds(answer) == ["Placed", "Filled"] and not answer["repeated"]

    in_house(tmp_path, fill_up)


def test_only_a_refusal_is_taken_for_one() -> None:
    """A refusal is the last event; one that stands elsewhere, or no event at all, is none."""
    rejected, cancelled = Rejected(3, Code.BAD_PRICE, "no"), Cancelled(3, "alpha", "Rejected")
    assert Answered(1, 3, (cancelled, rejected), False).refusal is rejected
    for events in ((), (cancelled,), (rejected, cancelled)):
        assert Answered(1, 3, events, False).refusal is None


def test_a_fault_of_ours_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error that nobody thought of is a problem and a line in the log, and neither has what
    the client sent or what the error says."""
    caplog.set_level(logging.DEBUG)

    async def fail(house: House) -> None:
        def broken(asker: Principal, question: Any) -> None:
            raise RuntimeError(f"surprise {house.secrets['a']}")

        monkeypatch.setattr(house.exchange.desk, "answer", broken)
        response = await house.send("a", "GET", "/v1/orders?tenant=somebody")
        problem_of(response, 500, "internal_error")
        logged = [each.getMessage() for each in caplog.records if each.name != "httpx"]
        for text in (response.text, *logged):
            assert house.secrets["a"] not in text
            assert "surprise" not in text and "somebody" not in text
        assert any("RuntimeError" in line for line in logged)

    in_house(tmp_path, fail)
