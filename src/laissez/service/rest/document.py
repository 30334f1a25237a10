"""The OpenAPI document, made from the table of routes and the model's types.

Schemas come from the same types that read the requests and write the answers, so that they can't
differ; bounds and examples of what a client sends are added field by field.
"""

from __future__ import annotations

from http import HTTPStatus
from inspect import cleandoc
from typing import Any, get_type_hints

import msgspec

from laissez.exchange.admission import KEY_MAX
from laissez.model import Answer
from laissez.model.message import Message, written_name
from laissez.service.rest.fields import JSON, describe_field
from laissez.service.rest.problems import ABOUT_BLANK, MEDIA_TYPE, STATUS_BY_CODE, ProblemBody
from laissez.service.rest.reading import body_type, may_lack_body
from laissez.service.rest.routes import ROUTES, Route

SCHEMA = "#/components/schemas/{name}"
TOKEN = "token"
_TITLES = {status: HTTPStatus(status).phrase for status in STATUS_BY_CODE.values()}
_QUERY_TYPES = {bool: "boolean", int: "integer"}
_ALWAYS = (400, 401, 403, 429)
_WITH_PATH = (404, 422)
_ON_CHANGE = (404, 409, 422, 503)
_WITH_BODY = (413,)
_WITH_PAGES = (409,)

_DESCRIPTION = """\
A live market for compute. Money is in integer micro-dollars per hour, time in integer
microseconds since 1970; names carry the unit. A path parameter may contain any printable
character: percent-encode it (`/` may also be written as it is). Names that a client's URL library
would swallow, `.` and `..`, can only be reached over the WebSocket, `/v1/stream`.

Send an `Idempotency-Key` with every change and repeat the request with the same key if you got
no answer: it acts once. Every refusal is a problem document with a stable `code`."""


def openapi_document() -> JSON:
    """The whole document."""
    paths: JSON = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    for path, summary in _OPEN_PATHS.items():
        paths[path] = {"get": _open_operation(path, summary)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "laissez", "version": "1", "description": _DESCRIPTION},
        "paths": paths,
        "security": [{TOKEN: []}],
        "components": {
            "schemas": _schemas(),
            "responses": {_title(status): _problem_response(status) for status in _TITLES},
            "securitySchemes": {
                TOKEN: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token's secret, `lz_...`.",
                }
            },
        },
    }


# Operations ---------------------------------------------------------------------------------------


def _operation(route: Route) -> JSON:
    operation: JSON = {
        "operationId": route.do.__name__,
        "summary": route.summary,
        "description": cleandoc(route.do.__doc__ or route.summary),
        "tags": [route.path.split("/")[2]],
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if route.body_fields:
        operation["requestBody"] = {
            "required": not may_lack_body(route),
            "content": {"application/json": {"schema": _reference(route.do.__name__)}},
        }
    return operation


def _parameters(route: Route) -> list[JSON]:
    hints = get_type_hints(route.do)
    parameters = []
    for name in filter(None, (route.path_field, *route.query_fields)):
        in_path = name == route.path_field
        schema: JSON = {"type": _QUERY_TYPES.get(hints[name], "string")}
        parameters.append(
            {
                "name": name,
                "in": "path" if in_path else "query",
                "required": in_path,
                "schema": schema | describe_field(route.do, name),
            }
        )
    if route.changes:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "Makes this safe to send again: the same key never acts twice.",
                "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MAX},
            }
        )
    return parameters


def _responses(route: Route) -> JSON:
    told = {"application/json": {"schema": _reference(route.told.__name__)}}
    refused = {*_ALWAYS}
    if route.path_field is not None:
        refused.update(_WITH_PATH)
    if "after" in route.query_fields:
        refused.update(_WITH_PAGES)
    if route.changes:
        refused.update(_ON_CHANGE)
    if route.body_fields:
        refused.update(_WITH_BODY)
    return {
        str(route.status): {"description": _meaning(route.told), "content": told},
        **{
            str(status): {"$ref": f"#/components/responses/{_title(status)}"}
            for status in sorted(refused)
        },
    }


_OPEN_PATHS = {
    "/": "Where to go from here; no token needed",
    "/v1/health": "Is the service up? No token needed",
    "/v1/openapi.json": "This document; no token needed",
}


def _open_operation(path: str, summary: str) -> JSON:
    content = {"application/json": {"schema": {"type": "object"}}}
    return {
        "operationId": path.removeprefix("/v1").strip("/").partition(".")[0] or "root",
        "summary": summary,
        "security": [],
        "responses": {
            "200": {"description": summary, "content": content},
            "400": {"$ref": f"#/components/responses/{_title(400)}"},
        },
    }


# Problems -----------------------------------------------------------------------------------------


def _problem_response(status: int) -> JSON:
    codes = sorted(str(code) for code, known in STATUS_BY_CODE.items() if known == status)
    example = ProblemBody(ABOUT_BLANK, _TITLES[status], status, "What to do.", codes[0])
    response: JSON = {
        "description": f"{_TITLES[status]}. Codes: {', '.join(codes)}",
        "content": {
            MEDIA_TYPE: {
                "schema": _reference(ProblemBody.__name__),
                "example": msgspec.to_builtins(example),
            }
        },
    }
    if status == HTTPStatus.UNAUTHORIZED:
        response["headers"] = {"WWW-Authenticate": _header("string", "Bearer.")}
    elif status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        response["headers"] = {"Retry-After": _header("integer", "Seconds to wait.")}
    return response


def _header(kind: str, meaning: str) -> JSON:
    return {"schema": {"type": kind}, "description": meaning, "required": True}


def _title(status: int) -> str:
    return _TITLES[status].replace(" ", "")


# Schemas ------------------------------------------------------------------------------------------


def _schemas() -> JSON:
    bodies = {route: body for route in ROUTES if (body := body_type(route)) is not None}
    told = dict.fromkeys(route.told for route in ROUTES)
    types: list[Any] = [*bodies.values(), *told, ProblemBody]
    _, schemas = msgspec.json.schema_components(types, ref_template=SCHEMA)
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])
        _loosen_tuples(schema)
    for route in bodies:
        _bound(route, schemas[route.do.__name__])
    answer = schemas[Answer.__name__]
    del answer["properties"]["id"]
    answer["required"].remove("id")
    return schemas


def _loosen_tuples(schema: Any) -> None:
    """Say of a tuple's items together what each may be: tools that read OpenAPI know no tuples."""
    for inner in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(inner, dict | list):
            _loosen_tuples(inner)
    if isinstance(schema, dict) and "prefixItems" in schema:
        items = schema.pop("prefixItems")
        distinct = [item for at, item in enumerate(items) if item not in items[:at]]
        schema["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _bound(route: Route, schema: JSON) -> None:
    """Add what is known of each field of a body to its type."""
    for name in route.body_fields:
        field = schema["properties"][written_name(name)]
        told = describe_field(route.do, written_name(name))
        notes = {key: told[key] for key in ("description", "examples") if key in told}
        bounds = {key: value for key, value in told.items() if key not in notes}
        field.update(notes)
        # A field that may be null is one of two types, and the bounds are those of the other.
        field.get("anyOf", [field])[0].update(bounds)


def _reference(name: str) -> JSON:
    return {"$ref": SCHEMA.format(name=name)}


def _meaning(told: type[Message]) -> str:
    return cleandoc(told.__doc__ or told.__name__)
