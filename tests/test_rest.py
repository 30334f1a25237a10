"""REST does what its routes say, acts once per key, and lets clients come and go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.model import Answer, AskStatus, Status, Subscribe
from laissez.model.wire import decode_said
from laissez.service.rest.caller import RestCaller
from rest_in_process import FLOOR, ORDER, House, in_house, kinds, problem_of

# What the routes do ----------------------------------------------------------------------------


def test_a_tenant_trades(tmp_path: Path) -> None:
    """Quote, place, list, amend, cancel, hold, limit, release, bill: each does its own thing."""

    async def trade(house: House) -> None:
        await house.offer("h100/r1/g0")
        quote_now = await house.ask("a", "/v1/quotes/h100")
        assert (quote_now["rate_micros_per_hour"], quote_now["idle"]) == (FLOOR, True)
        placed = await house.send("a", "POST", "/v1/orders", ORDER | {"order": "first"})
        assert placed.status_code == 201
        assert kinds(placed.json()) == ["Placed", "Filled"]
        resting = await house.change("b", "POST", "/v1/orders", ORDER)
        assert kinds(resting) == ["Placed"]
        own_id = resting["events"][0]["order"]
        amended = await house.change(
            "b", "PATCH", f"/v1/orders/{own_id}", {"price_micros_per_hour": FLOOR + 5}
        )
        assert kinds(amended) == ["Amended"]
        (order,) = (await house.ask("b", "/v1/orders"))["orders"]
        assert (order["order"], order["price_micros_per_hour"]) == (own_id, FLOOR + 5)
        (holding,) = (await house.ask("a", "/v1/holdings"))["holdings"]
        assert holding["rate_micros_per_hour"] == FLOOR + 5
        path = "/v1/holdings/h100/r1/g0"
        limited = await house.change("a", "PATCH", path, {"limit_micros_per_hour": 3 * FLOOR})
        assert kinds(limited) == ["LimitSet"]
        assert kinds(await house.change("b", "DELETE", f"/v1/orders/{own_id}")) == ["Cancelled"]
        assert kinds(await house.change("a", "DELETE", path)) == ["Charged", "Lost"]
        bill = await house.ask("a", "/v1/bill?explain=true")
        assert bill["tenant"] == "alpha" and bill["charge_micros_us_per_hour"] > 0

    in_house(tmp_path, trade)


def test_an_amendment_leaves_alone_what_it_does_not_name(tmp_path: Path) -> None:
    """An expiry stays when it is left out, and goes when it is null."""

    async def amend(house: House) -> None:
        await house.offer("h100/r1/g0")
        await house.change("a", "POST", "/v1/orders", ORDER)
        expires = house.exchange.clock.now() + 3_600_000_000
        await house.change("b", "POST", "/v1/orders", ORDER | {"order": "o", "expires_us": expires})
        price = {"price_micros_per_hour": FLOOR + 1}
        answer = await house.change("b", "PATCH", "/v1/orders/o", price)
        assert answer["events"][0]["expires_us"] == expires
        answer = await house.change("b", "PATCH", "/v1/orders/o", {"expires_us": None})
        assert answer["events"][0]["expires_us"] is None
        assert answer["events"][0]["price_micros_per_hour"] == FLOOR + 1

    in_house(tmp_path, amend)


def test_an_operator_runs_the_cluster(tmp_path: Path) -> None:
    """Resources, floors, guards, cordons, statements and tenants can be set and read."""

    async def operate(house: House) -> None:
        async def change(method: str, path: str, body: Any = None) -> list[str]:
            return kinds(await house.change("operator", method, path, body))

        floor = {"floor_micros_per_hour": FLOOR}
        assert await change("PUT", "/v1/floors/h100", floor) == ["FloorSet"]
        attributes = {"attributes": {"host": "n1"}}
        assert await change("PUT", "/v1/resources/h100/r1/g0", attributes) == ["ResourceAdded"]
        guard = {"hold_us": 5, "rise_basis_points": 100, "window_us": 1_000_000}
        assert await change("PUT", "/v1/guards/h100", guard) == ["GuardSet"]
        await house.change("a", "POST", "/v1/orders", ORDER)
        assert await change("POST", "/v1/statements") == ["Charged"]
        assert (await house.ask("operator", "/v1/tenants"))["tenants"][0]["tenant"] == "alpha"
        assert len((await house.ask("operator", "/v1/holdings?tenant=alpha"))["holdings"]) == 1
        (found,) = (await house.ask("operator", "/v1/resources?scope=h100/r1"))["resources"]
        assert (found["owner"], found["attributes"]) == ("alpha", {"host": "n1"})
        assert (await house.ask("operator", "/v1/resources?scope=x"))["resources"] == []
        assert await change("PUT", "/v1/cordons/h100/r1") == []
        floors = await house.ask("operator", "/v1/floors")
        assert floors["floors_micros_per_hour"] == {"h100": FLOOR}
        assert floors["guards"][0]["hold_us"] == 5
        assert floors["cordons"] == ["h100/r1"]
        assert await change("DELETE", "/v1/cordons/h100/r1") == []
        gone = await change("DELETE", "/v1/resources/h100/r1/g0")
        assert gone[-1] == "ResourceWithdrawn"

    in_house(tmp_path, operate)


def test_tokens_and_webhooks(tmp_path: Path) -> None:
    """A new token works until it is revoked; a webhook is listed until it is removed; a secret is
    in the answer that made it and in no other."""

    async def administer(house: House) -> None:
        wanted = {"role": "tenant", "tenant": "c", "note": "new"}
        made = await house.send("operator", "POST", "/v1/tokens", wanted)
        assert made.status_code == 201
        token, house.secrets["c"] = made.json()["info"]["token"], made.json()["secret"]
        assert (await house.ask("c", "/v1/status"))["tenant"] == "c"
        listed = await house.send("operator", "GET", "/v1/tokens")
        assert token in listed.text and house.secrets["c"] not in listed.text
        await house.change("operator", "DELETE", f"/v1/tokens/{token}")
        problem_of(await house.send("c", "GET", "/v1/status"), 401, "unauthenticated")

        hook = {"url": "https://hooks.invalid/x"}
        added = await house.send("operator", "POST", "/v1/webhooks", hook)
        assert added.status_code == 201
        listed = await house.send("operator", "GET", "/v1/webhooks")
        assert hook["url"] in listed.text and added.json()["secret"] not in listed.text
        where = f"/v1/webhooks/{added.json()['info']['webhook']}"
        await house.change("operator", "DELETE", where)
        problem_of(await house.send("operator", "DELETE", where), 404, "not_found")

    in_house(tmp_path, administer)


def test_answers_are_the_models_own(tmp_path: Path) -> None:
    """An answer is the model's `Answer` but for the id, and a reply is what the desk said."""

    async def compare(house: House) -> None:
        await house.offer("h100/r1/g0")
        answer = await house.change("a", "POST", "/v1/orders", ORDER)
        said = decode_said(msgspec.json.encode(answer | {"id": 7}))
        assert isinstance(said, Answer)
        assert said.sequence == house.exchange.execution.sequence
        status = await house.send("a", "GET", "/v1/status")
        told = msgspec.json.decode(status.content, type=Status)
        principal = house.exchange.authenticate(house.secrets["a"])
        assert principal is not None
        expected = house.exchange.desk.answer(principal, AskStatus())
        assert isinstance(expected, Status)
        assert msgspec.structs.replace(told, at=0) == msgspec.structs.replace(expected, at=0)

    in_house(tmp_path, compare)


