"""What is promised: an order that has won what its holder, under notice, has not left yet.

Such an order is not in the book any more, so it can't be amended or cancelled; what it has won can
be given back. Whoever looks for the order is told so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from laissez.cli.tenant.standing import folded
from laissez.cli.terminal.answers import refusal_in
from laissez.client import Client
from laissez.client.errors import LaissezError, Refusal
from laissez.model import Answer, Code, Promise, Refused


def promises_of(client: Client) -> tuple[Promise, ...]:
    """One's own; none where they can't be asked for, because a hint is not worth an error."""
    with suppress(LaissezError):
        return client.promises()
    return ()


def hint_of_promise(promised: Sequence[Promise], order: str) -> str:
    own = [each.resource for each in promised if each.order == order]
    if not own:
        return ""
    return f"; what it has won is promised: {folded(own)}; 'laissez release' gives that back"


@contextmanager
def promised_shown(client: Client, order: str) -> Iterator[None]:
    """A refusal because there is no such order says what has become of it."""
    try:
        yield
    except Refusal as refused:
        if refused.code != Code.UNKNOWN_ORDER:
            raise
        hint = hint_of_promise(promises_of(client), order)
        raise Refusal(refused.code, f"{refused.message}{hint}", refused.retry_after_ms) from None


def hints_of_promises(
    client: Client, orders: Sequence[str], answers: Sequence[Answer | Refused]
) -> tuple[str, ...]:
    """The same for many, where there are as many answers as orders."""
    unknown = [
        (no := refusal_in(each)) is not None and no.code == Code.UNKNOWN_ORDER for each in answers
    ]
    if not any(unknown):
        return ()
    promised = promises_of(client)
    pairs = zip(orders, unknown, strict=True)
    return tuple(hint_of_promise(promised, each) if gone else "" for each, gone in pairs)
