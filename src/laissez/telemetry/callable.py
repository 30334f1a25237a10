"""A number from a Python function: "package.module:function", called with the instant.

The function may take its time, so it runs in a thread of its own, one call at a time; who waits
for it can give up, which a thread can't be made to do. The thread does not keep a program from
ending.
"""

import asyncio
import importlib
import math
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from laissez.telemetry.source import BadTelemetry, Reading, Unreadable


class PythonCallable:
    """Modules are also looked for in `folder`, after everywhere else."""

    def __init__(self, name: str, *, folder: Path | None = None) -> None:
        self._name = name
        self._function = _find(name, folder)
        self._is_busy = False

    async def read(self, at_us: int) -> Reading | None:
        if self._is_busy:
            raise Unreadable(f"{self._name} has not returned from an earlier call")
        value = await self._call(at_us)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            kind = type(value).__name__
            raise Unreadable(f"{self._name} returned a {kind}; it must return a number or None")
        if not math.isfinite(value):
            raise Unreadable(f"{self._name} returned {value}, which is no number")
        return Reading(float(value), at_us)

    async def close(self) -> None:
        """There is nothing to let go of."""

    async def _call(self, at_us: int) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def settle(value: Any, failure: str | None) -> None:
            if answer.done():  # nobody waits any more
                return
            if failure is None:
                answer.set_result(value)
            else:
                answer.set_exception(Unreadable(failure))

        def work() -> None:
            value, failure = None, None
            try:
                value = self._function(at_us)
            except BaseException as error:  # also one that would end the program
                failure = f"{self._name} failed: {type(error).__name__}: {error}"
            self._is_busy = False
            with suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(settle, value, failure)

        self._is_busy = True
        threading.Thread(target=work, name=self._name, daemon=True).start()
        return await answer


def _find(name: str, folder: Path | None) -> Callable[[int], Any]:
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise BadTelemetry(f"{name!r} names no function; write package.module:function")
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise BadTelemetry(f"the module {module_name} can't be imported ({what})") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise BadTelemetry(f"the module {module_name} has no function {function_name!r}")
    found: Callable[[int], Any] = function
    return found
