"""What an operator asks of the service itself, beside the market: tokens and webhooks."""

from typing import Literal

from laissez.model.message import Message

Role = Literal["operator", "tenant", "viewer"]


class CreateToken(Message, frozen=True, forbid_unknown_fields=True):
    """Make a token; its secret is in the answer, and nowhere else ever again."""

    role: Role
    tenant: str | None = None
    lifetime_s: int | None = None
    note: str = ""


class RevokeToken(Message, frozen=True, forbid_unknown_fields=True):
    """End a token at once, and every connection that uses it."""

    token: str


class AskTokens(Message, frozen=True, forbid_unknown_fields=True):
    """Which tokens are there?"""


class AddWebhook(Message, frozen=True, forbid_unknown_fields=True):
    """Post every handover from now on to this address, signed with the secret in the answer."""

    url: str


class RemoveWebhook(Message, frozen=True, forbid_unknown_fields=True):
    webhook: str


class AskWebhooks(Message, frozen=True, forbid_unknown_fields=True):
    """Which webhooks are there, and how far did they get?"""


Administration = CreateToken | RevokeToken | AskTokens | AddWebhook | RemoveWebhook | AskWebhooks


class TokenInfo(Message, frozen=True):
    """What there is to know of a token; the secret is not part of it."""

    token: str
    role: Role
    tenant: str | None
    created_us: int
    expires_us: int | None
    revoked_us: int | None
    note: str


class TokenCreated(Message, frozen=True):
    info: TokenInfo
    secret: str


class TokenRevoked(Message, frozen=True):
    info: TokenInfo


class TokenList(Message, frozen=True):
    tokens: tuple[TokenInfo, ...]


class WebhookInfo(Message, frozen=True):
    """`delivered` is the sequence number up to which all handovers arrived; `last_error` says why
    the newest post was not taken, and is null when nothing is wrong."""

    webhook: str
    url: str
    delivered: int
    last_error: str | None = None


class WebhookAdded(Message, frozen=True):
    info: WebhookInfo
    secret: str


class WebhookRemoved(Message, frozen=True):
    webhook: str


class WebhookList(Message, frozen=True):
    webhooks: tuple[WebhookInfo, ...]


Administered = TokenCreated | TokenRevoked | TokenList | WebhookAdded | WebhookRemoved | WebhookList
