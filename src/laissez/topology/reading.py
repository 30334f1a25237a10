"""Reads the description of a cluster: the file as a whole, and its trees.

A file is read in two passes. The first understands every tree and counts what it describes; the
second multiplies it out, if the count is bearable, and finds what only the whole shows: resources
described twice, floors on scopes that nothing lies under. Problems are collected throughout and
raised together at the end.
"""

import re

import yaml
from msgspec import Struct

from laissez.amounts import basis_points, micros_per_hour, microseconds
from laissez.documents.nodes import Field
from laissez.documents.problems import BadDocument, Problems, shown
from laissez.documents.source import START, compose
from laissez.topology.cluster import Cluster, ClusterResource, Guard, Tree
from laissez.topology.fields import amount, mapping, refuse_unknown, scalar, sequence
from laissez.topology.floors import FloorPattern, read_floors, spread_floors
from laissez.topology.layout import Block, Expanded, expand_block, read_block
from laissez.topology.levels import read_levels
from laissez.topology.names import name_problem

VERSION = 1
DAY_US = 86_400_000_000
RESOURCES_MAX = 2_000_000

FILE_KEYS = ("version", "trees")
TREE_KEYS = ("floor", "guard", "levels", "layout", "floors")
GUARD_KEYS = ("rise", "fall", "hold", "window", "notice", "commit")


class TopologyError(BadDocument):
    """A description of a cluster that can't be used, with everything that is wrong with it."""


class TreeDraft(Struct, frozen=True):
    """A tree as far as it was understood; `whole` is false where a block was not."""

    name: str
    levels: tuple[str, ...]
    floor_micros_per_hour: int | None
    floors: tuple[FloorPattern, ...]
    guard: Guard | None
    blocks: tuple[Block, ...]
    whole: bool


def read_cluster(text: str, *, name: str = "cluster.yaml") -> Cluster:
    """The cluster that a file describes; `TopologyError` says all that is wrong with it."""
    problems = Problems()
    root = compose(text, problems, to_shorten="write ranges like r[1-40]")
    if root is None and not len(problems):
        problems.add(START, "the file is empty; begin with 'version: 1' and 'trees:'")
    drafts = _read_file(root, problems) if root is not None else []
    trees: tuple[Tree, ...] = ()
    if _bearable(drafts, problems):
        trees = tuple(_expand_tree(draft, problems) for draft in drafts)
    if len(problems):
        raise TopologyError(name, text, problems.in_order())
    return Cluster(trees)


def _read_file(root: yaml.Node, problems: Problems) -> list[TreeDraft]:
    fields = mapping(root, "the file", "'version: 1' and 'trees:'", problems)
    if fields is None:
        return []
    if not _version_is_ours(fields.get("version"), root, problems):
        return []  # what another version means by its keys is not for us to judge
    refuse_unknown(fields, FILE_KEYS, problems)
    trees = fields.get("trees")
    if trees is None:
        problems.add(root.start_mark, "the file describes no trees; add 'trees:' with one in it")
        return []
    named = mapping(
        trees.value, "trees", "a type of resource, such as h100:, and below it its keys", problems
    )
    if named == {}:
        problems.add(trees.value.start_mark, "there is no tree here; describe at least one")
    return [_read_tree(field, problems) for field in (named or {}).values()]


def _version_is_ours(field: Field | None, root: yaml.Node, problems: Problems) -> bool:
    """False for another version; one that is missing is a problem, but taken to be ours."""
    if field is None:
        advice = f"begin it with 'version: {VERSION}'"
        problems.add(root.start_mark, f"the file has no version; {advice}")
        return True
    given = scalar(field.value, "version", f"version: {VERSION}", problems)
    if given is None or given == str(VERSION):
        return True
    if re.fullmatch("[0-9]{1,9}", given):
        message = f"this file is version {given}, this laissez reads {VERSION}"
    else:
        message = f"{shown(given)} is no version; write version: {VERSION}"
    problems.add(field.value.start_mark, message)
    return False


