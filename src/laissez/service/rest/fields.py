"""What the OpenAPI document says of each field beyond its type: bounds, an example, a meaning.

The bounds are those that the exchange and the market enforce, under their own codes; here they
are only told. A field is looked up under its written name, or under its message and its name
where a message has a bound of its own.
"""

from __future__ import annotations

from typing import Any

from laissez.exchange.access import TENANT_NAME
from laissez.exchange.addresses import URL_MAX
from laissez.exchange.admission import ATTRIBUTES_MAX, ORDER_ID_MAX, PATH_MAX
from laissez.exchange.allowance import Limits
from laissez.exchange.levels import LEVEL_NAME, LEVELS_MOST
from laissez.exchange.office import LIFETIME_S_MAX, NOTE_MAX
from laissez.model import AmendOrder, AskQuote, ChangeLimit, CreateToken
from laissez.model.message import Message
from laissez.model.values import MAX_RATE, MAX_TIME

JSON = dict[str, Any]
DAY_US = 86_400_000_000
COUNT_MOST = Limits().gang_most
EXAMPLE_EXPIRY = 4_102_444_800_000_000


def _number(least: int, most: int, example: int, meaning: str) -> JSON:
    return {
        "minimum": least,
        "maximum": most,
        "examples": [example],
        "description": meaning,
    }


def _name(example: str, meaning: str) -> JSON:
    return {"minLength": 1, "examples": [example], "description": meaning}


def _text(length_max: int, example: str, meaning: str) -> JSON:
    return {**_name(example, meaning), "maxLength": length_max}


_SCOPE = _text(PATH_MAX, "h100/us-east", "A node of a tree; it covers all that is under it.")


_FIELDS: dict[str, JSON] = {
    "scope": _SCOPE,
    "resource": _text(PATH_MAX, "h100/us-east/r1/h3/g0", "The path of one resource."),
    "tree": _text(PATH_MAX, "h100", "The root of a tree: a type of resource."),
    "order": _text(ORDER_ID_MAX, "job-17", "Your own id of an order; printable text."),
    "token": _name("3f9c21d07b4e", "The id of a token; never its secret."),
    "webhook": _name("a81b20c4d9ef", "The id of a webhook."),
    "tenant": _name("team-a", "A tenant; only the operator may name another than its own."),
    "url": {**_text(URL_MAX, "https://hooks.example/", "Web address."), "pattern": "^https?://"},
    "note": {"maxLength": NOTE_MAX, "examples": ["ci"], "description": "For whoever reads lists."},
    "role": {"examples": ["tenant"], "description": "What the token may do."},
    "after": {"examples": ["team-a:812"], "description": "The `next` of the page before."},
    "explain": {"examples": [True], "description": "Add the newest segments of what is open."},
    "attributes": {
        "maxProperties": ATTRIBUTES_MAX,
        "examples": [{"host": "node-3", "index": "0"}],
        "description": "Whatever the holder needs to know to use the resource.",
    },
    "lifetime_s": _number(
        1, LIFETIME_S_MAX, 86_400, "Seconds until the token expires; never, if left out."
    ),
    "price_micros_per_hour": _number(
        1, MAX_RATE, 2_000_000, "The pressure now; the quote, if left out."
    ),
    "limit_micros_per_hour": _number(
        1, MAX_RATE, 3_000_000, "How far you follow; the price, if left out."
    ),
    "floor_micros_per_hour": _number(0, MAX_RATE, 2_000_000, "The lowest price; 0 takes it away."),
    "expires_us": _number(
        0, MAX_TIME, EXAMPLE_EXPIRY, "When it ends by itself, in microseconds since 1970."
    ),
    "rise_basis_points": _number(0, MAX_TIME, 2_500, "How far a price may rise in one window."),
    "fall_micros_per_hour": _number(
        0, MAX_TIME, 500_000, "How far a floor may fall in one window."
    ),
    "hold_us": _number(
        0, MAX_TIME, 2_000_000, "How long a new holding can't be lost to price or floor."
    ),
    "notice_us": _number(
        0, DAY_US, 30_000_000, "How long a holding that is to be lost goes on after it is called."
    ),
    "commit_us": _number(0, DAY_US, 30_000_000, "How long whoever wins is bound to what was won."),
    "count": _number(1, COUNT_MOST, 8, "So many at once, all or none; one, if left out."),
    "within": {
        "examples": ["nvlink", 3],
        "description": "Several lie in one domain of this level: its name, or how many names the "
        "path of a domain has. Anywhere in the scope, if left out.",
    },
    "together": {
        "examples": [False],
        "description": "When one of them really goes, release the others at that instant.",
    },
    "levels": {
        "maxItems": LEVELS_MOST,
        "examples": [["zone", "rack", "host", "gpu"]],
        "description": "The names of the levels below the root, the coarsest first.",
    },
    "deadline_us": _number(
        0, MAX_TIME, EXAMPLE_EXPIRY, "When what is still held is withdrawn; never, if left out."
    ),
    "window_us": _number(1, MAX_TIME, 1_000_000, "The length of a window; rise and fall need it."),
}

_OF_ONE_MESSAGE: dict[tuple[type[Message], str], JSON] = {
    (AmendOrder, "price_micros_per_hour"): _number(
        1, MAX_RATE, 2_200_000, "The new pressure; as before, if left out."
    ),
    (AmendOrder, "limit_micros_per_hour"): _number(
        1, MAX_RATE, 3_000_000, "How far you follow from now on; as before, if left out."
    ),
    (AmendOrder, "expires_us"): _number(
        0,
        MAX_TIME,
        EXAMPLE_EXPIRY,
        "When it ends by itself, null for never; as before, if left out.",
    ),
    (ChangeLimit, "limit_micros_per_hour"): _number(
        0, MAX_RATE, 2_500_000, "Above this rate you let the resource go."
    ),
    (AskQuote, "within"): {
        **_text(64, "nvlink", "Several lie in one domain of this level, by name or number."),
        "pattern": f"^({LEVEL_NAME.pattern}|[1-9][0-9]{{0,2}})$",
    },
    (CreateToken, "tenant"): {
        **_text(64, "team-a", "Whom the token is for; needed for a tenant's."),
        "pattern": f"^{TENANT_NAME.pattern}$",
    },
}


def describe_field(do: type[Message], written: str) -> JSON:
    return _OF_ONE_MESSAGE.get((do, written)) or _FIELDS[written]
