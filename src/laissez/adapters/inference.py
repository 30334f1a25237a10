"""An inference service that trades: requests within their objective are money.

Its customers pay for requests that are answered in time. So a node is worth what it adds to these,
linearly, and the application's hooks say all the rest: what load to prepare for, what each kind of
node can serve, which nodes it does without. The cliffs of a service agreement (a tenth of the bill
given back below 99.9%, a quarter below 99%) are no part of the bid: beyond a cliff nothing more can
be lost, and one bad minute would make the service give up the rest of the month.
"""

from __future__ import annotations

from laissez.adapters.econ import EconAdapter
from laissez.adapters.intent import TradingTerms
from laissez.adapters.pricing import Pricing

SECONDS_PER_HOUR = 3_600
PRICED_REQUESTS = 1_000
NODE_PRICING = Pricing()


def inference_adapter(
    terms: TradingTerms, micros_per_thousand_requests: float, pricing: Pricing = NODE_PRICING
) -> EconAdapter:
    """Utility is requests per second, so a unit is worth what an hour of them is paid."""
    micros_per_unit = micros_per_thousand_requests * SECONDS_PER_HOUR / PRICED_REQUESTS
    return EconAdapter(terms, micros_per_unit, pricing)
