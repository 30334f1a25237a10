"""An operator's maps as people write them down: YAML -> a composition, its telemetry, its cluster.

    name: power
    cluster: cluster.yaml       # what there should be; without it, what was seen
    telemetry:
      row_1: {csv: power.csv, column: row_1}
    base: {h100: 2.50}
    maps:
      - {map: power, rows: {h100/east/r1: row_1}}

Everything but the first three fields is as `laissez.inframaps.spec` says. Each name that a map
gives for its telemetry is one of those under `telemetry`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from laissez.documents import BadField, Document, read
from laissez.inframaps import Composition
from laissez.inframaps.spec import CarbonSpec, InfraMapSpec, PowerSpec, build
from laissez.telemetry import BadTelemetry, SourceDescription, Telemetry
from laissez.topology import read_cluster


class InfraMapFileSpec(InfraMapSpec, frozen=True, kw_only=True):
    name: str = "inframap"
    cluster: str | None = None
    telemetry: dict[str, SourceDescription] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for _, named in _named(self):
            if named not in self.telemetry:
                raise BadField("maps", f"there is no telemetry {named!r}; describe its source")


class BuiltMap(Struct, frozen=True):
    """Everything that a runner needs; `at_rest` gives the base prices."""

    composition: Composition
    at_rest: Composition
    telemetry: Telemetry | None
    inventory: dict[str, dict[str, str]] | None


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
        return BuiltMap(build(spec), at_rest, self._telemetry(folder), self._inventory(folder))

    def _telemetry(self, folder: Path) -> Telemetry | None:
        feeds = {}
        for name, source in self.spec.telemetry.items():
            try:
                feeds[name] = source.feed(folder, default=self._safe_default(name))
            except BadTelemetry as error:
                raise self._document.wrong(("telemetry", name), str(error)) from None
        return Telemetry(feeds) if feeds else None

    def _safe_default(self, name: str) -> float:
        """Where the file does not say: what asks for no change of price."""
        for each, named in _named(self.spec):
            if named == name:
                return each.reference if isinstance(each, CarbonSpec) else each.comfortable
        return 0.0

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


def _named(spec: InfraMapSpec) -> Iterator[tuple[PowerSpec | CarbonSpec, str]]:
    """The telemetry that maps name, each with its map."""
    for each in spec.maps:
        if isinstance(each, PowerSpec):
            yield from ((each, name) for name in each.rows.values())
        elif isinstance(each, CarbonSpec):
            yield from ((each, name) for name in each.scopes.values())
