"""Rates and quotes as one subscriber has been told them: what has changed is told, once a second.

They change with every command, and nobody wants to hear of each; so they are looked at now and
then, and what is as it was is left out.
"""

from __future__ import annotations

from laissez.exchange.access import Principal
from laissez.exchange.questions import Desk, Forbidden
from laissez.model import Quote, Quotes, Rates, Subscribe, encode


class Samples:
    """What one subscriber wants to know, and what it knows."""

    __slots__ = ("_desk", "_principal", "_quotes_sent", "_rates_sent", "_scopes", "_wants_rates")

    def __init__(self, desk: Desk, principal: Principal, subscription: Subscribe) -> None:
        self._desk = desk
        self._principal = principal
        self._wants_rates = subscription.rates and principal.tenant is not None
        self._scopes = subscription.quotes
        self._rates_sent: dict[str, int] = {}
        self._quotes_sent: dict[str, Quote | None] = {}

    def changed(self) -> list[bytes]:
        """What is different since the last time, as it is sent."""
        changed: list[bytes] = []
        if self._wants_rates and self._principal.tenant is not None:
            rates = self._desk.rates(self._principal.tenant)
            fresh = {r: rate for r, rate in rates.items() if self._rates_sent.get(r) != rate}
            self._rates_sent = rates
            if fresh:
                changed.append(encode(Rates(self._desk.instant(), fresh)))
        if self._scopes:
            quotes = {scope: self._quote(scope) for scope in self._scopes}
            if quotes != self._quotes_sent:
                sent, self._quotes_sent = self._quotes_sent, quotes
                new = {
                    scope: each for scope, each in quotes.items() if sent.get(scope, ...) != each
                }
                changed.append(encode(Quotes(self._desk.instant(), new)))
        return changed

    def _quote(self, scope: str) -> Quote | None:
        try:
            quoted = self._desk.quote(self._principal, scope)
        except Forbidden:  # no longer visible: what it held there is gone
            return None
        return None if quoted.rate is None else Quote(quoted.rate, quoted.idle)
