"""Drains: cordons with a deadline, which the holders under them are told like a call.

Nothing changes in the market before the deadline: what is held goes on being traded, at its rate
and with its limit. So a drain is told again to whoever comes to hold something under it, and when
the market takes back a call of its own. At the deadline what is still held is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterator

from laissez.model import Called, Event, Transferred, Uncalled


class Drains:
    __slots__ = ("until",)

    def __init__(self, until: dict[str, int] | None = None) -> None:
        self.until = {} if until is None else until

    def over(self, resource: str) -> int | None:
        """When a resource is to be withdrawn, if it is."""
        return min(
            (self.until[path] for path in upwards(resource) if path in self.until), default=None
        )

    def next(self) -> int | None:
        return min(self.until.values(), default=None)

    def due(self, at: int) -> list[str]:
        """The scopes whose deadline has come."""
        return [scope for scope, until in self.until.items() if until <= at]

    def told_again(self, event: Event) -> tuple[Called, ...]:
        """What a holder has to be told because of something that happened."""
        if isinstance(event, Transferred) and event.new is not None:
            tenant = event.new
        elif isinstance(event, Uncalled):
            tenant = event.tenant
        else:
            return ()
        until = self.over(event.resource)
        if until is None:
            return ()
        return (Called(event.at, tenant, event.resource, until, "withdrawn"),)


def upwards(path: str) -> Iterator[str]:
    """A path and those above it, from the finest."""
    while path:
        yield path
        path = path.rpartition("/")[0]
