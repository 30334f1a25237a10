"""What every contract writes down in the same way: losses, performances at the end, rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from laissez.adapters.budget import Budget
from laissez.adapters.intent import TradingTerms
from laissez.model.paths import tree_of
from laissez.simulation.contracts.setting import CHARGE_UNITS_PER_MICRO, Loss, Setting
from laissez.simulation.demand.projects import Labour, Project
from laissez.simulation.kernel.stage import Tenant

MINUTE_US = 60_000_000
PLENTY_MICROS = 1 << 50
"""The budget of whoever has none: no run could spend it."""


def tenant_for(project: Project, setting: Setting) -> Tenant:
    """The same tenant under every contract."""
    worth = setting.budgets.get(project.name)
    budget = None if worth is None else Budget(worth, project.ends_us)
    terms = TradingTerms("sim", project.scopes, setting.period_us, budget)
    labour: Labour = project.labour
    app = labour.begin(project.arrives_us)
    adapter = labour.adapter(app, terms, PLENTY_MICROS if worth is None else worth)
    return Tenant(project.name, adapter, app, project.arrives_us)


class Recorder:
    """A witness, and a bookkeeper of what projects have got done."""

    def __init__(self, setting: Setting) -> None:
        self.losses: list[Loss] = []
        self.performance: dict[str, float] = {}
        self.rates: dict[str, list[int]] = {tree: [] for tree in setting.prices.base}
        self._labours: dict[str, Labour] = {
            project.name: project.labour for project in setting.projects
        }

    def loses(self, tenant: Tenant, resource: str, at_us: int) -> Callable[[], None]:
        labour, app = self._labours[tenant.name], tenant.app
        before = labour.performance(app)

        def after() -> None:
            wasted = before - labour.performance(app)
            self.losses.append(Loss(tenant.name, resource, at_us, wasted))

        return after

    def ends(self, tenant: Tenant, at_us: int) -> None:
        """A project is over, whatever it has reached."""
        tenant.app.advance(at_us)
        self.performance[tenant.name] = self._labours[tenant.name].performance(tenant.app)

    def minute(self, held: Iterable[tuple[str, int]]) -> None:
        """What every node that is held costs now."""
        by_tree: dict[str, list[int]] = {tree: [] for tree in self.rates}
        for resource, rate in held:
            by_tree[tree_of(resource)].append(rate)
        for tree, rates in by_tree.items():
            self.rates[tree].append(sum(rates) // len(rates) if rates else -1)


def micros(charge: int) -> float:
    return charge / CHARGE_UNITS_PER_MICRO
