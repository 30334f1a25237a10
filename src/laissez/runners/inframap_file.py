"""An operator's maps as people write them down: YAML -> a composition, its telemetry, its cluster.

    name: power
    cluster: cluster.yaml       # what there should be; without it, what was seen
    telemetry:
      row_1: {csv: power.csv, column: row_1}
    base: {h100: 2.50}
    maps:
      - {map: power, rows: {h100/east/r1: row_1}}

Everything but the first three fields is as `laissez.inframaps.spec` says. Each name that a map
gives for its telemetry is one of those under `telemetry`. The live service's time is the
calendar's, so maintenance has instants, and nothing that counts from a beginning; and it needs the
cluster's file, because what a window took out is nowhere else to be found after a restart.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from laissez.amounts import BadAmount
from laissez.documents import BadField, Document, read
from laissez.inframaps import Composition
from laissez.inframaps.instants import calendar_us
from laissez.inframaps.spec import (
    CarbonSpec,
    FieldPath,
    InfraMapSpec,
    MaintenanceSpec,
    PowerSpec,
    build,
)
from laissez.telemetry import BadTelemetry, Feed, SourceDescription, Telemetry
from laissez.topology import read_cluster

POWER_MOST = 1.5
"""A row may draw more than its capacity for a while; 72 is a percentage that should be 0.72."""


class InfraMapFileSpec(InfraMapSpec, frozen=True, kw_only=True):
    name: str = "inframap"
    cluster: str | None = None
    telemetry: dict[str, SourceDescription] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for number, each in enumerate(self.maps):
            place = ("maps", number)
            if isinstance(each, MaintenanceSpec):
                self._check_maintenance(each, place)
            elif isinstance(each, PowerSpec | CarbonSpec):
                field, meters = _meters(each)
                for scope, name in meters.items():
                    if name not in self.telemetry:
                        sentence = f"there is no telemetry {name!r}; describe its source"
                        raise BadField((*place, field, scope), sentence)

    def _check_maintenance(self, maintenance: MaintenanceSpec, place: FieldPath) -> None:
        for number, window in enumerate(maintenance.windows):
            for when, text in (("opens", window.opens), ("closes", window.closes)):
                try:
                    calendar_us(text)
                except BadAmount as error:
                    sentence = f"{text!r} {error}"
                    raise BadField((*place, "windows", number, when), sentence) from None
        if self.cluster is None:
            raise BadField(
                place,
                "after a window its resources are offered again, and only the cluster's file says "
                "which these are; name it with 'cluster'",
            )


class BuiltMap(Struct, frozen=True):
    """Everything that a runner needs; `at_rest` gives the base prices, `scopes` are all that the
    file names."""

    composition: Composition
    at_rest: Composition
    telemetry: Telemetry | None
    inventory: dict[str, dict[str, str]] | None
    scopes: tuple[str, ...] = ()


class InfraMapFile:
    """A file that was read: what it says, and what can be made of it."""

    def __init__(self, document: Document[InfraMapFileSpec]) -> None:
        self.spec = document.value
        self._document = document

    def build(self, folder: Path) -> BuiltMap:
        """Paths in the file are relative to `folder`. What can't be built is a BadDocument, a
        cluster file that can't be read a TopologyError."""
        spec = self.spec
        at_rest = Composition(spec.base_prices(), spec.cost, (), deadband=0.0)
        scopes = tuple(dict.fromkeys(scope for _, scope in spec.scopes_named()))
        return BuiltMap(
            build(spec), at_rest, self._telemetry(folder), self._inventory(folder), scopes
        )

    def _telemetry(self, folder: Path) -> Telemetry | None:
        feeds = {}
        for name, source in self.spec.telemetry.items():
            try:
                feeds[name] = self._feed(name, source, folder)
            except BadTelemetry as error:
                raise self._document.wrong(("telemetry", name), str(error)) from None
        return Telemetry(feeds) if feeds else None

    def _feed(self, name: str, source: SourceDescription, folder: Path) -> Feed:
        """Where the file does not say, what asks for no change of price is safe, and what can be
        is believable."""
        for each in self.spec.maps:
            if isinstance(each, PowerSpec) and name in each.rows.values():
                return source.feed(folder, default=each.comfortable, least=0.0, most=POWER_MOST)
            if isinstance(each, CarbonSpec) and name in each.scopes.values():
                return source.feed(folder, default=each.reference, least=0.0)
        return source.feed(folder, default=0.0)

    def _inventory(self, folder: Path) -> dict[str, dict[str, str]] | None:
        if self.spec.cluster is None:
            return None
        path = folder / self.spec.cluster
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = f"{path} can't be read ({error}); name the cluster's file"
            raise self._document.wrong("$.cluster", reason) from None
        cluster = read_cluster(text, name=str(path))
        return {
            resource.path: dict(resource.attributes)
            for tree in cluster.trees
            for resource in tree.resources
        }


def read_inframap(text: str, *, file_name: str) -> InfraMapFile:
    """What a file says, or BadDocument with everything that is wrong with it."""
    return InfraMapFile(read(text, InfraMapFileSpec, file_name=file_name))


def _meters(spec: PowerSpec | CarbonSpec) -> tuple[str, dict[str, str]]:
    """The field that names telemetry by scope, and what it says."""
    return ("rows", spec.rows) if isinstance(spec, PowerSpec) else ("scopes", spec.scopes)
