"""How the oracle's leaves change hands: who is best, whom a gang takes from, who is called.

See `naive.py`. Where the contract is silent, a comment that begins with `Silent:` says what was
chosen.
"""

from dataclasses import dataclass

from laissez import model
from laissez.model import Event, Segment
from laissez.model.events import Reason
from naive_state import (
    Call,
    Holding,
    Leaf,
    NaiveState,
    Order,
    charge_of,
    covers,
    depth,
    joined,
    parent,
    root,
)


def rank(order: Order) -> tuple[int, int, int]:
    """Highest limit first, then the finest scope, then the earliest."""
    return order.limit, depth(order.scope), -order.sequence


@dataclass(frozen=True)
class Haul:
    """What a gang would take in one domain."""

    leaves: tuple[Leaf, ...]  # in tree order
    limits: int  # the retention limits of those that are held
    idle: int  # idle leaves of the domain, taken or not


class NaiveHandover(NaiveState):
    def say(self, event: Event) -> None:
        self.events.append(event)

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    # Which idle leaf an order takes when it is placed

    def idle_leaf_for(self, order: Order) -> Leaf | None:
        idle = self.idle_leaves_under(order.scope)
        lowest = min((self.floor_of(leaf) for leaf in idle), default=None)
        if lowest is None or lowest > order.limit:
            return None
        fit = [leaf for leaf in idle if self.floor_of(leaf) == lowest]
        return self.most_packed(self.where_to_begin(order, fit), fit)

    def where_to_begin(self, order: Order, fit: list[Leaf]) -> str:
        """The smallest scope around the leaf that was won last, or else the order's scope.

        Silent: the smallest scope around a leaf is its parent. If that has no such leaf, wider
        scopes around it are not looked at; the walk begins at the order's scope.
        """
        held = [
            leaf for leaf in self.leaves_of(order.tenant) if root(leaf.path) == root(order.scope)
        ]
        if held and covers(order.scope, held[-1].path):
            around = parent(held[-1].path)
            if any(covers(around, leaf.path) for leaf in fit):
                return around
        return order.scope

    def most_packed(self, scope: str, fit: list[Leaf]) -> Leaf:
        """Down into the child with the fewest idle leaves of those with a leaf that fits."""
        while scope not in self.resources:
            children = self.children[scope]
            able = [child for child in children if any(covers(child, leaf.path) for leaf in fit)]
            scope = min(able, key=lambda child: len(self.idle_leaves_under(child)))
        return self.resources[scope]

    # Gangs

    def is_idle(self, leaf: Leaf, freed: Leaf | None) -> bool:
        """A leaf that is just coming free counts as idle."""
        return leaf.holding is None or leaf is freed

    def is_open(self, leaf: Leaf, gang: Order, freed: Leaf | None) -> bool:
        """Not where the gang could not stay: below a floor, or under pressure.

        Silent: the contract asks for the floors of idle leaves only, and of the orders that would
        press on the gang for the holder's own only. At rest no other can be in the way. But in the
        middle of a command the next leaf may be one that its holder is about to lose to a floor, or
        that a better order is about to win.
        """
        rivals = [order for order in self.orders_covering(leaf) if order.tenant != gang.tenant]
        if max([self.floor_of(leaf), *(order.bid for order in rivals)]) > gang.limit:
            return False
        if self.is_idle(leaf, freed):
            return True
        holding = leaf.holding
        assert holding
        mine = holding.tenant == gang.tenant
        return not mine and not holding.protected and holding.limit < gang.limit

    def haul_in(self, domain: str, gang: Order, freed: Leaf | None) -> Haul | None:
        """Idle leaves, lowest floor first, then held ones, lowest limit first."""
        leaves = self.leaves_under(domain)
        idle = [leaf for leaf in leaves if self.is_idle(leaf, freed)]
        cost = {leaf.path: leaf.holding.limit for leaf in leaves if leaf.holding}
        cost |= {leaf.path: 0 for leaf in idle}
        found = [
            (0, self.floor_of(leaf), place, leaf)
            if self.is_idle(leaf, freed)
            else (1, cost[leaf.path], place, leaf)
            for place, leaf in enumerate(leaves)
            if self.is_open(leaf, gang, freed)
        ]
        if len(found) < gang.count:
            return None
        taken = sorted(found, key=lambda entry: entry[:3])[: gang.count]
        in_tree_order = [leaf for *_, leaf in sorted(taken, key=lambda entry: entry[2])]
        limits = sum(cost[leaf.path] for leaf in in_tree_order)
        return Haul(tuple(in_tree_order), limits, len(idle))

    def haul_of(self, gang: Order, freed: Leaf | None = None) -> Haul | None:
        """In the domain that is best for it: cheapest, then fewest idle leaves, then tree order."""
        assert gang.within is not None
        domains = self.domains(gang.scope, gang.within)
        hauls = [haul for domain in domains if (haul := self.haul_in(domain, gang, freed))]
        return min(hauls, key=lambda haul: (haul.limits, haul.idle), default=None)

    def gangs(self) -> list[Order]:
        return [order for order in self.orders.values() if order.is_gang]

    def fill_gangs(self) -> None:
        """When a command has done the rest of its work."""
        while ready := [gang for gang in self.gangs() if self.haul_of(gang)]:
            best = max(ready, key=rank)
            haul = self.haul_of(best)
            assert haul
            self.fill(best, haul)

    def fill(
        self,
        gang: Order,
        haul: Haul,
        freed: Leaf | None = None,
        reason: Reason = "idle",
        call_freed: bool = False,
    ) -> None:
        """In tree order; all that is held is outbid, but the leaf that was coming free anyway.

        Silent: that one changes hands for the reason for which it was coming free.
        """
        del self.orders[gang.id]
        for leaf in haul.leaves:
            if leaf is freed:
                if call_freed:
                    self.call(leaf, reason, gang)
                else:
                    self.transfer(leaf, gang, reason)
            elif leaf.holding is None:
                self.transfer(leaf, gang, "idle")
            elif self.guard_of(leaf.path).notice:
                self.call(leaf, "outbid", gang)
            else:
                self.transfer(leaf, gang, "outbid")

    # Who comes next

    def next_of(self, leaf: Leaf) -> Order | None:
        """If the leaf comes free: the best of the orders and gangs that could have it.

        Silent: of the gangs, all of the tree compete that some domain suits, though the leaf may
        be in none of them, nor in the gang's scope. (Only in the middle of a command can there be
        one that did not wait for this leaf.)
        """
        floor = self.floor_of(leaf)
        able = [order for order in self.orders_covering(leaf) if order.limit >= floor]
        tree = [gang for gang in self.gangs() if root(gang.scope) == root(leaf.path)]
        able += [gang for gang in tree if self.haul_of(gang, leaf)]
        return max(able, key=rank, default=None)

    def pass_on(self, leaf: Leaf, reason: Reason, *, notice: bool = False) -> None:
        """A leaf comes free, or would but for its notice: to the best, or to the operator.

        Silent: a gang that is best, but takes another domain, does so first; then the leaf goes to
        the best of the others. And the gang that an order's displacement completes must be the
        best by the whole ranking, not by its limit alone.
        """
        while True:
            order = self.next_of(leaf)
            haul = self.haul_of(order, leaf) if order and order.is_gang else None
            if order is None or haul is None or leaf in haul.leaves:
                break
            self.fill(order, haul)
        called = (
            notice
            and leaf.holding is not None
            and bool(self.guard_of(leaf.path).notice)
            and (order is None or order.tenant != leaf.owner)
        )
        if called and (order is None or reason == "floor"):
            self.call(leaf, reason, None)
        elif order and haul:
            self.fill(order, haul, leaf, reason, called)
        elif order:
            del self.orders[order.id]
            if called:
                self.call(leaf, reason, order)
            else:
                self.transfer(leaf, order, reason)
        elif leaf.holding:
            self.transfer(leaf, None, reason)

    # A leaf changes hands

    def transfer(self, leaf: Leaf, order: Order | None, reason: Reason) -> None:
        """The order has left the book already."""
        old = leaf.owner
        if leaf.holding:
            self.settle_holding(leaf)
            leaf.holding = None
        if order:
            leaf.holding = self.new_holding(leaf, order)
        filled = order.id if order else None
        self.say(model.Transferred(self.now, leaf.path, old, leaf.owner, filled, reason))

    def new_holding(self, leaf: Leaf, order: Order) -> Holding:
        guard = self.guard_of(leaf.path)
        return Holding(
            tenant=order.tenant,
            limit=order.limit,
            won_with=order.limit,
            bid=order.bid,
            sequence=self.next_sequence(),
            since=self.now,
            charged_to=self.now,
            hold_ends=self.now + guard.hold if guard.hold else None,
            commitment_ends=self.now + guard.commit if guard.commit else None,
        )

    def settle_holding(self, leaf: Leaf) -> None:
        """Says what is open of a holding and starts a new statement period."""
        holding = leaf.holding
        assert holding
        self.state(holding.tenant, leaf.path, holding.since, holding.segments)
        holding.since, holding.segments = self.now, []

    def state(self, tenant: str, path: str, since: int, segments: list[Segment]) -> None:
        charge, explained = charge_of(segments), model.Segments(segments)
        statement = model.Settled(self.now, tenant, path, since, charge, explained)
        self.statements.append(statement)
        self.say(statement)

    # Calls and promises

    def call(self, leaf: Leaf, reason: Reason, order: Order | None) -> None:
        """The order, if any, has left the book already."""
        holding, notice = leaf.holding, self.guard_of(leaf.path).notice
        assert holding and notice
        until = self.now + notice
        holding.call = Call(until, reason, self.next_sequence(), order)
        self.say(model.Called(self.now, holding.tenant, leaf.path, until, reason))
        if order:
            self.say(model.Promised(self.now, order.tenant, order.id, leaf.path, until))

    def end_call(self, leaf: Leaf) -> None:
        """Its time is over."""
        holding, call = leaf.holding, leaf.call
        assert holding and call
        if call.promised_to:
            self.keep_promise(leaf, call.promised_to, call.reason)
        elif self.uncapped_rate(leaf) > holding.limit:
            self.pass_on(leaf, call.reason)
        else:
            self.take_call_back(leaf)

    def keep_promise(self, leaf: Leaf, order: Order, reason: Reason) -> None:
        """If the rate is above the limit by now, the leaf goes on, without notice.

        Silent: but not from a hold, which begins with this as with every win; and it goes on for
        the reason of a hold that ends: `floor` where the floor is above the limit, else `outbid`.
        """
        self.transfer(leaf, order, reason)
        holding = leaf.holding
        assert holding
        if not holding.protected and self.uncapped_rate(leaf) > holding.limit:
            self.pass_on(leaf, self.why_lost(leaf))

    def why_lost(self, leaf: Leaf) -> Reason:
        assert leaf.holding
        return "floor" if self.floor_of(leaf) > leaf.holding.limit else "outbid"

    def take_call_back(self, leaf: Leaf) -> None:
        holding = leaf.holding
        assert holding
        holding.call = None
        self.say(model.Uncalled(self.now, holding.tenant, leaf.path))
        self.let_asked_limit_act(leaf)

    def give_promise_back(self, leaf: Leaf) -> None:
        """Charged like winning and leaving at once; then the call may have lost its ground.

        Silent: where nothing is charged and the call goes on, nothing is said.
        """
        holding, call = leaf.holding, leaf.call
        assert holding and call and call.promised_to
        order, commit = call.promised_to, self.guard_of(leaf.path).commit
        call.promised_to = None
        if commit:
            bound: list[Segment] = [(self.now, self.now + commit, order.bid, "commit")]
            self.state(order.tenant, leaf.path, self.now, bound)
        if self.uncapped_rate(leaf) <= holding.limit:
            self.take_call_back(leaf)

    # Holders

    def give_up(self, leaf: Leaf) -> None:
        """What the holder does itself; a called holding costs nothing more."""
        holding = leaf.holding
        assert holding
        if holding.call and holding.call.promised_to:
            self.keep_promise(leaf, holding.call.promised_to, "relinquished")
            return
        if holding.commitment_ends is not None and not holding.call:
            rest: Segment = (self.now, holding.commitment_ends, holding.bid, "commit")
            holding.segments = joined(holding.segments, rest)
        self.pass_on(leaf, "relinquished")

    def limit_acts(self, leaf: Leaf) -> None:
        """A holder has lowered its limit: at once, or when its hold ends."""
        holding = leaf.holding
        assert holding
        passed = self.uncapped_rate(leaf) > holding.limit
        if holding.hold_ends is not None:
            holding.limit_put_off = passed
        elif passed:
            self.pass_on(leaf, "limit")

    def let_asked_limit_act(self, leaf: Leaf) -> None:
        """The limit that was asked for below the bid, when the commitment is over.

        Silent: if the holding is called by then, when the call is over, for a called holding's
        limit can't change. And it is said when it acts; before, the bid was said.
        """
        holding = leaf.holding
        assert holding
        if holding.asked is None or holding.commitment_ends is not None or holding.call:
            return
        holding.limit, holding.asked = holding.asked, None
        self.say(model.LimitSet(self.now, holding.tenant, leaf.path, holding.limit))
        self.limit_acts(leaf)
