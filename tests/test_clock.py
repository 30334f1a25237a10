"""Market time: follows the wall clock ahead, never back, and never stands still."""

from hypothesis import given
from hypothesis import strategies as st

from laissez.exchange.clock import Clock

YEAR_2024_NS = 1_704_067_200_000_000_000


class Times:
    """A wall and a monotonic clock that a test moves."""

    def __init__(self, wall_ns: int = YEAR_2024_NS, monotonic_ns: int = 5_000) -> None:
        self.wall_ns = wall_ns
        self.monotonic_ns = monotonic_ns

    def clock(self, not_before: int = 0) -> Clock:
        return Clock(
            not_before=not_before,
            wall_ns=lambda: self.wall_ns,
            monotonic_ns=lambda: self.monotonic_ns,
        )

    def pass_ns(self, elapsed: int, wall_step: int = 0) -> None:
        self.monotonic_ns += elapsed
        self.wall_ns += elapsed + wall_step


def test_it_shows_the_wall_in_microseconds() -> None:
    """As long as the wall clock is regular, market time is the wall's."""
    times = Times()
    clock = times.clock()
    assert clock.now() == YEAR_2024_NS // 1_000
    times.pass_ns(1_999)
    assert clock.now() == YEAR_2024_NS // 1_000 + 1
    times.pass_ns(1)
    assert clock.now() == YEAR_2024_NS // 1_000 + 2


def test_a_wall_that_steps_back_is_not_followed() -> None:
    """Time goes on at its own pace until the wall has caught up, then it is the wall's again."""
    times = Times()
    clock = times.clock()
    before = clock.now()
    times.pass_ns(1_000, wall_step=-10_000_000)
    assert clock.now() == before + 1
    times.pass_ns(5_000_000)
    assert clock.now() == before + 5_001
    times.pass_ns(1_000, wall_step=12_000_000)
    assert clock.now() == times.wall_ns // 1_000 == before + 7_002


def test_a_wall_that_jumps_ahead_is_followed() -> None:
    """And stays followed when it steps back again."""
    times = Times()
    clock = times.clock()
    before = clock.now()
    times.pass_ns(0, wall_step=3_600_000_000_000)
    assert clock.now() == before + 3_600_000_000
    times.pass_ns(7_000, wall_step=-3_600_000_000_000)
    assert clock.now() == before + 3_600_000_007


def test_a_restart_does_not_begin_in_the_past() -> None:
    """A journal from the future is gone on from."""
    times = Times()
    last = YEAR_2024_NS // 1_000 + 60_000_000
    clock = times.clock(not_before=last)
    assert clock.now() == last
    times.pass_ns(2_000)
    assert clock.now() == last + 2
    assert times.clock(not_before=17).now() == times.wall_ns // 1_000


@given(
    st.integers(0, 10**6),
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(-(10**10), 10**10)), max_size=30),
)
def test_time_never_goes_back_nor_stands_still(ahead_us: int, steps: list[tuple[int, int]]) -> None:
    """However the wall steps, time passes at least as the monotonic clock and as the wall says."""
    times = Times()
    clock = times.clock(not_before=YEAR_2024_NS // 1_000 + ahead_us)
    begin, begin_ns, latest = clock.now(), times.monotonic_ns, clock.now()
    for elapsed, wall_step in steps:
        times.pass_ns(elapsed, wall_step)
        now = clock.now()
        assert now >= latest
        assert now >= begin + (times.monotonic_ns - begin_ns) // 1_000
        assert now >= times.wall_ns // 1_000
        assert clock.now() == now
        latest = now
