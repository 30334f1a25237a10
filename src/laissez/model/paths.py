"""Paths: `h100/east/r1/g0` is a resource, and every part of it from the left is a scope over it."""

from __future__ import annotations


def tree_of(path: str) -> str:
    """The tree that a path lies in, which is the kind of resource."""
    return path.partition("/")[0]


def covers(scope: str, path: str) -> bool:
    """The path is the scope itself, or lies under it."""
    return path.startswith(scope) and (len(path) == len(scope) or path[len(scope)] == "/")
