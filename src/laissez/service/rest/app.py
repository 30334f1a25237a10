"""The ASGI application: a handler for each route of the table, and four doors without a lock.

Whoever adds a route gets the lock with it: a token is asked for before a handler runs, and before
a body is read, unless the handler is marked as open. Everything that goes wrong ends as a
problem; what is wrong on our side is logged without what the client sent, which may be a secret.
"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

import msgspec
from litestar import Litestar, Response
from litestar import Request as HttpRequest
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.exceptions import HTTPException, InternalServerException
from litestar.handlers import HTTPRouteHandler
from litestar.middleware import DefineMiddleware
from litestar.middleware.authentication import (
    AbstractAuthenticationMiddleware,
    AuthenticationResult,
)
from litestar.types import ASGIApp

from laissez.exchange.access import Principal
from laissez.model import Refused, Request, ServiceCode
from laissez.model.wire import encode
from laissez.service.paid import HTTP
from laissez.service.reception import Reception
from laissez.service.rest.caller import Answered, RestOutcome, ask
from laissez.service.rest.document import openapi_document
from laissez.service.rest.problems import HttpProblem
from laissez.service.rest.reading import RequestReader, checked_key
from laissez.service.rest.routes import ROUTES, Route

BODY_BYTES_MAX = 64 * 1024
BEARER = "bearer "
OPEN = "open_to_everybody"

_log = logging.getLogger("laissez.rest")

Asked = HttpRequest[Principal, None, State]


def build_app(reception: Reception) -> Litestar:
    """REST over one exchange; needs no lifespan."""
    lock = DefineMiddleware(
        TokenCheck, reception=reception, exclude_from_auth_key=OPEN, exclude_http_methods=()
    )
    return _AppOnRawPaths(
        [*(_handler(reception, route) for route in ROUTES), *_open_handlers(reception)],
        middleware=[lock],
        exception_handlers={
            HttpProblem: _on_problem,
            HTTPException: _on_http_exception,
            Exception: _on_failure,
        },
        request_max_body_size=BODY_BYTES_MAX,
        logging_config=None,
        openapi_config=None,
    )


class _AppOnRawPaths(Litestar):
    """Routes by the path as it was sent, so that an encoded slash separates nothing."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            # A server may leave the raw path out; encoding the other one is then the best guess.
            raw_path = scope.get("raw_path") or quote(scope["path"]).encode()
            scope |= {"raw_path": raw_path, "path": raw_path.decode("latin-1")}
        await super().__call__(scope, receive, send)


# Who is asking ------------------------------------------------------------------------------------


class TokenCheck(AbstractAuthenticationMiddleware):
    """Lets a request through whose `Authorization` header has a living token."""

    def __init__(self, app: ASGIApp, reception: Reception, **options: Any) -> None:
        super().__init__(app, **options)
        self._authenticate = reception.exchange.authenticate

    async def authenticate_request(
        self, connection: ASGIConnection[Any, Any, Any, Any]
    ) -> AuthenticationResult:
        header = connection.headers.get("authorization", "")
        principal = None
        if header.lower().startswith(BEARER):
            principal = self._authenticate(header[len(BEARER) :].strip())
        if principal is None:
            raise HttpProblem(
                ServiceCode.UNAUTHENTICATED,
                "the token is missing, unknown, expired or revoked; ask the operator for one, and "
                "send it in the header Authorization: Bearer ...",
            )
        http = connection.scope.get("state", {}).get(HTTP)
        if http is not None and not http.belongs_to(principal):
            raise HttpProblem(
                ServiceCode.TOO_MANY_CONNECTIONS,
                f"this token may have {principal.limits.connections} connections; close one first",
            )
        return AuthenticationResult(principal, None)


# Handlers -----------------------------------------------------------------------------------------


