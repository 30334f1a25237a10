"""How much of the service somebody may use: three things that run out and come back with time,
and two that are held for a while.

*Requests* are what was asked. One that finds none left is refused.

*Bytes* are what came in, whatever it was. *Work* is time: how long the one loop that serves
everybody was busy with what came in, with the commands in it, and with what is streamed out. Work
is measured and not reckoned from a table of prices, so there is nothing that costs more than it is
taken for: pings, empty frames, frames that can't be read, long answers, refusals. Both may be
overdrawn, because what something costs is known when it is done; who has overdrawn rests until it
is paid back, and meanwhile nothing of it is read. So a flood waits in the sender's own socket.

*Connections* are counted while they last, and *unread bytes* while they wait for whoever asked for
them; there is a bound to both (who keeps it: `Principal.connect` and the service's `UnreadBytes`).

The same is counted twice: for a token, and for all tokens of its tenant together.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from laissez.exchange.clock import NS_PER_US

US_PER_S = 1_000_000
NS_PER_S = 1_000_000_000
TURN_NS = 2_000_000
"""So long the loop is busy with one thing before it is another's turn."""

WORK_AT_ONCE_NS = 5_000_000
"""So long may the loop be busy for one party before it rests."""

REST_NS_MIN = 1_000_000
"""A shorter rest is not worth it."""

WORK_NS_PER_S_MIN = 100_000_000
STRETCH = 1_000


AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
"""What a setting may be that counts something."""


UpToADay = Annotated[int, msgspec.Meta(ge=0, le=86_400)]
"""What a setting may be that is a length of time in seconds, and 0 for none."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one token may use; all of a tenant's together may use `tokens_worth` times as much.

    Bytes and work are what a request of the allowance comes with on average. `orders` may rest
    (`gangs` of them for several at once) and `unread_bytes` may wait to be read, of a tenant; an
    order or a quote is for `gang_most` resources at most.
    """

    requests_per_s: AtLeastOne = 1_000
    burst: AtLeastOne = 2_000
    connections: AtLeastOne = 100
    bytes_per_request: AtLeastOne = 512
    work_us_per_request: AtLeastOne = 250
    tokens_worth: AtLeastOne = 2
    orders: AtLeastOne = 20_000
    gangs: AtLeastOne = 256
    gang_most: AtLeastOne = 1_024
    unread_bytes: AtLeastOne = 16 << 20


OPERATOR_LIMITS = Limits(
    requests_per_s=50_000, burst=100_000, connections=1_000, unread_bytes=64 << 20
)


class Allowance:
    """What one party has left: `share` times what the limits say.

    What is left of bytes and of work is kept as the instant at which all will be paid back: what
    costs a millisecond puts it off by four, if a quarter of the time may be used.
    """

    __slots__ = (
        "_burst",
        "_bytes_at_once_ns",
        "_bytes_paid_ns",
        "_ns_per_byte",
        "_requests",
        "_requests_at",
        "_requests_per_s",
        "_work_at_once_ns",
        "_work_paid_ns",
        "_work_stretch",
        "connections",
        "connections_most",
        "rests_until",
        "unread",
        "unread_most",
    )

    def __init__(self, limits: Limits, share: int = 1) -> None:
        self.connections = 0
        self.connections_most = limits.connections * share
        self.unread = 0
        self.unread_most = limits.unread_bytes
        self.rests_until = 0
        self._requests_per_s = limits.requests_per_s * share
        self._burst = limits.burst * share * US_PER_S
        self._requests = self._burst
        self._requests_at = 0
        self._bytes_paid_ns = self._work_paid_ns = 0
        self._ns_per_byte = NS_PER_S // (self._requests_per_s * limits.bytes_per_request) + 1
        self._bytes_at_once_ns = limits.burst * share * limits.bytes_per_request * self._ns_per_byte
        work_ns_per_s = self._requests_per_s * limits.work_us_per_request * NS_PER_US
        self._work_stretch = NS_PER_S * STRETCH // max(work_ns_per_s, WORK_NS_PER_S_MIN)
        self._work_at_once_ns = WORK_AT_ONCE_NS * self._work_stretch // STRETCH + REST_NS_MIN

    def take_request(self, at_us: int) -> int:
        """Take one request: 0, or how many microseconds to wait until there is one."""
        left = self._requests + (at_us - self._requests_at) * self._requests_per_s
        self._requests_at = at_us
        if left > self._burst:
            left = self._burst
        if left < US_PER_S:
            self._requests = left
            return -((left - US_PER_S) // self._requests_per_s)
        self._requests = left - US_PER_S
        return 0

    def give_request_back(self) -> None:
        self._requests += US_PER_S

    def spend(self, now_ns: int, size: int, work_ns: int) -> None:
        """Pay for what was done, and rest if that was more than there was."""
        work, data = self._work_paid_ns, self._bytes_paid_ns
        if work < now_ns:
            work = now_ns
        if data < now_ns:
            data = now_ns
        self._work_paid_ns = work = work + work_ns * self._work_stretch // STRETCH
        self._bytes_paid_ns = data = data + size * self._ns_per_byte
        work -= self._work_at_once_ns
        data -= self._bytes_at_once_ns
        self.rests_until = max(data, work)
