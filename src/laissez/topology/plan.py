"""What to change in a market so that it has what a file describes, without changing anything.

The trees that the file names are wholly its own: what they have beyond the file is withdrawn.
Other trees are left alone, and so are floors and guards that the file does not mention, since an
operator steers those by hand as well. New attributes are never applied by themselves: a resource
gets them only by being withdrawn and added again, which would end a holding.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from laissez.topology.cluster import Cluster, ClusterResource, Floor, Guard, Tree


class Change(Struct, frozen=True):
    """A resource that is there, but with other attributes than the file gives it."""

    path: str
    present: dict[str, str]
    wanted: dict[str, str]


class GuardChange(Struct, frozen=True):
    """The guards that a tree is to have."""

    tree: str
    guard: Guard


class LevelsOfTree(Struct, frozen=True):
    """What the levels of a tree are to be called."""

    tree: str
    levels: tuple[str, ...]


class ClusterPlan(Struct, frozen=True):
    """The steps, in the order in which they are best taken, then what is left to the operator.

    Withdrawals come first, because nothing can be added below a resource; then guards and floors,
    so that nothing new is ever handed out below its floor.
    """

    withdraw: tuple[str, ...]
    guards: tuple[GuardChange, ...]
    floors: tuple[Floor, ...]
    add: tuple[ClusterResource, ...]
    changed: tuple[Change, ...]
    """Resources with other attributes: withdraw and add again, or leave; the caller decides."""
    blocked: tuple[str, ...]
    """Wanted resources that are not in `add`: other resources are below them, and what was
    a scope once never becomes a resource, also when all below it are withdrawn."""
    unmentioned_floors: tuple[Floor, ...]
    """Floors that stand in the trees of the file, but not in the file; they stay."""
    levels: tuple[LevelsOfTree, ...] = ()
    """Names of levels that the market does not know yet, or knows otherwise."""

    @property
    def does_nothing(self) -> bool:
        return not (self.withdraw or self.levels or self.guards or self.floors or self.add)


def difference(
    cluster: Cluster,
    present: Mapping[str, Mapping[str, str]],
    *,
    floors: Mapping[str, int] | None = None,
    guards: Mapping[str, Guard] | None = None,
    new_trees: Guard | None = None,
    levels: Mapping[str, tuple[str, ...]] | None = None,
) -> ClusterPlan:
    """The plan that leads from what is present to what the file describes.

    `present` has the attributes of each resource by its path; `floors` what was last asked for at
    each scope, in micro-dollars per hour; `guards` those of each tree, and `levels` what its levels
    are called. What is not given is taken to be unset; `new_trees` is the guard that a tree without
    resources and guards is given anyway.
    """
    wanted = {resource.path: resource for tree in cluster.trees for resource in tree.resources}
    names = {tree.name for tree in cluster.trees}
    standing = {scope: floor for scope, floor in (floors or {}).items() if floor}
    standing_guards = {
        tree.name: _guard_that_stands(tree.name, present, guards or {}, new_trees or Guard())
        for tree in cluster.trees
    }
    add, changed, blocked = [], [], []
    scopes = _scopes_in_the_way(cluster, present)
    for path, resource in wanted.items():
        if path in scopes:
            blocked.append(path)
        elif path not in present:
            add.append(resource)
        elif (now := dict(present[path])) != (then := dict(resource.attributes)):
            changed.append(Change(path, now, then))
    mentioned = {floor.scope: floor for tree in cluster.trees for floor in tree.all_floors()}
    return ClusterPlan(
        withdraw=tuple(p for p in present if _root(p) in names and p not in wanted),
        guards=_guards_to_set(cluster.trees, standing_guards),
        floors=tuple(
            floor
            for floor in mentioned.values()
            if floor.micros_per_hour != standing.get(floor.scope, 0)
        ),
        add=tuple(add),
        changed=tuple(changed),
        blocked=tuple(blocked),
        unmentioned_floors=tuple(
            Floor(scope, floor)
            for scope, floor in standing.items()
            if scope not in mentioned and _root(scope) in names
        ),
        levels=tuple(
            LevelsOfTree(tree.name, tree.levels)
            for tree in cluster.trees
            if tree.levels != (levels or {}).get(tree.name, ())
        ),
    )


def _guards_to_set(
    trees: tuple[Tree, ...], present: Mapping[str, Guard]
) -> tuple[GuardChange, ...]:
    """The guards of the file. Notice and commitment that it leaves out stay as they are: who
    forgets to mention them does not take them from tenants who reckon with them."""
    wanted = {
        tree.name: replace(
            tree.guard,
            notice_us=_or_else(tree.guard.notice_us, present[tree.name].notice_us),
            commit_us=_or_else(tree.guard.commit_us, present[tree.name].commit_us),
        )
        for tree in trees
        if tree.guard is not None
    }
    return tuple(
        GuardChange(tree, guard) for tree, guard in wanted.items() if guard != present[tree]
    )


def _or_else(given: int | None, standing: int | None) -> int | None:
    return standing if given is None else given or None


def _guard_that_stands(
    tree: str,
    present: Mapping[str, object],
    guards: Mapping[str, Guard],
    new_trees: Guard,
) -> Guard:
    if tree in guards:
        return guards[tree]
    return Guard() if any(_root(path) == tree for path in present) else new_trees


def _root(path: str) -> str:
    return path.partition("/")[0]


def _scopes_in_the_way(cluster: Cluster, present: Mapping[str, object]) -> set[str]:
    """The scopes of present resources that lie where the file would put resources."""
    depths = {tree.name: len(tree.levels) + 1 for tree in cluster.trees}
    scopes = set()
    for path in present:
        depth = depths.get(_root(path), 0)
        if depth and path.count("/") >= depth:
            scopes.add("/".join(path.split("/")[:depth]))
    return scopes
