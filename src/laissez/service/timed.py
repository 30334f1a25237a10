"""How long the loop is busy with a coroutine: its steps are timed, and not what it waits for."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from time import monotonic_ns
from typing import Any


@types.coroutine
def in_timed_steps(
    coroutine: Coroutine[Any, Any, None], spend: Callable[[int], object]
) -> Generator[Any, Any, None]:
    """Run it to its end; `spend` is told after each step how many nanoseconds that took.

    Nothing is kept that an exception may lie in: it holds this frame, and would hold itself.
    """
    value: Any = None
    error: BaseException | None = None
    while True:
        begun = monotonic_ns()
        try:
            waits_for = coroutine.send(value) if error is None else coroutine.throw(error)
        except StopIteration:
            return
        finally:
            error = None
            spend(monotonic_ns() - begun)
        try:
            value = yield waits_for
        except BaseException as raised:
            value, error = None, raised
        finally:
            del waits_for
