"""One connection of the load: what it asks for next, and how long the answers took.

Requests are written as bytes, one command a frame, because the load shares the machine with the
server that it measures. A trader keeps a few resting orders and the resources that it won: it
places, amends and cancels the former, and moves its limits on the latter. Most orders press
without winning; one in a hundred bids high enough to take a resource from its holder.
"""

from __future__ import annotations

import random
import time

from picows import WSFrame, WSListener, WSMsgType, WSTransport

FLOOR = 1_000_000
HOLDER_LIMIT = 4_000_000
ORDERS_MIN, ORDERS_MAX = 4, 40
IN_FLIGHT_MAX = 32

clock = time.perf_counter


class LoadTrader(WSListener):
    """Sends what it is told to send, when it is told to."""

    def __init__(self, number: int, scopes: list[str], seed: int) -> None:
        self.in_flight: dict[int, float] = {}
        self.latencies_s: list[float] = []
        self.accepted = 0
        self.refused = 0
        self.acknowledged: list[tuple[int, int]] = []
        self.lost_connection = False
        self.goes_on = False
        self._number = number
        self._scopes = scopes
        self._random = random.Random(seed)
        self._orders: list[bytes] = []
        self._resources: list[bytes] = []
        self._count = 0
        self._answered_count = 0
        self._transport: WSTransport | None = None

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.lost_connection = True

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type != WSMsgType.TEXT:
            return
        now = clock()
        payload = frame.get_payload_as_bytes()
        for part in payload.split(b'{"type":"Answer",')[1:]:
            self._answered(part, now)
        for part in payload.split(b'{"type":"Refused",')[1:]:
            self._answered(part, now)
        if self.goes_on:
            for _ in range(self._answered_count):
                self.fire(clock())
        self._answered_count = 0

    def _answered(self, answer: bytes, now: float) -> None:
        """`"id":17,"sequence":123,...`: the start of an answer, or a refusal of the service."""
        self._answered_count += 1
        comma = answer.index(b",")
        request = int(answer[5:comma])
        self.latencies_s.append(now - self.in_flight.pop(request))
        if b'"Rejected"' in answer or not answer.startswith(b'"sequence":', comma + 1):
            self.refused += 1
            return
        self.accepted += 1
        end = answer.index(b",", comma + 1)
        self.acknowledged.append((request, int(answer[comma + 12 : end])))
        filled = answer.find(b'"Filled"')
        if filled >= 0:
            start = answer.index(b'"resource":"', filled) + 12
            self._resources.append(answer[start : answer.index(b'"', start)])
            order = answer.index(b'"order":"', filled) + 9
            name = answer[order : answer.index(b'"', order)]
            if name in self._orders:
                self._orders.remove(name)

    def fire(self, due: float) -> None:
        """Send one request; its latency counts from when it was due."""
        assert self._transport is not None
        self._count += 1
        request = self._count
        self.in_flight[request] = due
        body = self._next(request)
        self._transport.send(
            WSMsgType.TEXT,
            b'{"id":%d,"key":"%d-%d","do":{"type":%b}}' % (request, self._number, request, body),
        )

    def _next(self, request: int) -> bytes:
        draw, orders = self._random.random(), self._orders
        if len(orders) < ORDERS_MIN or (draw < 0.35 and len(orders) < ORDERS_MAX):
            return self._place(request)
        if draw < 0.60:
            order = orders[int(self._random.random() * len(orders))]
            return b'"AmendOrder","order":"%b","price_micros_per_hour":%d' % (order, self._price())
        if draw < 0.80 and self._resources:
            resource = self._resources[int(self._random.random() * len(self._resources))]
            limit = HOLDER_LIMIT + int(self._random.random() * 2_000_000)
            return b'"ChangeLimit","resource":"%b","limit_micros_per_hour":%d' % (resource, limit)
        return b'"CancelOrder","order":"%b"' % orders.pop(0)

    def _place(self, request: int) -> bytes:
        order = b"%d-%d" % (self._number, request)
        self._orders.append(order)
        scope = self._scopes[int(self._random.random() * len(self._scopes))].encode()
        price = self._price()
        limit = HOLDER_LIMIT - 500_000
        if self._random.random() < 0.01:
            price = limit = HOLDER_LIMIT + 3_000_000
        return (
            b'"PlaceOrder","order":"%b","scope":"%b",'
            b'"price_micros_per_hour":%d,"limit_micros_per_hour":%d' % (order, scope, price, limit)
        )

    def _price(self) -> int:
        return FLOOR - 300_000 + int(self._random.random() * 600_000)


def percentile(sorted_values: list[float], share: float) -> float:
    return sorted_values[min(int(len(sorted_values) * share), len(sorted_values) - 1)]
