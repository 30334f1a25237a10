"""Measure the service: a server and a load, each a process, on this machine's loopback.

Before the load begins, a cluster of 10,240 resources is set up through the same door, and a tenant
for each connection (at most 200) holds its share of them. Afterwards the journal is read:
`durable` is true only if every acknowledged command stands in it, under the sequence number that
was acknowledged, in a file that is synced at every commit.

Machines differ, and one machine from minute to minute. So beside the traders who wait for answers
the limit of the machine is measured (see `limit`), in the same rounds, in turns of half a second.

The ratio of the two belongs to that machine, that folder's disk and that many requests under way:
where a sync is slow both wait for it and the ratio goes to 1, and where it is quick the market is
what differs. So the ratio of the processor times for a request stands beside it, which depends on
the disk much less, and so do the folder and the number of requests under way.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from laissez.bench.load import LoadPlan, LoadSeen
from laissez.bench.setting import fill, journaled_keys, make_tokens, scopes_of
from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Settings

TENANTS_MAX = 200
OF_THE_LIMIT = (
    "requests_per_s",
    "p50_ms",
    "p99_ms",
    "durable",
    "server_cpu",
    "server_us",
    "client_cpu",
    "disk_syncs_per_s",
)

Say = Callable[[str], None]


class ServiceLoad(msgspec.Struct, frozen=True):
    """How much is asked of the service."""

    connections: int = 200
    requests_per_s: int | None = None
    under_way: int = 280
    seconds: float = 10.0
    warm_up_s: float = 2.0
    seed: int = 1

    @property
    def manner(self) -> str:
        if self.requests_per_s is None:
            return f"{self.under_way} requests under way"
        return f"{self.requests_per_s:,} requests/s offered"


TRADERS = ServiceLoad()
AT_A_RATE = ServiceLoad(requests_per_s=20_000)
TENANTS = ServiceLoad(connections=1_000, requests_per_s=6_500)


class Measured(msgspec.Struct, frozen=True):
    """One round; `server_us` is the processor time that the server used for a request."""

    connections: int
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    accepted: float
    durable: bool
    requests: int
    unanswered: int
    server_cpu: float
    server_us: float
    client_cpu: float
    disk_syncs_per_s: float


def measure(
    load: ServiceLoad, say: Say, folder: Path | None = None, *, beside_limit: bool = False
) -> list[Measured]:
    """Run one load against a fresh service; with `beside_limit`, in turns against the limit of the
    machine, which is the second of the two results."""
    with contextlib.ExitStack() as until_measured:

        def new_folder() -> Path:
            made = tempfile.TemporaryDirectory(prefix="laissez-bench-", dir=folder)
            return Path(until_measured.enter_context(made))

        folders = [new_folder()]
        tokens = make_tokens(folders[0], min(load.connections, TENANTS_MAX))
        servers = [until_measured.enter_context(_running(_start_service(folders[0])))]
        urls = [_url(servers[0])]
        say(f"filling {urls[0]}: 10,240 resources, {len(tokens.tenants)} tenants")
        fill(urls[0], tokens)
        if beside_limit:
            folders.append(new_folder())
            limit = _start("laissez.bench.limit", str(folders[1]))
            servers.append(until_measured.enter_context(_running(limit)))
            urls.append(_url(limit))
        in_turns = ", in turns with the limit of this machine" if beside_limit else ""
        say(f"{load.connections} connections, {load.manner}{in_turns}")
        before = [_cpu_s(server.pid) for server in servers]
        seen = _run_load(load, urls, tokens.tenants, folders[0] / "load.json")
        used = [_cpu_s(server.pid) - at for server, at in zip(servers, before, strict=True)]
        for server in servers:
            server.terminate()
            server.wait()
        return [_measured(load, *each) for each in zip(seen, folders, used, strict=True)]


@contextlib.contextmanager
def _running(server: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A server that has ended when the block has, whatever happens."""
    with server:
        try:
            yield server
        finally:
            server.terminate()


def _start_service(folder: Path) -> subprocess.Popen[bytes]:
    """A server as anybody would start it, but for a token's allowance: a load is one on purpose."""
    settings = Settings(
        limits=Limits(requests_per_s=1_000_000, burst=1_000_000, connections=10_000)
    )
    given = msgspec.json.encode(settings).decode()
    return _start("laissez.service", str(folder), "--settings", given)


def _start(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE)


def _url(server: subprocess.Popen[bytes]) -> str:
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        raise RuntimeError("the server did not start; its own words are above")
    started: dict[str, str] = msgspec.json.decode(line)
    return started["url"]


def _run_load(
    load: ServiceLoad, urls: list[str], tokens: list[str], report: Path
) -> list[LoadSeen]:
    plan = LoadPlan(
        urls,
        tokens,
        load.connections,
        load.requests_per_s,
        load.under_way,
        load.seconds,
        load.warm_up_s,
        scopes_of(),
        load.seed,
        str(report),
    )
    subprocess.run(
        [sys.executable, "-m", "laissez.bench.load"],
        input=msgspec.json.encode(plan),
        check=True,
    )
    return msgspec.json.decode(report.read_bytes(), type=list[LoadSeen])


