"""A client that never gives up: what was not answered is sent again, with the same key.

It keeps a number of requests under way, of all kinds, and comes back whenever its connection
ends. It sometimes sends on purpose what was answered long ago, and asks for its bill. Whatever
it is told goes into the ledger; what it can judge by itself it judges at once.
"""

from __future__ import annotations

import asyncio
import contextlib

from picows import WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from faults.ledger import Acknowledged, Billed, Heard, Ledger, Missed
from faults.wishes import Wishes
from laissez.model import (
    Answer,
    AskBill,
    AskStatus,
    AskTenants,
    Bill,
    Happened,
    Instruction,
    Refused,
    Reply,
    Request,
    Resync,
    ServiceCode,
    Status,
    Subscribe,
    Subscribed,
    TenantList,
    decode_said,
    encode,
)

RECONNECT_S = 0.01
FRAME_REQUESTS = 200
RECENT = 500
COME_BACK_LATER = {ServiceCode.BUSY, ServiceCode.STOPPING, ServiceCode.TOO_MANY_REQUESTS}


class Trader:
    """One client of one tenant, or of the operator (`tenant` None)."""

    def __init__(
        self, author: str, tenant: str | None, secret: str, wishes: Wishes, ledger: Ledger
    ) -> None:
        self.author = author
        self.tenant = tenant
        self.heard = Heard()
        self.unanswered: dict[str, Instruction] = {}
        self.is_draining = False
        self._wishes = wishes
        self._random = wishes.random
        self._secret = secret
        self._ledger = ledger
        self._answered: list[Acknowledged] = []
        self._sent: set[str] = set()
        self._keys: dict[int, str] = {}
        self._repeats: dict[int, Acknowledged] = {}
        self._count = 0
        self._line: _Line | None = None
        self._told_sequence = 0
        self._told_bill: Billed | None = None
        self._resumes_after: int | None = None
        self._must_resync = False

    @property
    def is_connected(self) -> bool:
        return self._line is not None

    async def trade(self, url: str) -> None:
        """Connect again and again, until everything is answered and nothing more is wanted."""
        address = url.replace("http", "ws", 1) + "/v1/stream"
        headers = {"Authorization": f"Bearer {self._secret}"}
        while not (self.is_draining and not self.unanswered):
            line = _Line(self)
            try:
                await ws_connect(lambda line=line: line, address, extra_headers=headers)
            except (OSError, WSError, TimeoutError):
                await asyncio.sleep(RECONNECT_S)
                continue
            if line.was_connected:
                await line.gone.wait()
            else:  # the service died in the middle of the handshake, which is not an error here
                await asyncio.sleep(RECONNECT_S)

    # The connection ---------------------------------------------------------------------------

    def connected(self, line: _Line) -> None:
        """Go on where the last connection ended."""
        self._line = line
        self._keys, self._repeats = {}, {}
        self._subscribe()
        again = [self._request(key, do) for key, do in self.unanswered.items()]
        self._ledger.retries += sum(key in self._sent for key in self.unanswered)
        self._send(again)
        self._pump()

    def disconnected(self) -> None:
        self._line = None

    def _send(self, requests: list[Request]) -> None:
        self._sent.update(request.key for request in requests if request.key is not None)
        for start in range(0, len(requests), FRAME_REQUESTS):
            if self._line is not None:
                self._line.send(encode(requests[start : start + FRAME_REQUESTS]))

    def _request(self, key: str, do: Instruction) -> Request:
        self._count += 1
        self._keys[self._count] = key
        return Request(self._count, do, key)

    def _pump(self) -> None:
        """Fill up what is under way."""
        if self._line is None:
            return
        if self.is_draining:
            if not self.unanswered:
                self._line.hang_up()
            return
        requests = []
        while len(self.unanswered) < self._wishes.in_flight_max():
            key = f"{self._wishes.name}-{self._count}"
            do = self._wishes.next(key)
            self.unanswered[key] = do
            requests.append(self._request(key, do))
        chance = self._random.random()
        if chance < 0.05 and self._answered:
            requests.append(self._repeat())
        elif chance < 0.10:
            requests += self._ask_bills()
        if requests:
            self._send(requests)

    def _repeat(self) -> Request:
        """Something that was answered already: of late, or at any time."""
        oldest = max(len(self._answered) - RECENT, 0) if self._random.random() < 0.5 else 0
        known = self._answered[self._random.randrange(oldest, len(self._answered))]
        self._count += 1
        self._repeats[self._count] = known
        return Request(self._count, known.do, known.key)

    def _ask_bills(self) -> list[Request]:
        """The bills, between two questions for the place in the journal: where these agree, the
        bills were told there. Others may have their turn in the middle of a frame."""
        self._count += 3
        bills = AskTenants() if self.tenant is None else AskBill()
        questions = (AskStatus(), bills, AskStatus())
        return [Request(self._count - 2 + place, do) for place, do in enumerate(questions)]

    def _subscribe(self) -> None:
        first, fresh = self.heard.begun_after is None, self._random.random() < 0.2
        self._resumes_after = None if first or fresh else self.heard.last
        self._count += 1
        self._send([Request(self._count, Subscribe(self._resumes_after))])

    # What it hears ----------------------------------------------------------------------------

    def hear(self, frame: bytes) -> None:
        said = decode_said(frame)
        for each in said if isinstance(said, list) else [said]:
            if isinstance(each, Answer):
                self._hear_answer(each)
            elif isinstance(each, Happened):
                self._hear_happened(each)
            elif isinstance(each, Refused):
                self._hear_refusal(each)
            elif isinstance(each, Reply):
                self._hear_reply(each)
            elif isinstance(each, Subscribed):
                self._hear_subscribed(each)
            elif isinstance(each, Resync):
                self._must_resync = False
                self._ledger.resynced += 1
        self._pump()

    def _hear_answer(self, answer: Answer) -> None:
        known = self._repeats.pop(answer.id, None)
        if known is not None:
            self._judge_repeat(known, answer)
            return
        key = self._keys.pop(answer.id)
        acknowledged = Acknowledged(self.author, self.tenant, key, self.unanswered.pop(key), answer)
        self._answered.append(acknowledged)
        self._ledger.acknowledged.append(acknowledged)
        self._ledger.answers += 1
        self._ledger.retries_that_had_acted += answer.repeated
        self._wishes.learn(answer.events)

    def _judge_repeat(self, known: Acknowledged, answer: Answer) -> None:
        before = known.answer
        self._ledger.repeats += 1
        if not answer.repeated or answer.sequence != before.sequence:
            self._complain(f"{known.key} was answered with {before} and now with {answer}")
        if answer.at == 0 and not answer.events:
            self._ledger.repeats_without_events += 1
        elif before.at != 0 and (answer.at, answer.events) != (before.at, before.events):
            self._complain(f"{known.key} did {before} and now it did {answer}")

    def _hear_refusal(self, refused: Refused) -> None:
        known = self._repeats.pop(refused.id or 0, None)
        if refused.code in COME_BACK_LATER:
            return
        if known is not None:
            self._complain(f"{known.key} was answered with {known.answer} and now with {refused}")
            return
        key = self._keys.pop(refused.id or 0, None)
        if key is None:
            self._complain(f"{self.author} was refused an answer: {refused}")
            return
        del self.unanswered[key]
        self._ledger.refused.append((self.author, key, refused.code))

    def _hear_happened(self, happened: Happened) -> None:
        is_mark = not happened.events  # of how far it has heard, perhaps once more
        if happened.sequence < self.heard.last + (0 if is_mark else 1):
            self._complain(f"{self.author} heard {happened.sequence} after {self.heard.last}")
        if self._must_resync:
            self._complain(f"{self.author} was not told that it missed something")
        if not is_mark:
            self.heard.events[happened.sequence] = happened.events
        self.heard.last = happened.sequence
        self._wishes.learn(happened.events)

    def _hear_subscribed(self, subscribed: Subscribed) -> None:
        heard = self.heard
        if heard.begun_after is None:
            heard.begun_after = heard.last = subscribed.sequence
            return
        if self._resumes_after == subscribed.sequence:
            self._ledger.resumed += 1
            return
        self._must_resync = self._resumes_after is not None
        heard.missed.append(Missed(heard.last, subscribed.sequence, self._must_resync))
        heard.last = subscribed.sequence

    def _hear_reply(self, reply: Reply) -> None:
        told = reply.told
        if isinstance(told, Status):
            if self._told_bill is not None and self._told_bill.sequence == told.sequence:
                self._ledger.bills.append(self._told_bill)
            self._told_bill = None
            self._told_sequence = told.sequence
        elif isinstance(told, Bill):
            charges = {told.tenant: told.charge}
            self._told_bill = Billed(self._told_sequence, told.at, charges, False)
        elif isinstance(told, TenantList):
            charges = {each.tenant: each.charge for each in told.tenants}
            self._told_bill = Billed(self._told_sequence, told.at, charges, True)

    def _complain(self, sentence: str) -> None:
        self._ledger.violations.append(sentence)


class _Line(WSListener):
    """One connection of a trader."""

    def __init__(self, trader: Trader) -> None:
        self.gone = asyncio.Event()
        self.was_connected = False
        self._trader = trader
        self._transport: WSTransport | None = None

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        self.was_connected = True
        self._trader.connected(self)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._transport = None
        self._trader.disconnected()
        self.gone.set()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            self._trader.hear(frame.get_payload_as_bytes())
        elif frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()

    def send(self, frame: bytes) -> None:
        if self._transport is not None:
            with contextlib.suppress(WSError, OSError):
                self._transport.send(WSMsgType.TEXT, frame)

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.disconnect()
