"""A process of its own for each measurement, which says how far it is."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_apart(job: Callable[..., Result], *arguments: Any, say: Callable[[str], None]) -> Result:
    """The result of `job(*arguments, say=say)`, worked out in a new interpreter."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sending, job, arguments), daemon=True)
    process.start()
    sending.close()
    results: list[Result] = []
    try:
        while not results:
            is_result, message = receiving.recv()
            if is_result:
                results.append(message)
            else:
                say(message)
    except EOFError:
        process.join()
        raise SystemExit(f"{job.__name__}{arguments} came to a bad end, see above") from None
    process.join()
    return results[0]


def _work(sending: Connection, job: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    result = job(*arguments, say=lambda stage: sending.send((False, stage)))
    sending.send((True, result))
