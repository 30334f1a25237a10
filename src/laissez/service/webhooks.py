"""Telling the operator's systems who holds what, and who has to leave it: every handover and every
call is posted, signed, until it is taken.

Each webhook has a task of its own that posts handovers in order, up to `BATCH_MAX` in one array,
and goes on when the receiver answers 2xx; otherwise it waits, longer each time, and posts the
same again. How far it got is written down, so that a restart goes on from there: a handover
arrives at least once, and its sequence number and resource tell whether it came before. What a
receiver has missed for so long that it is no longer kept is said in a message of its own.

A receiver can cost no more than its own deliveries. A post has a deadline as a whole, of the answer
only the status counts, and no more of it is read than lets the connection be used again. Where a
name leads is looked at when a connection is made, see `addresses`; the connection goes to the very
number that was looked at. Whatever goes wrong is said in the list of webhooks, and tried again.

`Laissez-Signature: t=SECONDS,v1=HEX` is the HMAC-SHA256, under the webhook's secret, of the
seconds, a dot and the body.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import random
import socket
import ssl
import time
from itertools import takewhile

import httpx

from laissez.exchange.addresses import as_number, is_public, why_not_there
from laissez.exchange.journal import JournalFailed, NotDurable
from laissez.exchange.office import Office
from laissez.exchange.pipeline import Exchange
from laissez.exchange.records import Webhook
from laissez.model import HandoversMissed, Posted, encode_all

_log = logging.getLogger("laissez.webhooks")

BATCH_MAX = 100
TIMEOUT_S = 10
# One of several numbers of a host may be dead: the others get their turn before the deadline.
CONNECT_TIMEOUT_S = 3
NUMBERS_MAX = 4
BODY_BYTES_MAX = 4_096
BODY_TIMEOUT_S = 1
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
        # Read once, by the first sender, in a thread: it takes as long as a hundred commands.
        self._certificates: asyncio.Future[ssl.SSLContext] | None = None
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
        """Post for ever. No error ends it: what is not foreseen is logged, and tried again."""
        waker = asyncio.Event()
        self._wakers.add(waker)
        wait_s = FIRST_WAIT_S
        try:
            while True:
                try:
                    await self._send_what_comes(webhook, waker)
                except Exception as error:
                    # Of an error that nobody foresaw only its kind: its text may hold a secret.
                    _log.error("%s at webhook %s", type(error).__name__, webhook.id)
                    self._office.last_errors[webhook.id] = (
                        f"{type(error).__name__}, which is our fault and is in the log"
                    )
                await asyncio.sleep(wait_s * random.uniform(0.5, 1))
                wait_s = min(wait_s * 2, LONGEST_WAIT_S)
        finally:
            self._wakers.discard(waker)

    async def _send_what_comes(self, webhook: Webhook, waker: asyncio.Event) -> None:
        if self._certificates is None:
            self._certificates = asyncio.ensure_future(asyncio.to_thread(httpx.create_ssl_context))
        # Shielded: a webhook that is removed meanwhile must not take it from the others.
        async with new_http(await asyncio.shield(self._certificates)) as http:
            while True:
                waker.clear()
                batch, until = self._next(webhook)
                if batch:
                    await self._post_until_taken(http, webhook, encode_all(batch))
                    await self._note_delivered(webhook, until)
                else:
                    await waker.wait()

    async def _note_delivered(self, webhook: Webhook, until: int) -> None:
        try:
            await self._office.save_delivered(webhook, until)
        except (NotDurable, JournalFailed):
            # Go on: to post the same for ever helps nobody. After a restart it comes once more.
            self._office.delivered[webhook.id] = until

    def _next(self, webhook: Webhook) -> tuple[list[Posted | HandoversMissed], int]:
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
        allow_private = self._exchange.settings.private_webhooks
        while (wrong := await post(http, webhook, body, allow_private=allow_private)) is not None:
            self._office.last_errors[webhook.id] = wrong
            await asyncio.sleep(wait_s * random.uniform(0.5, 1))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
        self._office.last_errors.pop(webhook.id, None)


def new_http(certificates: ssl.SSLContext) -> httpx.AsyncClient:
    """One connection, straight to the receiver: a proxy would look up the name once more."""
    return httpx.AsyncClient(
        verify=certificates,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        limits=httpx.Limits(max_connections=1),
    )


async def post(
    http: httpx.AsyncClient, webhook: Webhook, body: bytes, *, allow_private: bool
) -> str | None:
    """Post once: None if it was taken, otherwise what went wrong."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await _post(http, webhook, body, allow_private)
    except TimeoutError:
        return f"no answer within {TIMEOUT_S} s"
    except (httpx.InvalidURL, UnicodeError, OverflowError):
        return "this can't be an address; remove the webhook and add the right one"
    except OSError as error:
        return f"the name of its host leads nowhere ({error.strerror or type(error).__name__})"
    except httpx.HTTPError as error:
        return f"it can't be reached, or did not answer as the web does ({type(error).__name__})"


async def _post(
    http: httpx.AsyncClient, webhook: Webhook, body: bytes, allow_private: bool
) -> str | None:
    url = httpx.URL(webhook.url)
    numbers = await _numbers(url)
    allowed = [
        number
        for number in numbers
        if allow_private or ((ip := as_number(number)) is not None and is_public(ip))
    ]
    if not allowed:
        return why_not_there(numbers[0])
    for number in allowed[:-1]:
        try:
            return await _post_to(http, webhook, body, url, number)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            continue
    return await _post_to(http, webhook, body, url, allowed[-1])


async def _numbers(url: httpx.URL) -> list[str]:
    """The numbers that the address stands for now, in the order in which to try them."""
    if as_number(url.host) is not None:
        return [url.host]
    # The name as it goes over the wire, which for an international one is not the one shown.
    found = await asyncio.get_running_loop().getaddrinfo(
        url.raw_host.decode(), url.port, type=socket.SOCK_STREAM
    )
    return list(dict.fromkeys(str(address[0]) for *_, address in found))[:NUMBERS_MAX]


async def _post_to(
    http: httpx.AsyncClient, webhook: Webhook, body: bytes, url: httpx.URL, number: str
) -> str | None:
    """Post to this very number, in the name of the host."""
    seconds = int(time.time())
    headers = {
        "Host": url.netloc.decode(),
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "Laissez-Webhook": webhook.id,
        "Laissez-Signature": signature(webhook.secret, seconds, body),
    }
    there = url.copy_with(host=number)
    extensions = {"sni_hostname": url.raw_host.decode()}
    async with http.stream(
        "POST", there, content=body, headers=headers, extensions=extensions
    ) as response:
        await _read_a_little(response)
    return None if response.is_success else f"it answered with {response.status_code}"


async def _read_a_little(response: httpx.Response) -> None:
    """What is read to its end leaves a connection that can be used again; the rest is left."""
    read = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read > BODY_BYTES_MAX:
                    return
    except (TimeoutError, httpx.HTTPError):
        return
