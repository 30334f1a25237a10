"""Traces of spot capacity: how many nodes a zone had, tick by tick, and at what price.

The format is that of skypilot-org/spot-traces (Wu et al., NSDI 2024): a JSON file with
`metadata.gap_seconds`, the time between two looks; `data`, the number of nodes that could be had
(kind availability) or were still held (kind preemption) at each look; and sometimes `prices`, in
dollars per hour and node. The gap differs from file to file and is never assumed. The folders say
the rest: `KIND/NODES-node/DATE/ZONE_RESOURCE.json`. A file that lies elsewhere is read as
availability of one node.

Dollars and seconds are read as decimals and become integers here, once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import msgspec

from laissez.deadline.world import Zone

US_PER_SECOND = 1_000_000
US_PER_DAY = 86_400 * US_PER_SECOND

_FOLDERS = re.compile(r"(availability|preemption)/([1-9][0-9]{0,5})-node/[^/]+/[^/]+$")
_LARGEST = Decimal(10**9)
"""Seconds or dollars beyond this are a slip of the pen, and would be slow to count."""


class BadTrace(ValueError):
    """A trace that can't be read or used; the sentence says where it is wrong and what to do."""


class SpotTrace(msgspec.Struct, frozen=True):
    """What was seen in one zone; `counts[i]` and the price hold for the whole tick `i`.

    `nodes` is how many were asked for when it was recorded: counts go from none to that.
    """

    name: str
    zone: str
    resource: str
    kind: str
    nodes: int
    tick_us: int
    counts: tuple[int, ...]
    micros_per_hour: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.tick_us <= 0:
            raise BadTrace(
                "`metadata.gap_seconds` must be more than 0; put there the seconds between two "
                "entries of `data`"
            )
        if not self.counts:
            raise BadTrace("`data` has no entries; give one number of nodes for each tick")
        if min(self.counts) < 0:
            raise BadTrace("`data` has a number of nodes below 0; put 0 where there was none")
        if self.micros_per_hour is None:
            return
        if len(self.micros_per_hour) != len(self.counts):
            raise BadTrace(
                f"`prices` has {len(self.micros_per_hour)} entries and `data` has "
                f"{len(self.counts)}; give one price for each, or leave the prices out"
            )
        if min(self.micros_per_hour) <= 0:
            raise BadTrace(
                "`prices` has one that is not above 0; give dollars per hour, or leave them out"
            )

    @property
    def folder(self) -> str:
        """The folder it came from: traces that were recorded together share it."""
        return self.name.rpartition("/")[0]

    @property
    def duration_us(self) -> int:
        return self.tick_us * len(self.counts)

    def first(self, days: int) -> SpotTrace:
        """The first days of it, or all of it if it is shorter."""
        if days < 1:
            raise BadTrace(f"{self.name}: {days} days are too few; keep at least 1")
        ticks = days * US_PER_DAY // self.tick_us
        prices = self.micros_per_hour
        return msgspec.structs.replace(
            self,
            counts=self.counts[:ticks],
            micros_per_hour=None if prices is None else prices[:ticks],
        )

    def is_available(self, nodes: int = 1) -> list[bool]:
        """For each tick, whether so many nodes could be had together."""
        most = max(self.nodes, *self.counts)
        if not 1 <= nodes <= most:
            known = "1 node" if most == 1 else f"1 to {most} nodes"
            raise BadTrace(
                f"{self.name} tells of {known}; it can't tell of {nodes}: ask for fewer, or give "
                "a trace that was recorded with as many"
            )
        return [count >= nodes for count in self.counts]

    def as_zone(self, micros_per_hour: int, nodes: int = 1) -> Zone:
        """A zone where so many nodes together cost this much, whenever they can be had."""
        rates = [micros_per_hour if there else None for there in self.is_available(nodes)]
        return Zone(self.zone, self.tick_us, rates)

    def as_zone_at_its_prices(self, nodes: int = 1) -> Zone:
        """A zone where each of so many nodes costs what it did."""
        if self.micros_per_hour is None:
            raise BadTrace(f"{self.name} has no prices; say what a node costs instead")
        rates = [
            price * nodes if there else None
            for price, there in zip(self.micros_per_hour, self.is_available(nodes), strict=True)
        ]
        return Zone(self.zone, self.tick_us, rates)


