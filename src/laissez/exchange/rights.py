"""Who may do what, and who is told: the tokens and webhooks that a journal adds up to."""

from __future__ import annotations

import msgspec

from laissez.exchange.access import Token
from laissez.exchange.records import (
    EndToken,
    GrantToken,
    RightsRecord,
    StartWebhook,
    StopWebhook,
    Webhook,
)


class Rights(msgspec.Struct):
    tokens: dict[str, Token] = {}
    webhooks: dict[str, Webhook] = {}

    def apply(self, record: RightsRecord) -> None:
        """Execute one record. What names nothing that is there changes nothing: whoever wrote it
        has looked, and of two that say the same the second is late."""
        if isinstance(record, GrantToken):
            self.tokens[record.token.id] = record.token
        elif isinstance(record, EndToken):
            token = self.tokens.get(record.token)
            if token is not None and token.revoked_us is None:
                self.tokens[token.id] = msgspec.structs.replace(token, revoked_us=record.at)
        elif isinstance(record, StartWebhook):
            self.webhooks[record.webhook.id] = record.webhook
        elif isinstance(record, StopWebhook):
            self.webhooks.pop(record.webhook, None)

    def token_made_with(self, author: str, key: str) -> Token | None:
        """The token that a request with this key has made."""
        made = self.tokens.values()
        return next((t for t in made if (t.made_by, t.key) == (author, key)), None)

    def webhook_made_with(self, author: str, key: str) -> Webhook | None:
        made = self.webhooks.values()
        return next((w for w in made if (w.made_by, w.key) == (author, key)), None)

    @property
    def is_empty(self) -> bool:
        return not (self.tokens or self.webhooks)
