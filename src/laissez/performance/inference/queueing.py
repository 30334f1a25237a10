"""The formulas of queues: how many of those who come by chance find room, and in time.

Arrivals are Poisson. `waits_share` (Erlang C) and `late_share` are for a pool of servers with one
line before it: prefill. Nobody waits for longer than a request can wait and still be in time:
who would be late anyway is served after those who can still be in time, and takes nothing from
them. That is the queue M/M/c with patience of a fixed length; as patience grows it becomes Erlang
C, and when more comes than can be served, what is lost is the excess.

`blocked_share` (Erlang B) is for a pool of places without a line: the sequences that decode at
the same time. It holds for any distribution of their lengths.
"""

from __future__ import annotations

from math import exp

NEGLIGIBLE = 1e-9
EXPONENT_MAX = 700.0


def waits_share(servers: int, offered: float) -> float:
    """Erlang C: the share that has to wait. `offered` is arrivals x service time."""
    if offered >= servers:
        return 1.0
    blocked = blocked_share(servers, offered)
    return blocked / (1 - offered / servers * (1 - blocked))


def late_share(servers: int, capacity_per_s: float, arrivals_per_s: float, wait_s: float) -> float:
    """The share that can't start within `wait_s`, of a pool that serves `capacity_per_s` in all.

    The density of the wait found on arrival is that of one server as fast as the pool, above a
    chance of finding one free; beyond `wait_s` nobody joins and it falls as fast as work is done.
    """
    if capacity_per_s <= 0 or wait_s < 0:
        return 1.0
    if arrivals_per_s < NEGLIGIBLE * capacity_per_s:
        return 0.0
    busy = arrivals_per_s / capacity_per_s
    free = 1.0  # the chance that a server is free, over the chance that exactly one is
    for number in range(1, servers):
        free = 1 + number / (busy * servers) * free
    spare_per_s = capacity_per_s - arrivals_per_s
    growth = exp(min(spare_per_s * wait_s, EXPONENT_MAX))
    if abs(spare_per_s * wait_s) < 1e-6:
        waiting = arrivals_per_s * wait_s
    else:
        waiting = arrivals_per_s * (growth - 1) / spare_per_s
    return busy / (free * growth + waiting + busy)


def blocked_share(places: int, offered: float) -> float:
    """Erlang B: the share that finds all places taken, if none waits.

    Its inverse is the sum of places! / ((places - k)! offered**k) over k, and is cut where the
    rest, or the whole share, is negligible.
    """
    if offered < NEGLIGIBLE:
        return 0.0
    term = inverse = 1.0
    for free in range(places, 0, -1):
        term *= free / offered
        inverse += term
        if term < NEGLIGIBLE * inverse or inverse > 1 / NEGLIGIBLE:
            break
    return 1 / inverse
