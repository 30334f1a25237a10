"""Does the service grow? `python benchmarks/soak.py --help`.

A service as anybody would start it, 16 tenants who trade at a steady rate for an hour, and the
memory of the service each minute. What has a bound fills up first (streams, remembered keys); so
the slope is that of the second half, and says what another hour would add. A shorter run at a
higher rate sees as many commands, but not as many statement periods. Visitors come and go meanwhile
(see `soaking`), so that a leak per connection, subscription or REST request would be seen, too.

A service that is dead, or that nobody trades with, doesn't grow either. So there is a verdict only
if service and load lived to the end, nearly all that was due was answered, next to nothing was
refused, nobody lost a connection, and there were enough looks for a slope.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from soaking import HOLDERS_LIMIT, SoakPlan, Told

from faults.process import Service, is_running
from laissez.exchange.pipeline import Settings
from laissez.model import ChangeFloor, ChangeGuard, Instruction, OfferResource, PlaceOrder
from raw_websocket import RawSocket
from serving import make_tokens

HERE = Path(__file__).parent
TENANTS = 16
LEAVES = 512
TREE = "h100"
FLOOR = 1_000
FRAME = 200
LOOKS = 60
LOOKS_LEAST = 20
MINUTES_LEAST = 5.0
RATE_LEAST = 0.9
REFUSED_MOST = 0.01
SLOPE_GOAL_MB_PER_HOUR = 20.0
MIB = 1 << 20


class Look(msgspec.Struct, frozen=True):
    """One line of the table."""

    minutes: float
    commands: int
    rss_mb: float
    told: Told


class Soaked(msgspec.Struct, frozen=True):
    requests_per_s: float
    minutes: float
    commands: int
    rss_first_mb: float
    rss_most_mb: float
    rss_last_mb: float
    slope_mb_per_hour: float
    slope_mb_per_million_commands: float
    no_verdict: list[str]
    looks: list[Look]


def rss_mb(pid: int) -> float:
    """0 if it is dead: a process that waits to be buried has no pages, another has no entry."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / MIB, 1)


