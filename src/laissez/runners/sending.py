"""What runners send, and what becomes of it: done, or refused with a reason for their logs."""

from __future__ import annotations

from laissez.adapters.view import OrderGang
from laissez.client import AsyncClient
from laissez.client.errors import refusal
from laissez.model import Instruction, PlaceOrder, Refused, Rejected, ServiceCode

FAREWELL_S = 5.0
"""How long whatever a runner still sends when it ends may take."""

_FATAL = (ServiceCode.UNAUTHENTICATED, ServiceCode.FORBIDDEN)


async def send(client: AsyncClient, do: Instruction | OrderGang) -> Refused | Rejected | None:
    """Who refuses it, the service or the market; None if it is done. A token that is refused is
    raised: nothing else that is sent would be done either."""
    if isinstance(do, OrderGang):
        do = PlaceOrder(do.scope, None, do.limit, do.order, do.expires, do.count, do.within)
    outcome = (await client.send_all([do]))[0]
    if isinstance(outcome, Refused):
        if outcome.code in _FATAL:
            raise refusal(outcome)
        return outcome
    last = outcome.events[-1] if outcome.events else None
    return last if isinstance(last, Rejected) else None
