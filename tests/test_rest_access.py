"""Who may do what over REST: every route asks for a token, each role has its own routes, and a
tenant neither reaches nor sees what is another's.

The routes are taken from the app itself, so that a new one can't be forgotten.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, get_args

import httpx
import pytest
from litestar import Litestar

from laissez.exchange.access import new_token
from laissez.model import (
    Administration,
    OperatorInstruction,
    OperatorQuestion,
    TenantInstruction,
    TenantQuestion,
)
from laissez.service.rest.document import openapi_document
from laissez.service.rest.routes import ROUTES, Route
from rest_in_process import FLOOR, ORDER, House, in_house, kinds, problem_of

OPEN = {"/", "/v1/health", "/v1/openapi.json"}
EVERYBODY = ("operator", "a", "viewer", "viewer-of-a")
ALLOWED: dict[type, tuple[str, ...]] = {
    **dict.fromkeys(get_args(TenantInstruction), ("a",)),
    **dict.fromkeys(get_args(OperatorInstruction), ("operator",)),
    **dict.fromkeys(get_args(TenantQuestion), EVERYBODY),
    **dict.fromkeys(get_args(OperatorQuestion), ("operator", "viewer")),
    **dict.fromkeys(get_args(Administration), ("operator",)),
}


class Door(NamedTuple):
    """A method on a path of the app, with the route of the table that it comes from."""

    method: str
    path: str
    route: Route | None


def doors(app: Litestar) -> list[Door]:
    """All that the app answers to, whatever the table of routes says."""
    known: dict[tuple[str, str], Route]
    known = {(route.method, route.prefix): route for route in ROUTES}
    return [
        Door(method, path, known.get((method, path.partition("{")[0])))
        for path, methods in ((route.path_format, route.methods) for route in app.routes)
        for method in sorted(methods)
    ]


def example_request(route: Route) -> tuple[str, Any]:
    """A path and a body as the OpenAPI document gives them for an example."""
    document = openapi_document()
    operation = document["paths"][route.path][route.method.lower()]
    path = route.path
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            path = route.prefix + parameter["schema"]["examples"][0]
    if "requestBody" not in operation:
        return path, None
    properties = document["components"]["schemas"][route.do.__name__]["properties"]
    return path, {name: field["examples"][0] for name, field in properties.items()}


# Tokens and roles ------------------------------------------------------------------------------


def test_the_app_has_the_routes_of_the_table(tmp_path: Path) -> None:
    """Every route of the table is served, and beside them only what is open to everybody and the
    list of methods that each path has."""

    async def compare(house: House) -> None:
        served = doors(house.app)
        assert {door.route for door in served} - {None} == set(ROUTES)
        others = {(door.method, door.path) for door in served if door.route is None}
        assert others == {("OPTIONS", door.path) for door in served} | {
            ("GET", path) for path in OPEN
        }

    in_house(tmp_path, compare)


def test_nothing_opens_without_a_token(tmp_path: Path) -> None:
    """Without a living token in the right header, each door but the open ones stays shut, and
    says how to open it."""

    async def knock(house: House) -> None:
        secret, dead = new_token("operator", None, at=0, lifetime_us=1)
        house.exchange.access.add(dead)
        good = house.secrets["operator"]
        wrong = [
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {secret}",
            f"Basic {good}",
            good,
            f"Bearer {good}x",
        ]
        for method, path, route in doors(house.app):
            sent = example_request(route)[0] if route else path.replace("{field}", "x")
            for header in wrong:
                headers = {"Authorization": header} if header else {}
                response = await house.client.request(method, sent, headers=headers)
                if method == "GET" and path in OPEN:
                    assert response.status_code == 200
                else:
                    problem_of(response, 401, "unauthenticated")
                    assert response.headers["www-authenticate"] == "Bearer"
                assert good not in response.text and secret not in response.text
        assert house.changes == 0

    in_house(tmp_path, knock)


def test_the_scheme_is_read_as_http_has_it(tmp_path: Path) -> None:
    """`bearer` is written in any case."""

    async def knock(house: House) -> None:
        for scheme in ("Bearer", "bearer", "BEARER"):
            headers = {"Authorization": f"{scheme}  {house.secrets['a']} "}
            response = await house.client.get("/v1/status", headers=headers)
            assert response.json()["tenant"] == "alpha"

    in_house(tmp_path, knock)


@pytest.mark.parametrize("who", EVERYBODY)
def test_each_role_has_its_routes(tmp_path: Path, who: str) -> None:
    """Who may not is told so, whatever else may be wrong, and nothing happens; who may is not."""

    async def try_all(house: House) -> None:
        for _, _, route in doors(house.app):
            if route is None:
                continue
            path, body = example_request(route)
            before = house.exchange.execution.sequence
            response = await house.send(who, route.method, path, body)
            if who in ALLOWED[route.do]:
                assert response.json().get("code") != "forbidden", (route, response.text)
            else:
                problem_of(response, 403, "forbidden")
                assert house.exchange.execution.sequence == before
        assert ("viewer" not in who) == (house.changes > 0)

    in_house(tmp_path, try_all)


def test_a_viewer_sees_and_changes_nothing(tmp_path: Path) -> None:
    """The viewer of everything names any tenant; a tenant's viewer sees what the tenant sees."""

    async def look(house: House) -> None:
        await house.offer("h100/r1/g0")
        await house.change("a", "POST", "/v1/orders", ORDER)
        own = (await house.ask("a", "/v1/holdings"))["holdings"]
        assert (await house.ask("viewer-of-a", "/v1/holdings"))["holdings"] == own
        assert (await house.ask("viewer", "/v1/holdings?tenant=alpha"))["holdings"] == own
        assert (await house.ask("viewer", "/v1/bill?tenant=alpha"))["tenant"] == "alpha"
        problem_of(await house.send("viewer", "GET", "/v1/bill"), 400, "bad_request")
        response = await house.send("viewer-of-a", "GET", "/v1/holdings?tenant=bravo")
        problem_of(response, 403, "forbidden")

    in_house(tmp_path, look)


