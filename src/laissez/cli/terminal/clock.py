"""The clock of this machine, and waiting by it. Tests put their own in its place."""

import time


def now_us() -> int:
    return time.time_ns() // 1_000


def sleep_s(seconds: float) -> None:
    time.sleep(seconds)
