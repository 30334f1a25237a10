"""Why a market says no.

    Rejected (an event)      a command broke a rule; the answer's last event, nothing changed
    Unanswerable (raised)    a question has no answer: a programmer's error, not a trader's
    Refused (a message)      the service did not let a request through; nothing changed

All carry a stable code from the lists below and a sentence that says what to do. Codes are never
renamed or reused; programs rely on them.
"""

from enum import StrEnum


class Code(StrEnum):
    BAD_TIME = "bad_time"
    TIME_WENT_BACK = "time_went_back"
    BEYOND_NEXT_TIMER = "beyond_next_timer"
    BAD_PATH = "bad_path"
    ROOT_IS_NOT_A_RESOURCE = "root_is_not_a_resource"
    RESOURCE_EXISTS = "resource_exists"
    PATH_IS_A_SCOPE = "path_is_a_scope"
    PATH_UNDER_A_RESOURCE = "path_under_a_resource"
    UNKNOWN_RESOURCE = "unknown_resource"
    UNKNOWN_SCOPE = "unknown_scope"
    SCOPE_NOT_VISIBLE = "scope_not_visible"
    BAD_ATTRIBUTES = "bad_attributes"
    BAD_TENANT = "bad_tenant"
    BAD_ORDER_ID = "bad_order_id"
    ORDER_ID_TAKEN = "order_id_taken"
    UNKNOWN_ORDER = "unknown_order"
    NOT_THE_HOLDER = "not_the_holder"
    NO_PRICE = "no_price"
    BAD_PRICE = "bad_price"
    BAD_LIMIT = "bad_limit"
    PRICE_ABOVE_LIMIT = "price_above_limit"
    BAD_EXPIRY = "bad_expiry"
    BAD_COUNT = "bad_count"
    BAD_WITHIN = "bad_within"
    DOMAIN_TOO_SMALL = "domain_too_small"
    GANG_HAS_NO_PRICE = "gang_has_no_price"
    ALREADY_CALLED = "already_called"
    BAD_FLOOR = "bad_floor"
    NOT_A_TREE = "not_a_tree"
    BAD_GUARD = "bad_guard"


class Unanswerable(ValueError):
    """A question that the market cannot answer, with the code and the sentence why."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ServiceCode(StrEnum):
    """Why the service does not let a request through to the market."""

    BAD_REQUEST = "bad_request"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    TOO_LARGE = "too_large"
    KEY_REUSED = "key_reused"
    TOO_MANY_REQUESTS = "too_many_requests"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    TOO_MANY_ORDERS = "too_many_orders"
    BUSY = "busy"
    NOT_DURABLE = "not_durable"
    STOPPING = "stopping"
    TOO_SLOW = "too_slow"
    CORDONED = "cordoned"
    BAD_LEVELS = "bad_levels"
    BAD_DEADLINE = "bad_deadline"
    LIST_CHANGED = "list_changed"
    INTERNAL_ERROR = "internal_error"
