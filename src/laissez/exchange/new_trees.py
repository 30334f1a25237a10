"""New trees have notice and commitment from their first resource on.

Who is displaced without notice loses work, and who pays nothing for displacing may do it for fun.
So before the first resource of what may be a new tree the exchange writes an entry of its own
(`GuardNewTree`), which does nothing if the tree had a resource or a guard before: whoever set one,
an empty one too, has decided. Trees of journals that were begun earlier keep what they have.
"""

from __future__ import annotations

from laissez.exchange.allowance import US_PER_S
from laissez.exchange.sequencing import GuardNew
from laissez.exchange.tickets import CLOCK, OwnTicket, Ticket
from laissez.exchange.venue import Venue
from laissez.model import OfferResource

AnyTicket = Ticket | OwnTicket


class NewTrees:
    def __init__(self, venue: Venue, *, notice_s: int, commit_s: int) -> None:
        self._venue = venue
        self._notice_us = notice_s * US_PER_S or None
        self._commit_us = commit_s * US_PER_S or None

    def guarded(self, waiting: list[AnyTicket]) -> list[AnyTicket]:
        """What waits, with a guard before the first resource of each tree that may be new."""
        if not (self._notice_us or self._commit_us):
            return waiting
        new: dict[str, int] = {}
        for place, ticket in enumerate(waiting):
            if type(do := ticket.do) is OfferResource:
                tree = do.resource.partition("/")[0]
                if tree not in new and not self._venue.is_tree(tree):
                    new[tree] = place
        for tree, place in reversed(new.items()):
            guard = GuardNew(tree, self._notice_us, self._commit_us)
            waiting.insert(place, OwnTicket(CLOCK, guard))
        return waiting