def slope(points: list[tuple[float, float]]) -> float:
    """By least squares; 0 if there are too few points to tell."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def furnish(url: str, tokens: list[str]) -> list[str]:
    """All of a tree is held, by all tenants alike. The scopes at which they will trade.

    The operator's token is the first.
    """
    offers: list[Instruction] = [ChangeGuard(TREE), ChangeFloor(TREE, FLOOR)]
    offers += [OfferResource(f"{TREE}/r{leaf // 32}/g{leaf}") for leaf in range(LEAVES)]
    _ask_all(url, tokens[0], offers)
    for token in tokens[1:]:
        order = PlaceOrder(TREE, FLOOR, HOLDERS_LIMIT)
        _ask_all(url, token, [order] * (LEAVES // TENANTS))
    return [TREE, *(f"{TREE}/r{rack}" for rack in range(LEAVES // 32))]


def _ask_all(url: str, token: str, asked: list[Instruction]) -> None:
    with RawSocket(url, token) as raw:
        for begin in range(0, len(asked), FRAME):
            raw.answers(raw.send(*asked[begin : begin + FRAME]))


def soak(minutes: float, requests_per_s: float, *, as_json: bool) -> Soaked:
    with tempfile.TemporaryDirectory(prefix="laissez-soak-") as name:
        folder = Path(name) / "journal"
        folder.mkdir()
        names = [f"t{number}" for number in range(TENANTS)]
        tokens = [*make_tokens(folder, "operator", *names).values()]
        service = Service(folder, Settings())
        with contextlib.closing(service):
            service.start()
            service.wait_until_ready()
            scopes = furnish(service.url, tokens)
            every_s = max(minutes * 60 / LOOKS, 1.0)
            plan = SoakPlan(service.url, tokens[1:], scopes, requests_per_s, minutes * 60, every_s)
            return _watch(service.pid, plan, as_json)


def _watch(pid: int, plan: SoakPlan, as_json: bool) -> Soaked:
    looks: list[Look] = []
    begun, commands = time.monotonic(), 0
    traders = subprocess.Popen(
        [sys.executable, str(HERE / "soaking.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert traders.stdin is not None and traders.stdout is not None
    traders.stdin.write(msgspec.json.encode(plan))
    traders.stdin.close()
    try:
        for line in traders.stdout:
            told = msgspec.json.decode(line, type=Told)
            commands += told.answered
            look = Look(round((time.monotonic() - begun) / 60, 2), commands, rss_mb(pid), told)
            looks.append(look)
            if not as_json:
                print(_row(look), flush=True)
        status = traders.wait()
    finally:
        traders.kill()
        traders.wait()
        traders.stdout.close()
    return soaked(plan, looks, status, is_alive=is_running(pid))


def soaked(plan: SoakPlan, looks: list[Look], status: int = 0, *, is_alive: bool = True) -> Soaked:
    """All looks, the slope of the second half of them, and why that may say nothing."""
    later = looks[len(looks) // 2 :]
    by_hour = slope([(look.minutes / 60, look.rss_mb) for look in later])
    by_command = slope([(look.commands / 1e6, look.rss_mb) for look in later])
    return Soaked(
        plan.requests_per_s,
        round(plan.seconds / 60, 2),
        looks[-1].commands if looks else 0,
        looks[0].rss_mb if looks else 0.0,
        max((look.rss_mb for look in looks), default=0.0),
        looks[-1].rss_mb if looks else 0.0,
        round(by_hour, 1),
        round(by_command, 1),
        list(_no_verdict(plan, looks, status, is_alive)),
        looks,
    )


def _no_verdict(plan: SoakPlan, looks: list[Look], status: int, is_alive: bool) -> Iterator[str]:
    """Why nothing can be said about growth, if so."""
    if not is_alive or any(look.rss_mb == 0 for look in looks):
        yield "the service ended before the soak did"
    if status != 0:
        yield f"the load ended with status {status}; what it said is above"
    if len(looks) < LOOKS_LEAST:
        yield f"{len(looks)} looks, not {LOOKS_LEAST}: let it run longer"
    if plan.seconds < MINUTES_LEAST * 60:
        yield f"less than {MINUTES_LEAST:g} minutes: what has a bound is still filling up"
    told = [look.told for look in looks]
    due = plan.requests_per_s * plan.seconds
    answered = sum(each.answered for each in told)
    if answered < RATE_LEAST * due:
        yield f"{answered:,} of {due:,.0f} requests were answered: offer fewer a second"
    refused = sum(each.refused + each.unsent for each in told)
    if refused > REFUSED_MOST * due:
        yield f"{refused:,} of {due:,.0f} requests were refused or could not be sent"
    fewest = min((each.connected for each in told), default=0)
    if fewest < len(plan.tokens):
        yield f"{fewest} of {len(plan.tokens)} traders were connected"
    visits = sum(each.visits for each in told)
    failed = sum(each.visits_failed for each in told)
    if visits == 0 or failed > REFUSED_MOST * visits:
        yield f"{failed:,} of {visits:,} visits (connect, subscribe, ask by REST) came to nothing"


HEAD = f"{'minute':>8}{'commands':>12}{'RSS MB':>9}{'p99 ms':>9}{'max ms':>9}{'refused':>9}"


def _row(look: Look) -> str:
    told = look.told
    return (
        f"{look.minutes:>8.2f}{look.commands:>12,}{look.rss_mb:>9,.1f}{told.p99_ms:>9,.1f}"
        f"{told.max_ms:>9,.1f}{told.refused + told.unsent:>9,}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Trade for an hour, and see what grows.")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--requests-per-s", type=float, default=1_800.0, help="of all (1800)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    asked = parser.parse_args()
    if not asked.json:
        print(HEAD)
    found = soak(asked.minutes, asked.requests_per_s, as_json=asked.json)
    is_flat = not found.no_verdict and found.slope_mb_per_hour <= SLOPE_GOAL_MB_PER_HOUR
    if asked.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    elif found.no_verdict:
        print("\n".join(["no verdict:", *(f"  {reason}" for reason in found.no_verdict)]))
    else:
        print(
            f"second half: {found.slope_mb_per_hour:+,.1f} MB an hour, "
            f"{found.slope_mb_per_million_commands:+,.1f} MB a million commands; "
            f"{'flat' if is_flat else 'it grows'} (goal: {SLOPE_GOAL_MB_PER_HOUR:.0f} MB an hour)"
        )
    return 0 if is_flat else 1


if __name__ == "__main__":
    sys.exit(main())
