"""Nodes come and go.

A node is known by its path as soon as a resource is added at or under it, or a floor is set on
it. It is forgotten when nothing is known about it any more; a scope that ever had a resource
keeps its place.
"""

from __future__ import annotations

from laissez.market.guards import OFF, GuardedTree
from laissez.market.nodes import Leaf, Scope, hang, unhang
from laissez.market.state import State
from laissez.market.summaries import idle_changed, renew, renew_upwards


def tree_named(state: State, name: str) -> GuardedTree:
    tree = state.trees.get(name)
    if tree is None:
        tree = state.trees[name] = GuardedTree(name)
    return tree


def know_scope(state: State, path: str) -> Leaf | Scope:
    """The node at a path, made known with all its ancestors if it was not."""
    node = state.nodes.get(path)
    if node is not None:
        return node
    above, slash, name = path.rpartition("/")
    if not slash:
        scope = Scope(path, None, tree_named(state, name))
    else:
        parent = know_scope(state, above)
        assert isinstance(parent, Scope)
        scope = Scope(path, parent, parent.tree)
        parent.known_children += 1
    state.nodes[path] = scope
    return scope


def add_leaf(state: State, path: str, attributes: tuple[tuple[str, str], ...]) -> Leaf:
    """Put a new idle leaf at the end of its parent, with whatever was posted at its path before."""
    leaf = attach_leaf(state, path, attributes)
    idle_changed(leaf)
    for level in state.levels.get(leaf.tree.name, {}).values():
        level.leaves_changed(leaf.parent)
    return leaf


def attach_leaf(state: State, path: str, attributes: tuple[tuple[str, str], ...]) -> Leaf:
    """The same, with its summary and those above it still to be worked out."""
    parent = know_scope(state, path.rpartition("/")[0])
    assert isinstance(parent, Scope)
    place_scope(state, parent)
    leaf = Leaf(path, parent)
    leaf.attributes = attributes
    before = state.nodes.get(path)
    if before is None:
        parent.known_children += 1
    elif before.book is not None:
        leaf.book = before.book
        leaf.book.node = leaf
    state.nodes[path] = leaf
    _hang(parent, leaf)
    depths, depth = parent.tree.depths, path.count("/") + 1
    depths[depth] = depths.get(depth, 0) + 1
    return leaf


def remove_leaf(state: State, leaf: Leaf) -> None:
    """Take an idle leaf out; what is posted at its path stays, on a scope without a place."""
    branch, dropped = unhang(leaf)
    depths, depth = leaf.tree.depths, leaf.path.count("/") + 1
    depths[depth] -= 1
    if not depths[depth]:
        del depths[depth]
    renew_upwards(branch)
    for level in state.levels.get(leaf.tree.name, {}).values():
        level.forget(dropped)
        level.leaves_changed(leaf.parent)
    bare = Scope(leaf.path, leaf.parent, leaf.tree)
    if leaf.book is not None:
        bare.book = leaf.book
        bare.book.node = bare
        bare.book.cut(bare.oldest)
        leaf.book = None
    state.nodes[leaf.path] = bare
    forget_if_blank(state, bare)


def forget_if_blank(state: State, node: Leaf | Scope) -> None:
    """Drop a book that holds nothing, and the nodes that were known only because of it.

    A root that has its place keeps its book: the meters of all others rest on that one's.
    """
    if node.book is not None:
        if not node.book.is_blank() or (node.parent is None and node.placed):
            return
        node.book = None
    while isinstance(node, Scope) and not (node.placed or node.known_children or node.book):
        del state.nodes[node.path]
        if node.parent is None:
            if node.tree.guard == OFF:
                del state.trees[node.tree.name]
            return
        node.parent.known_children -= 1
        node = node.parent


def place_scope(state: State, scope: Scope) -> None:
    """Give a scope its place in the tree, after all its siblings, if it has none yet."""
    if scope.placed:
        return
    scope.placed = True
    if scope.parent is None:
        state.roots.append(scope)
        state.book_at(scope)
    else:
        place_scope(state, scope.parent)
        _hang(scope.parent, scope)


def _hang(scope: Scope, child: Leaf | Scope) -> None:
    new_group = hang(scope, child)
    if new_group is not None:
        renew(new_group)
