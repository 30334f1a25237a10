"""How much of the service somebody may use: three things that run out and come back with time.

*Requests* are what was asked. One that finds none left is refused.

*Bytes* are what came in, whatever it was. *Work* is time: how long the one loop that serves
everybody was busy with what came in and with what is streamed out. Work is measured and not
reckoned from a table of prices, so there is nothing that costs more than it is taken for: pings,
empty frames, frames that can't be read, long answers, refusals. Both may be overdrawn, because
what something costs is known when it is done; who has overdrawn rests until it is paid back, and
meanwhile nothing of it is read. So a flood waits in the sender's own socket.

The same is counted twice: for a token, and for all tokens of its tenant together.
"""

from __future__ import annotations

import msgspec

US_PER_S = 1_000_000
NS_PER_US = 1_000
NS_PER_S = 1_000_000_000
WORK_AT_ONCE_NS = 5_000_000
"""So long may the loop be busy for one party before it rests."""

WORK_NS_PER_S_MIN = 100_000_000


class Limits(msgspec.Struct, frozen=True):
    """What one token may use; all of a tenant's together may use `tokens_worth` times as much.

    Bytes and work are what a request of the allowance comes with on average. `orders` may rest
    and `unread_bytes` may wait to be read, of a tenant.
    """

    requests_per_s: int = 1_000
    burst: int = 2_000
    connections: int = 100
    bytes_per_request: int = 512
    work_us_per_request: int = 250
    tokens_worth: int = 2
    orders: int = 20_000
    unread_bytes: int = 16 << 20


OPERATOR_LIMITS = Limits(
    requests_per_s=50_000, burst=100_000, connections=1_000, unread_bytes=64 << 20
)


class Allowance:
    """What one party has left: `share` times what the limits say."""

    __slots__ = (
        "_burst",
        "_bytes",
        "_bytes_at",
        "_bytes_most",
        "_bytes_per_s",
        "_requests",
        "_requests_at",
        "_requests_per_s",
        "_work_ns",
        "_work_per_s",
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
        self._bytes_per_s = self._requests_per_s * limits.bytes_per_request
        self._bytes_most = limits.burst * share * limits.bytes_per_request * NS_PER_S
        self._bytes = self._bytes_most
        self._bytes_at = 0
        work = self._requests_per_s * limits.work_us_per_request * NS_PER_US
        self._work_per_s = max(work, WORK_NS_PER_S_MIN)
        self._work_ns = WORK_AT_ONCE_NS * NS_PER_S

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
        passed = now_ns - self._bytes_at
        self._bytes_at = now_ns
        work = self._work_ns + passed * self._work_per_s
        if work > WORK_AT_ONCE_NS * NS_PER_S:
            work = WORK_AT_ONCE_NS * NS_PER_S
        self._work_ns = work = work - work_ns * NS_PER_S
        size_left = self._bytes + passed * self._bytes_per_s
        if size_left > self._bytes_most:
            size_left = self._bytes_most
        self._bytes = size_left = size_left - size * NS_PER_S
        if work < 0 or size_left < 0:
            wait_ns = max(-work // self._work_per_s, -size_left // self._bytes_per_s)
            self.rests_until = now_ns + wait_ns
