"""Who pays for what is done for nobody in particular.

Whatever the service does it does at somebody's expense. For a request or a handshake with a living
token that is the token. Two more pay.

*Arrivals* pay for the time of all that has to be done before it can be known who comes: to accept a
connection, to hear its first head, to shake hands in TLS. Nothing tells a tenant that comes back
from anybody else until then; when arrivals have overdrawn, new connections stay in the operating
system's queue for a moment, everybody's. So what arrives must cost little: nothing is built before
there is a head (`visitor`), and bytes don't count here, or whoever says half of something would
keep others out. They are charged when it is known whose they are, or that nobody will know.

*Strangers* pay for what is done for whoever has shown no living token: answers, refusals, failed
handshakes, and the bytes of what was never finished. There is an allowance of all of them together,
and one for each address, so that one address does not use up what others need. A stranger that has
to rest waits. The address counts only among strangers: tenants, an operator's tools and an attacker
may well share one, behind a proxy or on one machine, so nothing of this is ever asked of a living
token.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from laissez.exchange.allowance import Allowance, Limits

ARRIVALS = Limits(requests_per_s=1_000)
"""A quarter of the time: some thousand connections a second; their bytes are not charged here."""

ALL_STRANGERS = Limits(requests_per_s=800)
ONE_ADDRESS = Limits(requests_per_s=400)
"""A fifth of the time, and a tenth."""

ADDRESSES_KEPT = 4_096


class Payer(Protocol):
    """At whose expense something is done: a principal, or a stranger."""

    @property
    def rests_until(self) -> int:
        """Nothing is done at its expense before this instant, by the monotonic clock."""

    def spend(self, now_ns: int, size: int, work_ns: int) -> object:
        """Pay for bytes that came in and for what was done."""


class Stranger:
    """Everybody without a token from one address."""

    __slots__ = ("_address", "_all")

    def __init__(self, address: Allowance, everybody: Allowance) -> None:
        self._address = address
        self._all = everybody

    @property
    def rests_until(self) -> int:
        return max(self._address.rests_until, self._all.rests_until)

    def spend(self, now_ns: int, size: int, work_ns: int) -> None:
        self._address.spend(now_ns, size, work_ns)
        self._all.spend(now_ns, size, work_ns)


class Strangers:
    """All of them, and the allowance of those who arrive."""

    def __init__(self, *, one_address_is_all: bool = False) -> None:
        self.arrivals = Allowance(ARRIVALS)
        self.all = Allowance(ALL_STRANGERS)
        self._of_one = ALL_STRANGERS if one_address_is_all else ONE_ADDRESS
        self._by_address: OrderedDict[str, Stranger] = OrderedDict()

    def at(self, address: str) -> Stranger:
        """Who pays for strangers at an address. What is forgotten of one that was not here for long
        is still known of all."""
        known = self._by_address
        stranger = known.get(address)
        if stranger is None:
            stranger = known[address] = Stranger(Allowance(self._of_one), self.all)
            if len(known) > ADDRESSES_KEPT:
                known.popitem(last=False)
        else:
            known.move_to_end(address)
        return stranger
