"""A controller for a job with a deadline: run it as it is, then make it yours.

The cloud below is invented: three zones whose spot capacity comes and goes. What is yours to write
is `Cloud`: what is on offer now, how to start and stop the job, how much of it is done. The rest is
the loop that any controller has, and the pilot that decides in it.

    python examples/deadline_job.py
"""

from laissez.deadline.generator import sample_traces
from laissez.deadline.job import US_PER_HOUR, Job, Kind, Offer
from laissez.deadline.pilot import Pilot

LOOK_US = 10 * 60 * 1_000_000
SPOT, ON_DEMAND = 920_000, 3_060_000  # micro-dollars per hour

job = Job(
    work_us=20 * US_PER_HOUR,
    deadline_us=26 * US_PER_HOUR,
    changeover_us=US_PER_HOUR // 5,
    tick_us=LOOK_US,
)


class Cloud:
    """Three zones, a clock, and a job that works once its instance is up."""

    def __init__(self) -> None:
        self.at_us = 0
        self.work_left_us = job.work_us
        self.cost_micros = 0
        self._instance: Offer | None = None
        self._starting_us = 0
        self._zones = [trace.as_zone(SPOT) for trace in sample_traces(seed=7)[2:5]]

    def offers(self) -> list[Offer]:
        """On-demand is always there. A spot instance that is gone is no longer among these."""
        tick = self.at_us // LOOK_US
        spot = [offer for zone in self._zones if (offer := zone.offers[tick]) is not None]
        if self._instance and self._instance.kind is Kind.SPOT and self._instance not in spot:
            self._instance = None
        return [Offer("on-demand", Kind.ON_DEMAND, ON_DEMAND), *spot]

    def run_on(self, instance: Offer | None) -> None:
        """Stop the job where it runs and start it there, from its last checkpoint."""
        if instance != self._instance:
            self._instance, self._starting_us = instance, job.changeover_us

    def wait(self) -> None:
        """A real controller sleeps until the next look, or until something happens."""
        if self._instance is None:
            self.at_us += LOOK_US
            return
        starting_us = min(self._starting_us, LOOK_US)
        working_us = min(LOOK_US - starting_us, self.work_left_us)
        self._starting_us -= starting_us
        self.work_left_us -= working_us
        self.at_us += LOOK_US if self.work_left_us else starting_us + working_us
        rate = self._instance.micros_per_hour
        self.cost_micros += rate * (starting_us + working_us) // US_PER_HOUR


def place(instance: Offer | None) -> str:
    if instance is None:
        return "idle"
    return f"on spot in {instance.zone}" if instance.kind is Kind.SPOT else "on on-demand"


def main() -> None:
    cloud = Cloud()
    pilot = Pilot(job, "lindy", spot_micros_per_hour=SPOT, on_demand_micros_per_hour=ON_DEMAND)
    before = None
    while cloud.work_left_us > 0:
        instance = pilot.look(cloud.at_us, cloud.offers(), cloud.work_left_us)
        cloud.run_on(instance)
        if instance != before:
            left = f"{cloud.work_left_us / US_PER_HOUR:5.1f} h of work left"
            print(f"{cloud.at_us / US_PER_HOUR:5.1f} h  {left}  {place(instance)}")
            before = instance
        if pilot.warning:
            print(pilot.warning)
        # After a crash, Pilot.restore(state) goes on from here.
        state = pilot.state()
        assert Pilot.restore(state).running == instance
        cloud.wait()
    alone = ON_DEMAND * (job.work_us + job.changeover_us) // US_PER_HOUR
    print(
        f"done after {cloud.at_us / US_PER_HOUR:.2f} of {job.deadline_us / US_PER_HOUR:.0f} h, "
        f"for ${cloud.cost_micros / 1e6:.2f} instead of ${alone / 1e6:.2f}"
    )


if __name__ == "__main__":
    main()
