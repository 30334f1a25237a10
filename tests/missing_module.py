"""An installation that lacks a package."""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

import pytest


def hide(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """As if the package had never been installed, nor imported."""
    real = PathFinder.find_spec

    def find_spec(name: str, *where: Any) -> ModuleSpec | None:
        return None if name.split(".")[0] == missing else real(name, *where)

    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(PathFinder, "find_spec", find_spec)
