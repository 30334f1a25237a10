"""The service does what its OpenAPI document says, whatever is sent to it.

Requests are made from the document, half of them such as it allows and half such as it does not,
and sent straight into the app. Now and then a path or a scope is replaced by one that exists, so
that the market has something to do. The same requests are made on every run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from laissez.service.rest.document import openapi_document
from laissez.service.rest.problems import MEDIA_TYPE
from laissez.service.rest.routes import ROUTES
from rest_in_process import FLOOR, House, in_house, rest

EXAMPLES = 24
PROMISES = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
RESOURCES = ("h100/us-east/r1/h3/g0", "h100/us-east/r1/h3/g1", "h100/us-west/r1/h1/g0")
KNOWN: dict[str, tuple[Any, ...]] = {
    "resource": RESOURCES,
    "scope": ("h100", "h100/us-east", "h100/us-west/r1", *RESOURCES),
    "tree": ("h100",),
    "order": ("job-17", "o/1"),
    "tenant": ("alpha", "bravo"),
    "price_micros_per_hour": (FLOOR, FLOOR + 1),
    "limit_micros_per_hour": (2 * FLOOR, 3 * FLOOR),
    "expires_us": (None,),
    "count": (1, 2),
    "within": (None,),
    "together": (False,),
}

# Whether a token is asked for is tested elsewhere: here each request has one.
DOCUMENT = openapi_document() | {"security": []}
AnyCase = Case[Any]
AnyOperation = APIOperation[Any, Any, Any, Any]


def operations() -> list[AnyOperation]:
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    return [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]


def make_known(case: AnyCase, draw: Any) -> None:
    """Replace what names something by the name of something that is there, half of the time."""
    for part in (case.path_parameters, case.query, case.body):
        if isinstance(part, dict):
            if "together" in part and draw(st.integers(0, 7)):  # an order for one, as most are
                part |= {"count": 1, "within": None, "together": False}
            for name in sorted(part.keys() & KNOWN.keys()):
                if draw(st.booleans()):
                    part[name] = draw(st.sampled_from(KNOWN[name]))


async def send(house: House, who: str, case: AnyCase) -> httpx.Response:
    asked = case.as_transport_kwargs(base_url="http://laissez")
    prepared = requests.Request(**asked).prepare()
    assert prepared.method is not None and prepared.url is not None
    headers: Any = {**prepared.headers, "Authorization": f"Bearer {house.secrets[who]}"}
    body: Any = prepared.body
    return await house.client.request(prepared.method, prepared.url, headers=headers, content=body)


def fuzz(house: House, who: str, runner: asyncio.Runner) -> dict[int, int]:
    """Try every operation; how often each status was the answer."""
    statuses: dict[int, int] = {}

    def try_operation(operation: AnyOperation, mode: GenerationMode) -> None:
        promises = PROMISES if mode.is_positive else [*PROMISES, negative_data_rejection]

        @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def try_case(case: AnyCase, data: st.DataObject) -> None:
            if mode.is_positive:
                make_known(case, data.draw)
            response = runner.run(send(house, who, case))
            statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
            case.validate_response(response, checks=promises)
            if response.status_code >= 400:
                assert response.headers["content-type"] == MEDIA_TYPE
                assert house.secrets[who] not in response.text

        try_case()

    for operation in operations():
        try_operation(operation, GenerationMode.POSITIVE)
        with contextlib.suppress(Unsatisfiable):  # nothing that it takes can be wrong
            try_operation(operation, GenerationMode.NEGATIVE)
    return statuses


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for name, inner in part.items():
            if name == "$ref":
                yield inner
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_the_document_is_whole() -> None:
    """Every operation has a summary, an answer and its problems; everything that can be sent has
    an example; every reference leads somewhere."""
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            what = f"{method} {path}"
            assert operation["summary"], what
            statuses = set(operation["responses"])
            assert statuses & {"200", "201"}, what
            is_open = operation.get("security") == []
            assert is_open or {"400", "401", "403", "429"} <= statuses, what
            named = [each["name"] for each in operation.get("parameters", ())]
            assert is_open or ("Idempotency-Key" in named) == (method != "get"), what
    schemas = DOCUMENT["components"]["schemas"]
    for route in ROUTES:
        if route.body_fields:
            for name, field in schemas[route.do.__name__]["properties"].items():
                assert field["examples"] and field["description"], (route.do, name)
    for reference in set(references(DOCUMENT)):
        part: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            part = part[step]
    assert len({each["operationId"] for each in operations_of(DOCUMENT)}) == len(ROUTES) + 3


def operations_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for methods in document["paths"].values() for each in methods.values()]


def test_the_document_is_served(tmp_path: Path) -> None:
    """Everybody can read the document, with or without a token, and it is this one."""

    async def read(house: House) -> None:
        response = await house.send(None, "GET", "/v1/openapi.json")
        assert response.json() == openapi_document()
        root = await house.send(None, "GET", "/")
        assert root.json()["openapi"] == "/v1/openapi.json"
        health = await house.send(None, "GET", "/v1/health")
        assert health.json() == {"status": "ok"}

    in_house(tmp_path, read)


@pytest.mark.parametrize("who", ["operator", "a", "viewer"])
def test_the_document_holds(tmp_path: Path, who: str) -> None:
    """Every answer has a status, a content type, headers and a form that the document names, none
    is an error of ours, and a viewer leaves no trace in the market."""
    with asyncio.Runner() as runner:
        opened = rest(tmp_path)
        house = runner.run(opened.__aenter__())
        try:
            runner.run(house.offer(*RESOURCES))
            before = house.digest()
            statuses = fuzz(house, who, runner)
            assert statuses[200] > 20 and statuses[400] > 100
            assert (house.digest() == before) == (who == "viewer")
        finally:
            runner.run(opened.__aexit__(None, None, None))
