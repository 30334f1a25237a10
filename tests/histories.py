"""Random histories of a market, without Hypothesis: for minutes or days, from a script.

    PYTHONPATH=src:tests python tests/histories.py --seconds 300 --seed 1
    PYTHONPATH=src:tests python tests/histories.py --seconds 300 --seed 1 --naive   no market

Each history has its own forest, tenants, amounts and guards, all from its seed, and after each of
its commands everything is compared (`comparison.py`). If a history fails, it is cut where it
failed, everything that is not needed for a failure is left out, and the rest is printed.

What histories are made of is small on purpose: few tenants, small amounts and steps of time, so
that ties, crossings and meetings at one instant are the rule.
"""

import argparse
import itertools
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from auditor import line
from comparison import TENANTS, Comparison, describe
from laissez import model
from laissez.model import Command
from naive import NaiveMarket
from naive_state import Order

SPANS = (0, 0, 0, 1, 1, 2, 5, 13)


class Failed(Exception):
    """At the last of these commands, market and oracle, or oracle and auditor, fell out."""

    def __init__(self, leaves: Sequence[str], commands: Sequence[Command]) -> None:
        super().__init__(f"after {len(commands)} commands")
        self.leaves = leaves
        self.commands = list(commands)


def random_leaves(chance: random.Random, wide: int, narrow: int) -> list[str]:
    """One tree or two, of two to four levels; a node has from `narrow` to `wide` children."""
    leaves: list[str] = []

    def grow(path: str, levels: int) -> None:
        for child in range(chance.randint(narrow, wide)):
            name = f"{path}/{'gnrz'[levels - 1]}{child}"
            if levels == 1 or chance.random() < 0.04:
                leaves.append(name)
            else:
                grow(name, levels - 1)

    for tree in ("h", "t")[: chance.choice([1, 1, 1, 2])]:
        grow(tree, chance.choice([1, 2, 2, 3, 3]))
    return leaves[:30]