def _handler(reception: Reception, route: Route) -> HTTPRouteHandler:
    reader = RequestReader(route)

    async def handle(request: Asked) -> Response[bytes]:
        body = await _body(request) if reader.takes_body else b""
        raw_path = request.scope["raw_path"].decode("latin-1")
        do = reader.read(raw_path, request.scope["query_string"], body)
        key = checked_key(request.headers.get("idempotency-key")) if route.changes else None
        asked = Request(0, do, key)  # type: ignore[arg-type]
        return _respond(await ask(reception, request.user, asked), route.status)

    path = route.prefix if route.path_field is None else f"{route.prefix}{{field:path}}"
    return HTTPRouteHandler(path, http_method=route.method, status_code=route.status)(handle)


async def _body(request: Asked) -> bytes:
    try:
        return await request.body()
    except InternalServerException:
        # The client has gone in the middle of it: Litestar's word for it would put the blame on us.
        raise HttpProblem(
            ServiceCode.BAD_REQUEST, "the body ended too early; send all of it"
        ) from None


def _respond(outcome: RestOutcome, status: int) -> Response[bytes]:
    if isinstance(outcome, Refused):
        raise HttpProblem(outcome.code, outcome.message, retry_after_ms=outcome.retry_after_ms)
    if isinstance(outcome, Answered) and outcome.refusal is not None:
        refusal = outcome.refusal
        raise HttpProblem(
            refusal.code, refusal.message, sequence=outcome.sequence, at_us=outcome.at
        )
    return _json(encode(outcome), status)


def _json(content: bytes, status: int = 200) -> Response[bytes]:
    return Response(
        content,
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def _open_handlers(reception: Reception) -> list[HTTPRouteHandler]:
    """What can be read without a token; none of it says anything about the market."""
    directions = {
        "service": "laissez",
        "openapi": "/v1/openapi.json",
        "stream": "/v1/stream",
        "health": "/v1/health",
    }
    return [
        _health_handler(reception),
        _open_handler("/", msgspec.json.encode(directions)),
        _open_handler("/v1/openapi.json", msgspec.json.encode(openapi_document())),
    ]


def _health_handler(reception: Reception) -> HTTPRouteHandler:
    async def handle() -> Response[bytes]:
        closed = reception.exchange.closed
        if closed is not None:
            raise HttpProblem(
                closed, "the service takes no changes; try again later", retry_after_ms=1_000
            )
        return _json(b'{"status":"ok"}')

    return HTTPRouteHandler("/v1/health", http_method="GET", status_code=200, opt={OPEN: True})(
        handle
    )


def _open_handler(path: str, content: bytes) -> HTTPRouteHandler:
    async def handle() -> Response[bytes]:
        return _json(content)

    return HTTPRouteHandler(path, http_method="GET", status_code=200, opt={OPEN: True})(handle)


# What goes wrong ----------------------------------------------------------------------------------


def _on_problem(request: HttpRequest[Any, Any, Any], problem: HttpProblem) -> Response[bytes]:
    return problem.response()


def _on_http_exception(
    request: HttpRequest[Any, Any, Any], error: HTTPException
) -> Response[bytes]:
    """What the HTTP layer refuses by itself."""
    allow = (error.headers or {}).get("allow")
    code: ServiceCode
    match error.status_code:
        case 404:
            code, detail = ServiceCode.NOT_FOUND, "there is nothing here; see /v1/openapi.json"
        case 405:
            code, detail = ServiceCode.METHOD_NOT_ALLOWED, f"use one of {allow} here"
        case 413:
            code, detail = ServiceCode.TOO_LARGE, f"a body has at most {BODY_BYTES_MAX} bytes"
        case status if 400 <= status < 500:
            code, detail = ServiceCode.BAD_REQUEST, f"the request can't be read: {error.detail}"
        case _:
            return _on_failure(request, error)
    return HttpProblem(code, detail, allow=allow).response()


def _on_failure(request: HttpRequest[Any, Any, Any], error: Exception) -> Response[bytes]:
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}")
        trace = trace.tb_next
    _log.error("%s in a request, at %s", type(error).__name__, " > ".join(frames))
    detail = "this is our fault and is in the log; whether anything changed is not known"
    return HttpProblem(ServiceCode.INTERNAL_ERROR, detail).response()