AWKWARD = [
    "/",
    "//",
    "a/b",
    "a//b/",
    "%2F",
    "100%",
    "é ö",
    "?x=1",
    "a#b",
    "a;b=c",
    "a/../b",
    "Rejected",
]


@pytest.mark.parametrize("order", AWKWARD)
def test_an_order_id_may_have_any_printable_character(tmp_path: Path, order: str) -> None:
    """A percent-encoded id arrives as it was meant: the order can be amended and cancelled."""

    async def reach(house: House) -> None:
        await house.offer("h100/r1/g0")
        await house.change("a", "POST", "/v1/orders", ORDER)
        await house.change("b", "POST", "/v1/orders", ORDER | {"order": order})
        path = f"/v1/orders/{quote(order, safe='')}"
        amended = await house.change("b", "PATCH", path, {"price_micros_per_hour": FLOOR + 1})
        assert amended["events"][0]["order"] == order
        cancelled = await house.change("b", "DELETE", path)
        assert cancelled["events"][0]["order"] == order

    in_house(tmp_path, reach)


def test_slashes_may_be_written_as_they_are(tmp_path: Path) -> None:
    """A resource's path is the same with its slashes encoded or not, and a slash too many is not
    taken away."""

    async def reach(house: House) -> None:
        await house.offer("h100/r1/g0", "h100/r1/g1")
        for path in ("h100/r1/g0", "h100%2Fr1%2Fg1"):
            await house.change("operator", "DELETE", f"/v1/resources/{path}")
        response = await house.send("operator", "PUT", "/v1/resources/h100//g0", {})
        problem_of(response, 422, "bad_path")
        response = await house.send("operator", "PUT", "/v1/resources/h100/g0/", {})
        problem_of(response, 422, "bad_path")

    in_house(tmp_path, reach)


# Once per key ----------------------------------------------------------------------------------


def test_a_key_acts_once(tmp_path: Path) -> None:
    """The same key with the same content is answered as the first time; with other content it is
    refused; another tenant's key is another key."""

    async def repeat(house: House) -> None:
        await house.offer("h100/r1/g0", "h100/r1/g1", "h100/r1/g2")
        first = await house.change("a", "POST", "/v1/orders", ORDER, key="k")
        again = await house.change("a", "POST", "/v1/orders", ORDER, key="k")
        assert (first["repeated"], again["repeated"]) == (False, True)
        assert again["events"] == first["events"] and again["sequence"] == first["sequence"]
        assert len((await house.ask("a", "/v1/holdings"))["holdings"]) == 1
        other = await house.send("a", "POST", "/v1/orders", ORDER | {"scope": "x"}, key="k")
        problem_of(other, 409, "key_reused")
        other = await house.send("a", "DELETE", "/v1/orders/x", key="k")
        problem_of(other, 409, "key_reused")
        assert not (await house.change("b", "POST", "/v1/orders", ORDER, key="k"))["repeated"]

    in_house(tmp_path, repeat)


