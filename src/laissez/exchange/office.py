"""The operator's administration: tokens and webhooks.

They are journaled and executed like commands of the market, so that whoever follows the journal
knows who may do what. A key makes them safe to retry, too: it is kept with what it made. A secret
is shown once, so a retry can't show it again and is refused with the id of what there is.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from laissez.exchange.access import BadToken, Principal, new_token
from laissez.exchange.addresses import why_not_an_address
from laissez.exchange.allowance import US_PER_S
from laissez.exchange.journal import JournalFailed, NotDurable
from laissez.exchange.pipeline import Closed, Exchange
from laissez.exchange.records import Webhook
from laissez.exchange.rights import Rights
from laissez.exchange.sequencing import DropToken, DropWebhook, KeepToken, KeepWebhook
from laissez.model import (
    AddWebhook,
    Administered,
    Administration,
    AskTokens,
    AskWebhooks,
    CreateToken,
    Refused,
    RemoveWebhook,
    RevokeToken,
    ServiceCode,
    TokenCreated,
    TokenList,
    TokenRevoked,
    WebhookAdded,
    WebhookInfo,
    WebhookList,
    WebhookRemoved,
)

NOTE_MAX = 200
LIFETIME_S_MAX = 100 * 365 * 86_400
WEBHOOKS_MAX = 16
TOKENS_MAX = 100_000


class Office:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._journal = exchange.journal
        # A retry finds what the first request made, even if that is still being written.
        self._one_at_a_time = asyncio.Lock()
        bookmarks = self._journal.bookmarks()
        self.delivered = {name: bookmarks.get(name, 0) for name in self.webhooks}
        # Why the newest post to a webhook was not taken, while it is not.
        self.last_errors: dict[str, str] = {}
        self.on_webhooks_changed: Callable[[], None] = lambda: None

    @property
    def _rights(self) -> Rights:
        return self._exchange.execution.venue.rights

    @property
    def webhooks(self) -> dict[str, Webhook]:
        return self._rights.webhooks

    async def handle(
        self, caller: Principal, request_id: int, do: Administration, key: str | None
    ) -> Administered | Refused:
        """Do what an operator asks; the caller has checked the allowance."""
        if caller.role != "operator":
            message = f"tokens and webhooks are for operators, and your token is a {caller.role}'s"
            return Refused(request_id, ServiceCode.FORBIDDEN, message)
        async with self._one_at_a_time:
            if self._exchange.closed is not None:
                return self._stopping(request_id)
            try:
                return await self._handle(caller, request_id, do, key)
            except Closed:
                return self._stopping(request_id)

    def _stopping(self, request_id: int) -> Refused:
        message = "the service is stopping; retry with the same key when it is back"
        code = self._exchange.closed or ServiceCode.STOPPING
        return Refused(request_id, code, message, 1_000)

    async def _handle(
        self, caller: Principal, request_id: int, do: Administration, key: str | None
    ) -> Administered | Refused:
        if isinstance(do, AskTokens):
            return TokenList(tuple(token.info for token in self._exchange.access.tokens()))
        if isinstance(do, AskWebhooks):
            return WebhookList(tuple(self._info(webhook) for webhook in self.webhooks.values()))
        try:
            if isinstance(do, CreateToken):
                return await self._create_token(caller, request_id, do, key)
            if isinstance(do, RevokeToken):
                return await self._revoke_token(caller, request_id, do)
            if isinstance(do, AddWebhook):
                return await self._add_webhook(caller, request_id, do, key)
            return await self._remove_webhook(caller, request_id, do)
        except (NotDurable, JournalFailed) as error:
            message = f"it could not be written ({error}); make room on the disk and retry"
            return Refused(request_id, ServiceCode.NOT_DURABLE, message, 1_000)

    async def _create_token(
        self, caller: Principal, request_id: int, do: CreateToken, key: str | None
    ) -> Administered | Refused:
        if key is not None and (known := self._rights.token_made_with(caller.name, key)):
            return _made_before(request_id, f"token {known.id}")
        if len(do.note) > NOTE_MAX:
            return _bad(request_id, f"a note has at most {NOTE_MAX} characters")
        if len(self._rights.tokens) >= TOKENS_MAX:
            return _bad(request_id, f"there are {TOKENS_MAX} tokens already")
        if do.lifetime_s is not None and do.lifetime_s > LIFETIME_S_MAX:
            return _bad(request_id, "a token lives for at most 100 years; leave it out for ever")
        lifetime_us = None if do.lifetime_s is None else do.lifetime_s * US_PER_S
        try:
            secret, token = new_token(
                do.role,
                do.tenant,
                at=self._exchange.clock.now(),
                lifetime_us=lifetime_us,
                note=do.note,
                made_by=caller.name,
                key=key,
            )
        except BadToken as bad:
            return _bad(request_id, str(bad))
        await self._exchange.carry_out(caller.name, KeepToken(token))
        return TokenCreated(token.info, secret)

    async def _revoke_token(
        self, caller: Principal, request_id: int, do: RevokeToken
    ) -> Administered | Refused:
        if do.token not in self._rights.tokens:
            return _not_found(request_id, f"there is no token {do.token[:80]!r}")
        if self._rights.tokens[do.token].revoked_us is None:
            await self._exchange.carry_out(caller.name, DropToken(do.token))
        return TokenRevoked(self._rights.tokens[do.token].info)

    async def _add_webhook(
        self, caller: Principal, request_id: int, do: AddWebhook, key: str | None
    ) -> Administered | Refused:
        if key is not None and (known := self._rights.webhook_made_with(caller.name, key)):
            return _made_before(request_id, f"webhook {known.id}")
        allow_private = self._exchange.settings.private_webhooks
        wrong = why_not_an_address(do.url, allow_private=allow_private)
        if wrong is not None:
            return _bad(request_id, wrong)
        if len(self.webhooks) >= WEBHOOKS_MAX:
            return _bad(request_id, f"there are {WEBHOOKS_MAX} webhooks already; remove one")
        webhook = Webhook(secrets.token_hex(6), do.url, secrets.token_urlsafe(32), caller.name, key)
        # It hears of what happens after this, also if the bookmark is all that gets written.
        begin = self._exchange.execution.sequence
        await self._exchange.write(lambda: self._journal.save_bookmark(webhook.id, begin))
        self.delivered[webhook.id] = begin
        await self._exchange.carry_out(caller.name, KeepWebhook(webhook))
        self.on_webhooks_changed()
        return WebhookAdded(self._info(webhook), webhook.secret)

    async def save_delivered(self, webhook: Webhook, sequence: int) -> None:
        """A webhook has got everything up to a sequence number."""
        if webhook.id in self.webhooks:
            await self._exchange.write(lambda: self._journal.save_bookmark(webhook.id, sequence))
        self.delivered[webhook.id] = sequence

    async def _remove_webhook(
        self, caller: Principal, request_id: int, do: RemoveWebhook
    ) -> Administered | Refused:
        if do.webhook not in self.webhooks:
            return _not_found(request_id, f"there is no webhook {do.webhook[:80]!r}")
        await self._exchange.carry_out(caller.name, DropWebhook(do.webhook))
        self.on_webhooks_changed()
        await self._exchange.write(lambda: self._journal.remove_bookmark(do.webhook))
        self.delivered.pop(do.webhook, None)
        self.last_errors.pop(do.webhook, None)
        return WebhookRemoved(do.webhook)

    def _info(self, webhook: Webhook) -> WebhookInfo:
        error = self.last_errors.get(webhook.id)
        return WebhookInfo(webhook.id, webhook.url, self.delivered[webhook.id], error)


def _made_before(request_id: int, what: str) -> Refused:
    message = f"this key has made {what} already, and its secret is shown only once; make another"
    return Refused(request_id, ServiceCode.KEY_REUSED, message)


def _bad(request_id: int, message: str) -> Refused:
    return Refused(request_id, ServiceCode.BAD_REQUEST, message)


def _not_found(request_id: int, message: str) -> Refused:
    return Refused(request_id, ServiceCode.NOT_FOUND, message)
