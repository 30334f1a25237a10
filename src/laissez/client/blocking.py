"""The blocking face of an asynchronous object, without writing its methods twice.

`status = blocking(AsyncClient.status)` is a method that does the same in the background and waits
for it: its arguments, its types and its docstring are those of the original, so that there is one
place where they are written. What is not one request and its outcome (iterations, blocks) has its
face written by hand, on `wait_for` and `each_of`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from laissez.client.background import BackgroundLoop
from laissez.client.errors import ConnectionFailed

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")


class BlockingFace(Generic[A]):
    """An object that lives in a background loop, for any number of threads."""

    def __init__(self, original: A, background: BackgroundLoop) -> None:
        self._async = original
        self._background = background

    def wait_for(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine that a function makes in the background, and wait for its outcome."""
        return self._background.run(make)

    def each_of(self, batches: AsyncGenerator[list[T], None]) -> Iterator[T]:
        """What an iteration in the background yields, until it ends or an empty batch comes."""

        async def following() -> list[T]:
            return await anext(batches, [])

        async def end() -> None:
            with contextlib.suppress(RuntimeError):  # its last step was not taken back in time
                await batches.aclose()

        try:
            while batch := self.wait_for(following):
                yield from batch
        finally:
            with contextlib.suppress(ConnectionFailed):
                self._background.start(end)


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingFace[A], P], T]:
    """The same method, which returns when it is done."""
    name = method.__name__

    @functools.wraps(method)
    def wait(self: BlockingFace[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound: Callable[P, Coroutine[Any, Any, T]] = getattr(self._async, name)
        return self.wait_for(lambda: bound(*args, **kwargs))

    wait.__qualname__ = name
    return wait