def _measured(load: ServiceLoad, seen: LoadSeen, folder: Path, server_cpu_s: float) -> Measured:
    keys, groups = journaled_keys(folder)
    durable = all(
        keys.get(sequence) == f"{number}-{request}"
        for number, pairs in seen.acknowledged.items()
        for request, sequence in pairs
    )
    answered = seen.accepted + seen.refused
    seconds = seen.seconds + load.warm_up_s
    return Measured(
        connections=load.connections,
        requests_per_s=round(seen.requests / seen.seconds, 1),
        p50_ms=seen.p50_ms,
        p99_ms=seen.p99_ms,
        p999_ms=seen.p999_ms,
        max_ms=seen.max_ms,
        accepted=round(seen.accepted / max(answered, 1), 4),
        durable=durable and seen.unanswered == 0,
        requests=seen.requests,
        unanswered=seen.unanswered,
        server_cpu=round(server_cpu_s / seconds, 3),
        server_us=round(server_cpu_s * seen.seconds / seconds / max(seen.requests, 1) * 1e6, 1),
        client_cpu=seen.client_cpu,
        disk_syncs_per_s=round(groups / seconds, 1),
    )


def _cpu_s(pid: int) -> float:
    """Processor time that a process has used; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Rounds(msgspec.Struct, frozen=True):
    """Several rounds of one load, each on a service of its own: the one with the median p99.

    Machines are shared and have moods: how far the rounds lie apart is part of the result. `limits`
    has the machine's limit in each of the rounds, or is empty. `folder` is where the journals were,
    and `under_way` is None at a fixed rate.
    """

    measured: list[Measured]
    limits: list[Measured] = []
    under_way: int | None = None
    folder: str = ""

    @property
    def median(self) -> Measured:
        by_p99 = sorted(self.measured, key=lambda each: each.p99_ms)
        median = by_p99[len(by_p99) // 2]
        if not all(each.durable for each in self.measured):
            median = msgspec.structs.replace(median, durable=False)
        return median

    @property
    def ratios(self) -> list[float]:
        """What the service reached, as a share of the limit, round by round."""
        return [
            round(service.requests_per_s / max(limit.requests_per_s, 1), 3)
            for service, limit in zip(self.measured, self.limits, strict=False)
        ]

    @property
    def server_us_ratios(self) -> list[float]:
        """The limit's processor time for a request as a share of the service's, round by round;
        empty where the system does not tell."""
        pairs = [
            (service.server_us, limit.server_us)
            for service, limit in zip(self.measured, self.limits, strict=False)
        ]
        if not all(service > 0 and limit > 0 for service, limit in pairs):
            return []
        return [round(limit / service, 3) for service, limit in pairs]

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            **msgspec.structs.asdict(self.median),
            "folder": self.folder,
            "under_way": self.under_way,
            "p99_ms_of_rounds": [each.p99_ms for each in self.measured],
            "requests_per_s_of_rounds": [each.requests_per_s for each in self.measured],
        }
        if self.limits:
            by_speed = sorted(self.limits, key=lambda each: each.requests_per_s)
            limit = msgspec.structs.asdict(by_speed[(len(by_speed) - 1) // 2])
            found["limit"] = {name: limit[name] for name in OF_THE_LIMIT}
            # Of an even number of rounds the lower of the two in the middle: no figure is better
            # than at least half of the rounds were.
            found["ratio"] = statistics.median_low(self.ratios)
            found["ratio_of_rounds"] = self.ratios
            by_cost = self.server_us_ratios
            found["server_us_ratio"] = statistics.median_low(by_cost) if by_cost else None
            found["server_us_ratio_of_rounds"] = by_cost
        return found


def measure_rounds(load: ServiceLoad, rounds: int, say: Say, folder: Path | None = None) -> Rounds:
    """Rounds of the service; with traders that wait, in turns with the limit.

    At a fixed rate both would do what is offered, and their ratio would say nothing.
    """
    waits = load.requests_per_s is None
    measured = [
        measure(
            msgspec.structs.replace(load, seed=load.seed + number), say, folder, beside_limit=waits
        )
        for number in range(rounds)
    ]
    return Rounds(
        [each[0] for each in measured],
        [each[1] for each in measured if waits],
        load.under_way if waits else None,
        str((folder or Path(tempfile.gettempdir())).resolve()),
    )


def all_loads(
    say: Say, *, rounds: int, seconds: float, seed: int, folder: Path | None = None
) -> dict[str, Any]:
    """The loads of interest: busy traders who wait for answers, the same number at a fixed rate,
    and many tenants at their own pace."""
    traders, at_a_rate, tenants = (
        measure_rounds(
            msgspec.structs.replace(load, seconds=seconds, seed=seed), rounds, say, folder
        ).document()
        for load in (TRADERS, AT_A_RATE, TENANTS)
    )
    return {**traders, "at_a_fixed_rate": at_a_rate, "many_connections": tenants}