def test_a_key_remembers_a_refusal(tmp_path: Path) -> None:
    """A change that the market refused is refused again, at the same place in the journal."""

    async def repeat(house: House) -> None:
        sent = [await house.send("a", "DELETE", "/v1/orders/x", key="k") for _ in range(2)]
        problems = [problem_of(response, 404, "unknown_order") for response in sent]
        assert problems[0] == problems[1]
        assert problems[0]["sequence"] == house.exchange.execution.sequence

    in_house(tmp_path, repeat)


def test_a_key_makes_one_token(tmp_path: Path) -> None:
    """A token's secret is shown once, so that its key can't be used again."""

    async def repeat(house: House) -> None:
        wanted = {"role": "tenant", "tenant": "c"}
        made = await house.change("operator", "POST", "/v1/tokens", wanted, key="k")
        before = len(house.exchange.access.tokens())
        again = await house.send("operator", "POST", "/v1/tokens", wanted, key="k")
        assert made["info"]["token"] in problem_of(again, 409, "key_reused")["detail"]
        assert len(house.exchange.access.tokens()) == before

    in_house(tmp_path, repeat)


# Comings and goings ----------------------------------------------------------------------------


class SlowDisk:
    """Writing waits until it is told to go on."""

    def __init__(self) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()

    async def reached(self) -> None:
        """A group is being written."""
        while not self._reached.is_set():
            await asyncio.sleep(0.001)

    def wait(self) -> None:
        self._reached.set()
        self._go_on.wait()

    def go_on(self) -> None:
        self._go_on.set()


@contextmanager
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    disk = SlowDisk()
    append = SqliteJournal.append

    def wait(journal: SqliteJournal, *group: Any) -> None:
        disk.wait()
        append(journal, *group)

    with monkeypatch.context() as patched:
        patched.setattr(SqliteJournal, "append", wait)
        try:
            yield disk
        finally:
            disk.go_on()


def test_a_stopping_exchange_answers_what_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that came before the end is answered, one that comes after is sent away."""

    async def stop(house: House) -> None:
        await house.offer("h100/r1/g0")
        with slow_disk(monkeypatch) as disk:
            early = asyncio.create_task(house.send("a", "POST", "/v1/orders", ORDER))
            await disk.reached()
            closing = house.begin_to_close()
            await asyncio.sleep(0)
            late = await house.send("a", "POST", "/v1/orders", ORDER)
            disk.go_on()
            await closing
        problem_of(late, 503, "stopping")
        assert late.headers["retry-after"] == "1"
        assert (await early).status_code == 201

    in_house(tmp_path, stop)


def test_a_client_may_go_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change whose client is gone is made all the same, and its key still answers."""

    async def leave(house: House) -> None:
        await house.offer("h100/r1/g0")
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        with slow_disk(monkeypatch) as disk:
            gone = asyncio.create_task(house.send("a", "POST", "/v1/orders", ORDER, key="k"))
            await disk.reached()
            gone.cancel()
            await asyncio.wait([gone])
            disk.go_on()
            answer = await house.change("a", "POST", "/v1/orders", ORDER, key="k")
        assert gone.cancelled()
        assert answer["repeated"] and kinds(answer) == ["Placed", "Filled"]
        assert complaints == []

    in_house(tmp_path, leave)


def test_a_client_may_go_away_in_the_middle_of_a_body(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a body changes nothing and is not logged as a fault of ours."""

    async def leave(house: House) -> None:
        half = {"type": "http.request", "body": b'{"scope": "h100"', "more_body": True}
        coming: list[Any] = [half, {"type": "http.disconnect"}]
        said: list[Any] = []

        async def receive() -> Any:
            return coming.pop(0)

        async def send(message: Any) -> None:
            said.append(message)

        scope: Any = {
            "type": "http",
            "method": "POST",
            "path": "/v1/orders",
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {house.secrets['a']}".encode())],
        }
        await house.app(scope, receive, send)
        assert said[0]["status"] == 400
        assert house.changes == 0
        assert [record for record in caplog.records if record.name == "laissez.rest"] == []

    in_house(tmp_path, leave)


def test_a_caller_is_answered_once() -> None:
    """The first outcome stands, one that comes after the caller has left is dropped, and a
    subscription has no place here."""

    async def answer() -> None:
        principal: Any = None
        caller = RestCaller(principal)
        caller.answer(0, 5, 9, (), False)
        caller.answer(0, 6, 9, (), False)
        assert getattr(await caller.outcome, "sequence", None) == 5
        caller = RestCaller(principal)
        caller.outcome.cancel()
        caller.answer(0, 5, 9, (), False)
        caller = RestCaller(principal)
        caller.subscribe(0, Subscribe())
        assert getattr(await caller.outcome, "code", None) == "bad_request"

    asyncio.run(answer())