def _read_tree(field: Field, problems: Problems) -> TreeDraft:
    wrong = name_problem(field.name)
    if not wrong and ("[" in field.name or "]" in field.name):
        wrong = "has a bracket in it, but a tree can't be a range; write each tree"
    if wrong:
        problems.add(field.key.start_mark, f"tree {shown(field.name)} {wrong}")
    what = f"tree {shown(field.name)}"
    fields = mapping(field.value, what, "levels: and layout: below it", problems)
    if fields is None:
        return TreeDraft(field.name, (), None, (), None, (), whole=False)
    refuse_unknown(fields, TREE_KEYS, problems)
    for needed in ("levels", "layout"):
        if needed not in fields:
            problems.add(field.key.start_mark, f"{what} has no {needed}; add '{needed}:' to it")
    levels = read_levels(fields.get("levels"), problems)
    blocks = _read_layout(fields.get("layout"), levels, problems)
    return TreeDraft(
        field.name,
        levels,
        amount(fields.get("floor"), micros_per_hour, "2.50", problems),
        read_floors(fields.get("floors"), problems),
        _read_guard(fields.get("guard"), problems),
        tuple(block for block in blocks if block is not None),
        whole=bool(levels) and "layout" in fields and None not in blocks,
    )


def _read_layout(
    field: Field | None, levels: tuple[str, ...], problems: Problems
) -> list[Block | None]:
    if field is None:
        return []
    example = "each block of it after a dash: '- {zone: us-east, ...}'"
    nodes = sequence(field.value, "layout", example, problems)
    if nodes is None:
        return [None]
    return [read_block(node, levels, problems) for node in nodes] if levels else []


def _read_guard(field: Field | None, problems: Problems) -> Guard | None:
    if field is None:
        return None
    example = "{rise: 25%, fall: 0.50, hold: 2s, window: 1s}"
    fields = mapping(field.value, "guard", example, problems)
    if fields is None:
        return None
    refuse_unknown(fields, GUARD_KEYS, problems)
    guard = Guard(
        amount(fields.get("rise"), basis_points, "25%", problems),
        amount(fields.get("fall"), micros_per_hour, "0.50", problems),
        amount(fields.get("hold"), microseconds, "2s", problems),
        amount(fields.get("window"), microseconds, "1s", problems),
        amount(fields.get("notice"), microseconds, "30s", problems),
        amount(fields.get("commit"), microseconds, "30s", problems),
    )
    for name in ("notice", "commit"):
        given = getattr(guard, f"{name}_us")
        if given is not None and given > DAY_US:
            message = f"a {name} of more than a day is too long; write {name}: 30s"
            problems.add(fields[name].value.start_mark, message)
    window = fields.get("window")
    if window is None and ("rise" in fields or "fall" in fields):
        problems.add(
            field.key.start_mark, "rise and fall need a window; add window: 1s to the guard"
        )
    elif window is not None and guard.window_us == 0:
        problems.add(window.value.start_mark, "a window can't be empty; write window: 1s")
    return guard


def _bearable(drafts: list[TreeDraft], problems: Problems) -> bool:
    """Is the cluster small enough to be multiplied out?"""
    count = 0
    for draft in drafts:
        for block in draft.blocks:
            count += block.count
            if count > RESOURCES_MAX:
                problems.add(
                    block.node.start_mark,
                    f"with this block the file describes {_counted(count)} resources, but at most "
                    f"{RESOURCES_MAX:,} are possible; shorten a range or split the cluster",
                )
                return False
    return True


def _counted(count: int) -> str:
    return f"{count:,}" if count < 10**15 else "very many"


def _expand_tree(draft: TreeDraft, problems: Problems) -> Tree:
    expanded = [expand_block(draft.name, block, problems) for block in draft.blocks]
    _refuse_doubles(expanded, problems)
    floors = spread_floors(draft.name, draft.floors, expanded, draft.whole, problems)
    resources: tuple[ClusterResource, ...] = ()
    if not len(problems):
        resources = tuple(resource for each in expanded for resource in each.resources)
    return Tree(
        draft.name,
        draft.levels,
        draft.floor_micros_per_hour,
        floors,
        draft.guard,
        resources,
    )


def _refuse_doubles(expanded: list[Expanded], problems: Problems) -> None:
    """Note each block that describes a resource again, with the block that described it first."""
    seen: set[str] = set()
    for at, each in enumerate(expanded):
        again = [resource.path for resource in each.resources if resource.path in seen]
        seen.update(resource.path for resource in each.resources)
        if again:
            first = next(before for before in expanded[:at] if before.has(again[0]))
            others = f" (and {len(again) - 1:,} more)" if len(again) > 1 else ""
            problems.add(
                each.block.node.start_mark,
                f"this block describes {again[0]}{others} again, after the block in line "
                f"{first.block.node.start_mark.line + 1}; take it out of one of them",
            )
