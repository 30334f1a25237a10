"""Every refusal over HTTP is one problem (RFC 9457), whoever refuses: the market, the service, or
the HTTP layer itself. Its status follows from the stable code by one table.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from litestar import Response

from laissez.model import Code, ServiceCode

MEDIA_TYPE = "application/problem+json"
MS_PER_S = 1_000

# fmt: off
STATUS_BY_CODE: dict[str, int] = {
    Code.BAD_TIME: 422,
    Code.TIME_WENT_BACK: 422,
    Code.BEYOND_NEXT_TIMER: 422,
    Code.BAD_PATH: 422,
    Code.ROOT_IS_NOT_A_RESOURCE: 422,
    Code.RESOURCE_EXISTS: 409,
    Code.PATH_IS_A_SCOPE: 422,
    Code.PATH_UNDER_A_RESOURCE: 422,
    Code.UNKNOWN_RESOURCE: 404,
    Code.UNKNOWN_SCOPE: 404,
    Code.SCOPE_NOT_VISIBLE: 403,
    Code.BAD_ATTRIBUTES: 422,
    Code.BAD_TENANT: 422,
    Code.BAD_ORDER_ID: 422,
    Code.ORDER_ID_TAKEN: 409,
    Code.UNKNOWN_ORDER: 404,
    Code.NOT_THE_HOLDER: 403,
    Code.NO_PRICE: 422,
    Code.BAD_PRICE: 422,
    Code.BAD_LIMIT: 422,
    Code.PRICE_ABOVE_LIMIT: 422,
    Code.BAD_EXPIRY: 422,
    Code.BAD_COUNT: 422,
    Code.BAD_WITHIN: 422,
    Code.DOMAIN_TOO_SMALL: 422,
    Code.GANG_HAS_NO_PRICE: 422,
    Code.ALREADY_CALLED: 409,
    Code.BAD_FLOOR: 422,
    Code.NOT_A_TREE: 422,
    Code.BAD_GUARD: 422,
    ServiceCode.BAD_REQUEST: 400,
    ServiceCode.UNAUTHENTICATED: 401,
    ServiceCode.FORBIDDEN: 403,
    ServiceCode.NOT_FOUND: 404,
    ServiceCode.METHOD_NOT_ALLOWED: 405,
    ServiceCode.TOO_LARGE: 413,
    ServiceCode.KEY_REUSED: 409,
    ServiceCode.TOO_MANY_REQUESTS: 429,
    ServiceCode.TOO_MANY_CONNECTIONS: 429,
    ServiceCode.TOO_MANY_ORDERS: 409,
    ServiceCode.BUSY: 503,
    ServiceCode.NOT_DURABLE: 503,
    ServiceCode.STOPPING: 503,
    ServiceCode.TOO_SLOW: 429,
    ServiceCode.CORDONED: 409,
    ServiceCode.BAD_LEVELS: 422,
    ServiceCode.BAD_DEADLINE: 422,
    ServiceCode.LIST_CHANGED: 409,
    ServiceCode.INTERNAL_ERROR: 500,
}
# fmt: on


class ProblemBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """`sequence` and `at_us` say where the market refused, if it was the market."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    sequence: int | None = None
    at_us: int | None = None


ABOUT_BLANK = "about:blank"


class HttpProblem(Exception):
    """Raised anywhere on the way of a request; `detail` is a sentence that says what to do."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        sequence: int | None = None,
        at_us: int | None = None,
        retry_after_ms: int | None = None,
        allow: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = STATUS_BY_CODE[code]
        self.code = str(code)
        self.detail = detail
        self.sequence = sequence
        self.at_us = at_us
        self._retry_after_ms = retry_after_ms
        self._allow = allow

    def response(self) -> Response[bytes]:
        body = ProblemBody(
            ABOUT_BLANK,
            HTTPStatus(self.status).phrase,
            self.status,
            self.detail,
            self.code,
            self.sequence,
            self.at_us,
        )
        return Response(
            msgspec.json.encode(body),
            status_code=self.status,
            media_type=MEDIA_TYPE,
            headers={"Cache-Control": "no-store", **self._headers()},
        )

    def _headers(self) -> dict[str, str]:
        if self.status == HTTPStatus.UNAUTHORIZED:
            return {"WWW-Authenticate": "Bearer"}
        if self.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            seconds = -(-(self._retry_after_ms or 0) // MS_PER_S)
            return {"Retry-After": str(max(seconds, 1))}
        return {} if self._allow is None else {"Allow": self._allow}