# One tenant and another ------------------------------------------------------------------------


async def bravo_moves_in(house: House) -> None:
    """Bravo holds a resource and rests an order; whatever is bravo's own is named after it."""
    await house.offer("h100/r1/g0")
    own = {"attributes": {"host": "host-of-bravo"}}
    await house.change("operator", "PUT", "/v1/resources/h100/r2/g1", own)
    firm = {"price_micros_per_hour": FLOOR, "limit_micros_per_hour": 9 * FLOOR}
    mine = firm | {"scope": "h100/r2", "order": "first-of-bravo"}
    assert kinds(await house.change("b", "POST", "/v1/orders", mine)) == ["Placed", "Filled"]
    rest = firm | {"scope": "h100/r2/g1", "order": "order-of-bravo"}
    assert kinds(await house.change("b", "POST", "/v1/orders", rest)) == ["Placed"]


async def belongings(house: House) -> tuple[Any, Any]:
    orders = (await house.ask("b", "/v1/orders"))["orders"]
    holdings = (await house.ask("b", "/v1/holdings"))["holdings"]
    assert orders and holdings
    return orders, holdings


def test_a_tenant_does_not_reach_what_is_anothers(tmp_path: Path) -> None:
    """Reading, cancelling, amending, limiting and releasing what is bravo's is refused to alpha,
    and bravo has all of it afterwards."""

    async def attack(house: House) -> None:
        await bravo_moves_in(house)
        before = await belongings(house)
        limit, price = {"limit_micros_per_hour": 1}, {"price_micros_per_hour": FLOOR + 1}
        attempts: list[tuple[str, str, Any, int, str]] = [
            ("GET", "/v1/orders?tenant=bravo", None, 403, "forbidden"),
            ("GET", "/v1/holdings?tenant=bravo", None, 403, "forbidden"),
            ("GET", "/v1/bill?tenant=bravo&explain=true", None, 403, "forbidden"),
            ("GET", "/v1/quotes/h100/r2", None, 403, "scope_not_visible"),
            ("GET", "/v1/quotes/h100/r2/g1", None, 403, "scope_not_visible"),
            ("PATCH", "/v1/holdings/h100/r2/g1", limit, 403, "not_the_holder"),
            ("DELETE", "/v1/holdings/h100/r2/g1", None, 403, "not_the_holder"),
        ]
        for order in ("order-of-bravo", "bravo%2Forder-of-bravo", "..%2Fbravo%2Forder-of-bravo"):
            attempts += [
                ("PATCH", f"/v1/orders/{order}", price, 404, "unknown_order"),
                ("DELETE", f"/v1/orders/{order}", None, 404, "unknown_order"),
            ]
        for method, path, body, status, code in attempts:
            problem_of(await house.send("a", method, path, body), status, code)
        assert await belongings(house) == before
        taken = ORDER | {"order": "order-of-bravo"}
        assert kinds(await house.change("a", "POST", "/v1/orders", taken)) == ["Placed", "Filled"]

    in_house(tmp_path, attack)


def test_a_tenant_does_not_see_what_is_anothers(tmp_path: Path) -> None:
    """Nothing that names bravo is in any answer to alpha or its viewer, on any route, also when
    bravo takes a resource from alpha."""

    async def look_everywhere(house: House) -> None:
        await bravo_moves_in(house)
        heard: list[httpx.Response] = []
        await house.change("a", "POST", "/v1/orders", ORDER | {"order": "mine"})
        outbid = {"scope": "h100/r1", "price_micros_per_hour": 5 * FLOOR, "order": "win-of-bravo"}
        for who in ("a", "viewer-of-a"):
            for route in ROUTES:
                path, body = example_request(route)
                heard.append(await house.send(who, route.method, path, body))
            heard.append(await house.send(who, "GET", "/v1/bill?explain=true"))
            heard.append(await house.send(who, "PATCH", "/v1/orders/none", {}))
            heard.append(await house.send(who, "GET", "/v1/quotes/h100"))
            for scope in ("h100", "h100/r2", "h100/r2/g1"):
                low = ORDER | {"scope": scope, "limit_micros_per_hour": FLOOR}
                heard.append(await house.send(who, "POST", "/v1/orders", low))
            await house.change("b", "POST", "/v1/orders", outbid)
            heard.append(await house.send(who, "DELETE", "/v1/holdings/h100/r1/g0"))
        assert len([each for each in heard if each.status_code < 400]) >= 10
        assert [each.text for each in heard if "bravo" in each.text] == []
        assert "bravo" in (await house.send("operator", "GET", "/v1/resources")).text

    in_house(tmp_path, look_everywhere)
