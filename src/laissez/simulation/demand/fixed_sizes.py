"""Who comes where jobs of a fixed size come: they, elastic training, and services.

Of four tenants two are rigid, one trains elastically and one serves; the last two are those of the
`population`, and each has its own stream of chance.

**A rigid job** needs 4, 8, 16 or 32 GPUs of one kind in one scale-up domain, the smaller the more
often: 4, 3, 2 and 1 in ten, so that those of 4 and of 32 take 15% and 31% of what rigid jobs take.
It works for 5 to 20 minutes with all of them, starts in 1 to 4, and saves every 5. One half are
written for H100s, the other for A100s: a job of a fixed size is tuned to its kind. It has 10 to 30
minutes more than it needs, and counts as starved if it has not started after 15.
"""

from __future__ import annotations

from laissez.performance.application import US_PER_S
from laissez.performance.batch import Work
from laissez.performance.rigid import RigidSpec
from laissez.simulation.demand import population
from laissez.simulation.demand.population import CHECKPOINT_S, HORIZON_US, MINUTE_US
from laissez.simulation.demand.projects import US_PER_HOUR, Project, Rigid
from laissez.simulation.demand.requests import Requests
from laissez.simulation.kernel.streams import stream

CLASSES = ("rigid", "inference", "rigid", "training")
SIZES = (4, 8, 16, 32)
WEIGHTS = (4, 3, 2, 1)
KINDS = ("h100", "a100")
WITHIN = 4
"""Tree, zone, rack and domain: the path of a scale-up domain in the clusters of our figures."""
PATIENCE_US = 15 * MINUTE_US


def project(seed: int, number: int, requests: Requests) -> Project:
    """The tenant of this number; the same whoever else comes."""
    kind = CLASSES[stream(seed, "fixed sizes", number).randrange(len(CLASSES))]
    name = f"{kind}-{number}"
    if kind == "inference":
        return population.inference(name, seed, number, requests)
    if kind == "training":
        return population.training(name, seed, number)
    return rigid(name, seed, number)


def rigid(name: str, seed: int, number: int) -> Project:
    chance = stream(seed, "rigid", number)
    (count,) = chance.choices(SIZES, WEIGHTS)
    kind = chance.choice(KINDS)
    work_us = chance.randrange(5 * MINUTE_US, 20 * MINUTE_US)
    cold_start_s = chance.uniform(60, 240)
    slack_us = chance.randrange(10 * MINUTE_US, 30 * MINUTE_US)
    life_us = work_us + round(cold_start_s * US_PER_S) + slack_us
    arrives_us = chance.randrange(HORIZON_US - life_us + 1)
    spec = RigidSpec(
        Work(work_us / US_PER_HOUR, {kind: 1.0}),
        count,
        WITHIN,
        arrives_us + life_us,
        cold_start_s,
        CHECKPOINT_S,
    )
    return Project(name, arrives_us, arrives_us + life_us, Rigid(spec, PATIENCE_US), (kind,))
