"""Telling the operator's systems who holds what: every handover is posted, signed, until it is
taken.

Each webhook has a task of its own that posts handovers in order, up to `BATCH_MAX` in one array,
and goes on when the receiver answers 2xx; otherwise it waits, longer each time, and posts the
same again. How far it got is written down, so that a restart goes on from there: a handover
arrives at least once, and its sequence number and resource tell whether it came before. What a
receiver has missed for so long that it is no longer kept is said in a message of its own.

`Laissez-Signature: t=SECONDS,v1=HEX` is the HMAC-SHA256, under the webhook's secret, of the
seconds, a dot and the body.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
import time
from itertools import takewhile

import httpx

from laissez.exchange.journal import JournalFailed, NotDurable
from laissez.exchange.office import Office
from laissez.exchange.pipeline import Exchange
from laissez.exchange.records import Webhook
from laissez.model import Handover, HandoversMissed, encode_all

BATCH_MAX = 100
TIMEOUT_S = 10
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 300


def signature(secret: str, seconds: int, body: bytes) -> str:
    signed = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256)
    return f"t={seconds},v1={signed.hexdigest()}"


class Webhooks:
    """Runs one sender for each webhook that the office knows."""

    def __init__(self, exchange: Exchange, office: Office) -> None:
        self._exchange = exchange
        self._office = office
        self._senders: dict[str, asyncio.Task[None]] = {}
        self._wakers: set[asyncio.Event] = set()
        office.on_webhooks_changed = self.renew
        exchange.on_applied.append(self._wake)
        self.renew()

    def renew(self) -> None:
        """Start senders for new webhooks, stop those of removed ones."""
        for webhook_id in self._senders.keys() - self._office.webhooks.keys():
            self._senders.pop(webhook_id).cancel()
        for webhook in self._office.webhooks.values():
            if webhook.id not in self._senders:
                self._senders[webhook.id] = asyncio.create_task(self._send_all(webhook))

    async def close(self) -> None:
        for sender in self._senders.values():
            sender.cancel()
        await asyncio.gather(*self._senders.values(), return_exceptions=True)

    def _wake(self) -> None:
        for waker in self._wakers:
            waker.set()

    async def _send_all(self, webhook: Webhook) -> None:
        waker = asyncio.Event()
        self._wakers.add(waker)
        try:
            async with httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False) as http:
                while True:
                    waker.clear()
                    batch, until = self._next(webhook)
                    if batch:
                        await self._post_until_taken(http, webhook, encode_all(batch))
                        await self._note_delivered(webhook, until)
                    else:
                        await waker.wait()
        finally:
            self._wakers.discard(waker)

    async def _note_delivered(self, webhook: Webhook, until: int) -> None:
        try:
            await self._office.save_delivered(webhook, until)
        except (NotDurable, JournalFailed):
            # Go on: to post the same for ever helps nobody. After a restart it comes once more.
            self._office.delivered[webhook.id] = until

    def _next(self, webhook: Webhook) -> tuple[list[Handover | HandoversMissed], int]:
        """What is to be posted next, and the sequence number up to which it reaches.

        All handovers of one command go together, because the sequence number is the bookmark.
        """
        execution = self._exchange.execution
        done = self._office.delivered[webhook.id]
        forgotten = execution.handovers_forgotten
        if done < forgotten:
            return [HandoversMissed(done, forgotten)], forgotten
        newest_first = takewhile(lambda each: each.sequence > done, reversed(execution.handovers))
        waiting = list(newest_first)[::-1]
        if not waiting:
            return [], done
        until = waiting[min(BATCH_MAX, len(waiting)) - 1].sequence
        return [each for each in waiting if each.sequence <= until], until

    async def _post_until_taken(
        self, http: httpx.AsyncClient, webhook: Webhook, body: bytes
    ) -> None:
        wait_s = FIRST_WAIT_S
        while not await self._post(http, webhook, body):
            await asyncio.sleep(wait_s * random.uniform(0.5, 1))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    async def _post(self, http: httpx.AsyncClient, webhook: Webhook, body: bytes) -> bool:
        seconds = int(time.time())
        headers = {
            "Content-Type": "application/json",
            "Laissez-Webhook": webhook.id,
            "Laissez-Signature": signature(webhook.secret, seconds, body),
        }
        try:
            response = await http.post(webhook.url, content=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL):
            return False
        return response.is_success