@dataclass
class Player:
    """Makes up the next command, looking at the oracle for what there is."""

    chance: random.Random
    leaves: list[str]
    oracle: NaiveMarket
    made: int = 0
    scopes: list[str] = field(init=False)
    roots: list[str] = field(init=False)

    def __post_init__(self) -> None:
        c = self.chance
        self.scopes = sorted({scope for leaf in self.leaves for scope in line(leaf)})
        self.inner = [scope for scope in self.scopes if scope not in self.leaves]
        self.roots = sorted({line(leaf)[0] for leaf in self.leaves})
        self.tenants = TENANTS[: c.choice([2, 3, 4, 4])]
        self.grain = c.choice([1, 1, 2, 3])
        self.highest = c.choice([4, 8, 12])
        self.guarded = c.choice([0, 0.5, 0.9])
        self.gangs = c.choice([0.2, 0.5, 0.8])
        self.rules: list[tuple[int, Callable[[], Command | None]]] = [
            (34, self.place),
            (4, self.place_at_home),
            (6, self.amend),
            (4, self.cancel),
            (14, self.set_limit),
            (8, self.relinquish),
            (3, self.give_promise_back),
            (9, self.set_floor),
            (6, self.add),
            (4, self.withdraw),
            (3, self.set_guard),
            (7, lambda: model.Advance(self.when())),
            (2, lambda: model.Settle(self.when())),
            (2, self.err),
        ]

    def opening(self) -> list[Command]:
        """Most leaves are there at the beginning, and some or all of them are held."""
        c, roots = self.chance, self.roots
        commands: list[Command] = [model.SetFloor(0, c.choice(roots), self.amount(0))]
        here = [leaf for leaf in self.leaves if c.random() < 0.9]
        commands += [model.AddResource(0, leaf) for leaf in here]
        if c.random() < 0.6:
            commands += [self.guard_of(root, 0) for root in roots]
        share = c.choice([0, 0.5, 0.8, 1, 1])
        for number, leaf in enumerate(here):
            if c.random() < share:
                who, limit = c.choice(self.tenants), self.amount(1)
                commands.append(model.Place(0, who, f"first-{number}", leaf, None, limit))
        return commands

    def next_command(self) -> Command:
        weights, makers = zip(*self.rules, strict=True)
        command: Command | None = None
        while command is None:
            command = self.chance.choices(makers, weights)[0]()
        self.made += 1
        return command

    # What it is made of

    def when(self) -> int:
        timer = self.oracle.next_timer()
        if timer is not None and self.chance.random() < 0.2:
            return timer
        return self.oracle.now + (60 if self.chance.random() < 0.03 else self.chance.choice(SPANS))

    def amount(self, lowest: int) -> int:
        return -(-self.chance.randint(lowest, self.highest) // self.grain) * self.grain

    def maybe(self, share: float, value: int) -> int | None:
        return value if self.chance.random() < share else None

    def expiry(self, at: int) -> int | None:
        timer, dying = self.oracle.next_timer(), [o.expires for o in self.live() if o.expires]
        if timer is not None and timer > at and self.chance.random() < 0.1:
            return timer
        if dying and (last := max(dying)) > at and self.chance.random() < 0.2:
            return last
        return self.maybe(0.3, at + self.chance.choice([1, 2, 5, 13]))

    def held(self) -> list[str]:
        return [path for path in self.oracle.leaves() if self.oracle.owner(path)]

    def live(self) -> list[Order]:
        return list(self.oracle.orders.values())

    # The commands

    def place(self) -> Command:
        c, at = self.chance, self.when()
        who, name = c.choice(self.tenants), f"o{self.made}"
        limit, expires = self.amount(1), self.expiry(at)
        if c.random() < self.gangs:
            scope = c.choice(self.inner) if c.random() < 0.6 else c.choice(self.roots)
            deepest = max(len(line(leaf)) for leaf in self.leaves if scope in line(leaf))
            within = self.maybe(0.7, c.randint(len(line(scope)), max(deepest - 1, 1)))
            count = c.choice([2, 2, 2, 3, 3, 4, 5])
            return model.Place(at, who, name, scope, None, limit, expires, count, within)
        scope, price = c.choice(self.scopes), self.maybe(0.7, self.amount(1))
        if c.random() < 0.4:
            scope = c.choice(self.roots)
        if price is not None and price > limit:
            price, limit = limit, price
        return model.Place(at, who, name, scope, price, limit, expires)

    def place_at_home(self) -> Command | None:
        """An order or gang of a holder's, around what it holds."""
        c, held = self.chance, self.held()
        if not held:
            return None
        path = c.choice(held)
        scope = c.choice(line(path)[:-1])
        count = c.choice([1, 2, 3])
        limit, price = self.amount(1), self.amount(1)
        who, name = self.oracle.owner(path), f"o{self.made}"
        assert who
        if count > 1:
            return model.Place(self.when(), who, name, scope, None, limit, None, count)
        return model.Place(self.when(), who, name, scope, min(price, limit), limit)

    def amend(self) -> Command | None:
        c, live = self.chance, self.live()
        if not live:
            return None
        order, at = c.choice(live), self.when()
        price = None if order.is_gang else self.maybe(0.5, self.amount(1))
        expires = UNSET if c.random() < 0.6 else self.expiry(at)
        limit = self.maybe(0.6, self.amount(1))
        return model.Amend(at, order.tenant, order.id, price, limit, expires)

    def cancel(self) -> Command | None:
        live = self.live()
        if not live:
            return None
        order = self.chance.choice(live)
        return model.Cancel(self.when(), order.tenant, order.id)

    def set_limit(self) -> Command | None:
        held = self.held()
        if not held:
            return None
        path = self.chance.choice(held)
        return model.SetLimit(self.when(), self.oracle.owner(path) or "", path, self.amount(0))

    def relinquish(self) -> Command | None:
        held = self.held()
        called = [path for path in held if self.oracle.called(path)]
        if called and self.chance.random() < 0.5:
            held = called
        if not held:
            return None
        path = self.chance.choice(held)
        return model.Relinquish(self.when(), self.oracle.owner(path) or "", path)

    def give_promise_back(self) -> Command | None:
        promised = [leaf for leaf in self.oracle.resources.values() if leaf.promised_to]
        if not promised:
            return None
        leaf = self.chance.choice(promised)
        assert leaf.promised_to
        return model.Relinquish(self.when(), leaf.promised_to.tenant, leaf.path)

    def set_floor(self) -> Command:
        c = self.chance
        scope = c.choice(self.roots) if c.random() < 0.4 else c.choice(self.scopes)
        return model.SetFloor(self.when(), scope, self.amount(0))

    def add(self) -> Command | None:
        away = [leaf for leaf in self.leaves if leaf not in self.oracle.resources]
        return model.AddResource(self.when(), self.chance.choice(away)) if away else None

    def withdraw(self) -> Command | None:
        here = self.oracle.leaves()
        called = [path for path in here if self.oracle.called(path)]
        if called and self.chance.random() < 0.5:
            here = called
        return model.Withdraw(self.when(), self.chance.choice(here)) if here else None

    def set_guard(self) -> Command:
        return self.guard_of(self.chance.choice(self.roots), self.when())

    def guard_of(self, root: str, at: int) -> Command:
        c, often = self.chance, self.guarded
        return model.SetGuard(
            at,
            root,
            rise=self.maybe(often / 2, c.choice([0, 2_500, 5_001])),
            fall=self.maybe(often / 2, c.choice([0, 1, 3])),
            hold=self.maybe(often / 2, c.choice([0, 1, 6, 20])),
            window=c.choice([6, 7]),
            notice=self.maybe(often, c.choice([0, 1, 4, 9, 9, 20])),
            commit=self.maybe(often, c.choice([0, 1, 6, 9, 20])),
        )

    def err(self) -> Command:
        """Something that is refused, mostly."""
        c, at = self.chance, self.when()
        who, scope, name = c.choice(self.tenants), c.choice(self.scopes), f"o{self.made}"
        taken = [leaf.promised_to.id for leaf in self.oracle.resources.values() if leaf.promised_to]
        taken += self.oracle.orders
        path = c.choice(self.leaves)
        errors: list[Command] = [
            model.Place(at, who, name, scope, None, 3, None, 0),
            model.Place(at, who, name, scope, 3, 3, None, 2),
            model.Place(at, who, name, scope, None, 3, None, 1, len(line(scope))),
            model.Place(at, who, name, c.choice(self.inner), None, 3, None, 2, c.randint(0, 6)),
            model.Place(at, who, name, scope, None, 3, None, c.randint(2, 40)),
            model.Place(at, who, c.choice(taken or [name]), self.roots[0], 1, 3),
            model.Place(at, who, c.choice(taken or [name]), self.roots[0], None, 3, None, 2),
            model.SetLimit(at, who, path, self.amount(0)),
            model.Relinquish(at, who, path),
            model.Cancel(at, who, c.choice(taken or [name])),
            model.Amend(at, who, c.choice(taken or [name]), price=2),
            model.SetGuard(at, self.roots[0], notice=86_400_000_001),
            model.SetGuard(at, self.roots[0], commit=-1),
            model.Advance(max(at - 3, 0)),
        ]
        return c.choice(errors)


def random_history(
    seed: int, steps: int, wide: int = 4, narrow: int = 2, *, market: bool = True
) -> Comparison:
    """Play one; raises `Failed` with all commands up to the failure."""
    chance = random.Random(seed)
    leaves = random_leaves(chance, wide, narrow)
    trial = Comparison(leaves, ("elsewhere",), market=market)
    player = Player(chance, leaves, trial.oracle)
    commands = player.opening()
    try:
        for step in range(len(commands) + steps):
            if step == len(commands):
                commands.append(player.next_command())
            trial.do(commands[step])
            if chance.random() < 0.1:
                trial.restore()
        trial.read_statements()
    except Exception as error:
        raise Failed(leaves, commands[: step + 1]) from error
    return trial


def failure_of(leaves: Sequence[str], commands: Sequence[Command], market: bool) -> int | None:
    """How many of the commands it takes, if they fail."""
    trial = Comparison(leaves, ("elsewhere",), market=market, thorough=True)
    for place, command in enumerate(commands):
        try:
            trial.do(command)
            trial.restore()
            trial.read_statements()
        except Exception:
            return place + 1
    return None


def smallest(failed: Failed, market: bool) -> list[Command]:
    """Leave out what can be left out, in ever smaller pieces."""
    commands = failed.commands
    size = max(len(commands) // 2, 1)
    while True:
        start = 0
        while start < len(commands):
            fewer = commands[:start] + commands[start + size :]
            count = failure_of(failed.leaves, fewer, market)
            if count is None:
                start += size
            else:
                commands = fewer[:count]
        if size == 1:
            return commands
        size //= 2


def report(failed: Failed, market: bool) -> None:
    commands = failed.commands
    if failure_of(failed.leaves, commands, market) is None:
        print("it does not fail again when played without restoring in between")
    else:
        commands = smallest(failed, market)
    print(f"fails at the last of {len(commands)} commands:")
    for command in commands:
        print(f"    {describe(command)},")
    trial = Comparison(failed.leaves, ("elsewhere",), market=market, thorough=True)
    try:
        for command in commands:
            trial.do(command)
            trial.restore()
            trial.read_statements()
    except Exception:
        traceback.print_exc(file=sys.stdout, chain=False)
    print("the oracle answered:", *trial.oracle.events, sep="\n    ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--histories", type=int, default=None, help="at most so many")
    parser.add_argument("--steps", type=int, default=80, help="of each")
    parser.add_argument("--wide", type=int, default=4)
    parser.add_argument("--narrow", type=int, default=2)
    parser.add_argument("--naive", action="store_true", help="only the oracle and the auditor")
    asked = parser.parse_args()
    seen: Counter[str] = Counter()
    end = time.monotonic() + asked.seconds
    seeds = itertools.count(asked.seed)
    played = 0
    while time.monotonic() < end and played != asked.histories:
        seed = next(seeds)
        try:
            trial = random_history(
                seed, asked.steps, asked.wide, asked.narrow, market=not asked.naive
            )
        except Failed as failed:
            print(f"seed {seed}: {failed}: {failed.__cause__!r}")
            report(failed, not asked.naive)
            return 1
        seen += trial.auditor.seen
        played += 1
    print(f"{played} histories, from seed {asked.seed}: {dict(sorted(seen.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