class _Metadata(msgspec.Struct):
    gap_seconds: Decimal


class _File(msgspec.Struct):
    metadata: _Metadata
    data: tuple[int, ...]
    prices: tuple[Decimal, ...] | None = None


def load(path: Path) -> SpotTrace:
    """The trace in a file, wherever it lies."""
    try:
        return _trace(path.absolute(), _read(path))
    except BadTrace as error:
        raise BadTrace(f"{path}: {error}") from None


def load_zones(paths: Sequence[Path]) -> list[SpotTrace]:
    """The traces of zones that one job may use, each called by its path as it is given.

    Zones of one name are told apart by as much of their paths as it takes.
    """
    resolved = [path.resolve() for path in paths]
    for at, path in enumerate(resolved):
        first = resolved.index(path)
        if first < at:
            same = "" if paths[first] == paths[at] else f" (it is {paths[first]})"
            raise BadTrace(f"{paths[at]}{same} is given twice; give each trace once")
    traces = [load(path) for path in paths]
    alike: dict[str, list[int]] = {}
    for at, trace in enumerate(traces):
        alike.setdefault(trace.zone, []).append(at)
    zones = {
        at: zone
        for name, places in alike.items()
        for at, zone in zip(
            places,
            _told_apart([resolved[at] for at in places]) if places[1:] else [name],
            strict=True,
        )
    }
    return [
        msgspec.structs.replace(trace, name=str(paths[at]), zone=zones[at])
        for at, trace in enumerate(traces)
    ]


def _told_apart(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of different paths that differ, without the suffix if it isn't needed."""
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        for shown in ([path.with_suffix("") for path in paths], paths):
            ends = ["/".join(path.parts[-depth:]) for path in shown]
            if len(set(ends)) == len(ends):
                return ends
    return [str(path) for path in paths]


def load_all(folder: Path, pattern: str = "availability/1-node/*/*.json") -> list[SpotTrace]:
    """The traces below a folder whose paths fit the pattern, in the order of their paths."""
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise BadTrace(
            f"{folder}: no trace fits {pattern!r}; give the folder that holds `availability` and "
            "`preemption`, or another pattern"
        )
    return [load(path) for path in paths]


def _read(path: Path) -> _File:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise BadTrace(f"can't be read ({error.strerror}); give the path of a trace") from None
    except msgspec.ValidationError as error:
        raise BadTrace(
            f"is not a trace: {error}; it needs `metadata.gap_seconds`, a number, `data`, whole "
            "numbers of nodes, and if at all `prices`, dollars per hour"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadTrace(f"is not JSON: {error}; give a JSON file") from None


def _trace(path: Path, file: _File) -> SpotTrace:
    zone, _, resource = path.stem.partition("_")
    folders = _FOLDERS.search(path.as_posix())
    prices = file.prices
    return SpotTrace(
        name=f"{path.parent.name}/{path.stem}",
        zone=zone,
        resource=resource,
        kind=folders[1] if folders else "availability",
        nodes=int(folders[2]) if folders else 1,
        tick_us=_millionths(file.metadata.gap_seconds, "metadata.gap_seconds"),
        counts=file.data,
        micros_per_hour=None
        if prices is None
        else tuple(_millionths(price, "prices") for price in prices),
    )


def _millionths(amount: Decimal, field: str) -> int:
    if not amount.is_finite() or abs(amount) > _LARGEST:
        raise BadTrace(f"`{field}` has {amount}, which can't be right; give a usual number")
    return round(amount * 1_000_000)
