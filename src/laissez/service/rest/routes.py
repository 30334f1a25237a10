"""The table of routes: which method on which path stands for which message.

What a route takes follows from its message. The name in braces is the message's field that the
path carries, whatever characters it has; for GET the other fields are query parameters, for all
other methods they are the body.
"""

from typing import Literal, NamedTuple

from laissez.model import (
    AddWebhook,
    AmendOrder,
    Answer,
    AskBill,
    AskFloors,
    AskHoldings,
    AskOrders,
    AskPromises,
    AskQuote,
    AskResources,
    AskStatus,
    AskTenants,
    AskTokens,
    AskWebhooks,
    Bill,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    CloseStatements,
    CordonScope,
    CreateToken,
    FloorList,
    HoldingList,
    NameLevels,
    OfferResource,
    OrderList,
    PlaceOrder,
    PromiseList,
    Quoted,
    Release,
    RemoveWebhook,
    ResourceList,
    RevokeToken,
    Status,
    TenantList,
    TokenCreated,
    TokenList,
    TokenRevoked,
    UncordonScope,
    WebhookAdded,
    WebhookList,
    WebhookRemoved,
    WithdrawResource,
)
from laissez.model.message import Message

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Route(NamedTuple):
    """`do` is what is asked, `told` what is answered with `status` if all is well."""

    method: Method
    path: str
    do: type[Message]
    told: type[Message]
    summary: str
    status: int = 200

    @property
    def prefix(self) -> str:
        """What stands before the field in the path, the whole path if it has none."""
        return self.path.partition("{")[0]

    @property
    def path_field(self) -> str | None:
        return self.path.partition("{")[2].rstrip("}") or None

    @property
    def other_fields(self) -> tuple[str, ...]:
        return tuple(name for name in self.do.__struct_fields__ if name != self.path_field)

    @property
    def query_fields(self) -> tuple[str, ...]:
        return () if self.changes else self.other_fields

    @property
    def body_fields(self) -> tuple[str, ...]:
        return self.other_fields if self.changes else ()

    @property
    def changes(self) -> bool:
        return self.method != "GET"


# fmt: off
ROUTES = (
    Route("GET", "/v1/status", AskStatus, Status, "Who am I here, and where is the market?"),
    Route("GET", "/v1/quotes/{scope}", AskQuote, Quoted,
          "What would a resource under this scope cost now, or several of one domain?"),

    Route("GET", "/v1/orders", AskOrders, OrderList, "List live orders"),
    Route("POST", "/v1/orders", PlaceOrder, Answer,
          "Order one resource under a scope, or several of one domain", 201),
    Route("PATCH", "/v1/orders/{order}", AmendOrder, Answer,
          "Change an order; it takes a new place in the queue"),
    Route("DELETE", "/v1/orders/{order}", CancelOrder, Answer, "Cancel an order"),

    Route("GET", "/v1/holdings", AskHoldings, HoldingList, "List held resources"),
    Route("PATCH", "/v1/holdings/{resource}", ChangeLimit, Answer,
          "Set the retention limit of a held resource"),
    Route("DELETE", "/v1/holdings/{resource}", Release, Answer, "Give a held resource back"),

    Route("GET", "/v1/promises", AskPromises, PromiseList, "List called resources to come"),

    Route("GET", "/v1/bill", AskBill, Bill, "What is owed since the beginning?"),

    Route("GET", "/v1/resources", AskResources, ResourceList,
          "Operator: list resources with owner and rate"),
    Route("PUT", "/v1/resources/{resource}", OfferResource, Answer,
          "Operator: put a resource on the market"),
    Route("DELETE", "/v1/resources/{resource}", WithdrawResource, Answer,
          "Operator: take a resource out of the market"),

    Route("GET", "/v1/floors", AskFloors, FloorList, "Operator: list floors, guards and cordons"),
    Route("PUT", "/v1/floors/{scope}", ChangeFloor, Answer,
          "Operator: set the lowest price for everything under a scope"),
    Route("PUT", "/v1/guards/{tree}", ChangeGuard, Answer,
          "Operator: set the volatility guards of a tree; what is left out is off"),
    Route("PUT", "/v1/levels/{tree}", NameLevels, Answer,
          "Operator: name the levels of a tree, the coarsest first"),
    Route("PUT", "/v1/cordons/{scope}", CordonScope, Answer,
          "Operator: take a scope out of the market as it falls idle, or by a deadline"),
    Route("DELETE", "/v1/cordons/{scope}", UncordonScope, Answer,
          "Operator: put back what a cordon took out"),

    Route("POST", "/v1/statements", CloseStatements, Answer,
          "Operator: close the statement period of every holding"),
    Route("GET", "/v1/tenants", AskTenants, TenantList,
          "Operator: list everybody who has an order, a holding or a bill"),

    Route("GET", "/v1/tokens", AskTokens, TokenList, "Operator: list tokens"),
    Route("POST", "/v1/tokens", CreateToken, TokenCreated,
          "Operator: make a token; its secret is shown this once", 201),
    Route("DELETE", "/v1/tokens/{token}", RevokeToken, TokenRevoked, "Operator: revoke a token"),

    Route("GET", "/v1/webhooks", AskWebhooks, WebhookList, "Operator: list webhooks"),
    Route("POST", "/v1/webhooks", AddWebhook, WebhookAdded,
          "Operator: post every handover to an address; its secret is shown this once", 201),
    Route("DELETE", "/v1/webhooks/{webhook}", RemoveWebhook, WebhookRemoved,
          "Operator: remove a webhook"),
)
# fmt: on
