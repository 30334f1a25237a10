"""From an HTTP request to the message that its route stands for.

Reading is strict, and what can't be read is refused in a sentence that names the field: unknown
query parameters and body fields, text where a number belongs, a parameter given twice. Whether
the values make sense is not judged here: the exchange and the market do that for every door.

The path is taken as it was sent, before anybody has decoded it: an order id may contain `/` or
`%`, and only the raw path tells which slash belongs to the id. A percent-encoded id or resource
therefore always arrives as it was meant.
"""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from laissez.exchange.admission import KEY_MAX, is_key
from laissez.model import CordonScope, ServiceCode
from laissez.model.message import Message, written_name
from laissez.service.rest.problems import HttpProblem
from laissez.service.rest.routes import Route

_INTEGER = re.compile(r"-?[0-9]{1,19}")
BOOLEANS = {"true": True, "false": False}


def body_type(route: Route) -> type[msgspec.Struct] | None:
    """The message without the field that the path carries; None if nothing is left."""
    if not route.body_fields:
        return None
    fields = []
    for field in msgspec.structs.fields(route.do):
        if field.name in route.body_fields:
            default: Any = msgspec.field()
            if field.default_factory is not msgspec.NODEFAULT:
                default = msgspec.field(default_factory=field.default_factory)
            elif field.default is not msgspec.NODEFAULT:
                default = field.default
            fields.append((field.name, field.type, default))
    return msgspec.defstruct(
        route.do.__name__,
        fields,
        rename=written_name,
        frozen=True,
        forbid_unknown_fields=True,
        namespace={"__doc__": route.do.__doc__},
    )


def may_lack_body(route: Route) -> bool:
    """Is a body that is not there as good as an empty one?"""
    return route.do is CordonScope


class RequestReader:
    """Reads the requests of one route."""

    def __init__(self, route: Route) -> None:
        body = body_type(route)
        hints = get_type_hints(route.do)
        self._do = route.do
        self._prefix = route.prefix
        self._path_field = route.path_field
        self._kinds = {name: hints[name] for name in route.query_fields}
        self._body = None if body is None else msgspec.json.Decoder(body)
        # Where a body was never needed it still is not.
        self._empty_body = b"{}" if may_lack_body(route) else b""

    @property
    def takes_body(self) -> bool:
        return self._body is not None

    def read(self, raw_path: str, query_string: bytes, body: bytes) -> Message:
        """The message; raises `HttpProblem`."""
        fields = self._query(query_string)
        if self._path_field is not None:
            fields[self._path_field] = self._from_path(raw_path)
        if self._body is not None:
            try:
                read = self._body.decode(body or self._empty_body)
                fields |= msgspec.structs.asdict(read)
            except msgspec.DecodeError as error:
                raise _bad(f"the body can't be read: {error}") from None
            except UnicodeDecodeError:
                raise _bad("the body can't be read: it is not UTF-8") from None
        return self._do(**fields)

    def _from_path(self, raw_path: str) -> str:
        field = self._path_field
        sent = raw_path.removeprefix(self._prefix)
        if sent == raw_path or not sent:
            raise HttpProblem(ServiceCode.NOT_FOUND, f"name the {field} after {self._prefix}")
        try:
            return unquote_to_bytes(sent).decode()
        except UnicodeDecodeError:
            raise _bad(f"{field} in the path is not percent-encoded UTF-8") from None

    def _query(self, query_string: bytes) -> dict[str, Any]:
        if not query_string:
            return {}
        try:
            pairs = parse_qsl(query_string.decode(), keep_blank_values=True, errors="strict")
        except ValueError:
            raise _bad("the query is not percent-encoded UTF-8") from None
        fields: dict[str, Any] = {}
        for name, text in pairs:
            if name not in self._kinds:
                known = ", ".join(self._kinds) or "none"
                raise _bad(f"there is no query parameter {name[:80]!r} here; known: {known}")
            if name in fields:
                raise _bad(f"the query parameter {name} is given twice; give it once")
            fields[name] = self._value(name, text)
        return fields

    def _value(self, name: str, text: str) -> str | int | bool:
        kind = self._kinds[name]
        if kind is bool:
            if text not in BOOLEANS:
                raise _bad(f"the query parameter {name} is either true or false")
            return BOOLEANS[text]
        if not text:
            raise _bad(f"the query parameter {name} is empty; give a value or leave it out")
        if int in (kind, *get_args(kind)):
            if _INTEGER.fullmatch(text):
                return int(text)
            if kind is int:
                raise _bad(f"the query parameter {name} is a whole number")
        return text


def checked_key(key: str | None) -> str | None:
    """The header `Idempotency-Key`, if there is one and it can be a key."""
    if key is not None and not is_key(key):
        raise _bad(f"the header Idempotency-Key has 1 to {KEY_MAX} bytes")
    return key


def _bad(detail: str) -> HttpProblem:
    return HttpProblem(ServiceCode.BAD_REQUEST, f"{detail}; see /v1/openapi.json")
