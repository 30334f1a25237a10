"""A service that takes as long as a test says.

Work is measured by the monotonic clock. Here that clock stands still until the test moves it, or
something does that is to take a while: so a request costs exactly what the test says, on any
machine, and whoever rests does so until the test lets time pass.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from laissez.exchange.access import Principal
from serving import Served

NS_PER_MS = 1_000_000
PAID_FOR = ("laissez.service.", "laissez.exchange.pipeline")


class HandClock:
    """The monotonic clock of the doors and of commands, moved by hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._now_ns = time.monotonic_ns()
        self.patch_doors("monotonic_ns", self)

    def __call__(self) -> int:
        return self._now_ns

    def let_pass(self, ms: int) -> None:
        self._now_ns += ms * NS_PER_MS

    def patch_doors(self, name: str, value: Any) -> None:
        """Wherever the service, or who has its callers pay for commands, knows something by this
        name, it is this."""
        modules = [m for m in tuple(sys.modules) if m.startswith(PAID_FOR)]
        found = [m for m in modules if hasattr(sys.modules[m], name)]
        assert found, f"no module of the service has {name}"
        for module in found:
            self._patch.setattr(sys.modules[module], name, value)

    def slow_down(self, owner: type, name: str, cost_ms: Callable[..., int]) -> None:
        """A method of a class takes so long from now on; `cost_ms` is told what the method is."""
        method = getattr(owner, name)

        def slow(*arguments: Any, **options: Any) -> Any:
            self.let_pass(cost_ms(*arguments, **options))
            return method(*arguments, **options)

        self._patch.setattr(owner, name, slow)


def rests(exchange: Served, clock: HandClock, tenant: str) -> bool:
    """Does a tenant have to pay something back before it is served again?"""
    return exchange.call(lambda _: clock() < _one_of(exchange, tenant).rests_until)


def rest_ms(exchange: Served, clock: HandClock, tenant: str) -> float:
    """How long it has to rest."""
    return exchange.call(lambda _: (_one_of(exchange, tenant).rests_until - clock()) / NS_PER_MS)


def _one_of(exchange: Served, tenant: str) -> Principal:
    found = exchange.running.exchange.authenticate(exchange.secrets[tenant])
    assert found is not None
    return found
