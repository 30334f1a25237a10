"""The journal's writer: order is kept, whether it works in its thread or in place."""

import asyncio
import threading

import pytest

from laissez.exchange import writer as writing
from laissez.exchange.writer import Writer


def run_jobs(monkeypatch: pytest.MonkeyPatch, taught_by: int) -> tuple[list[str], set[str]]:
    """Three jobs, of which the first leads to the second; what happened, and in which threads."""
    monkeypatch.setattr(writing, "TAUGHT_BY", taught_by)
    log: list[str] = []
    threads: set[str] = set()

    async def main() -> None:
        writer = Writer(asyncio.get_running_loop())
        finished = asyncio.Event()

        def job(name: str) -> None:
            threads.add(threading.current_thread().name)
            log.append(f"do {name}")

        def done_first(error: BaseException | None) -> None:
            writer.do(lambda: job("second"), done_second)
            log.append("first is told")

        def done_second(error: BaseException | None) -> None:
            log.append("second is told")
            finished.set()

        await writer.wait_for(lambda: job("zeroth"))
        writer.do(lambda: job("first"), done_first)
        await asyncio.wait_for(finished.wait(), 10)
        writer.close()

    asyncio.run(main())
    return log, threads


def test_in_place_nothing_overtakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that another's outcome leads to waits until that outcome is complete."""
    log, threads = run_jobs(monkeypatch, taught_by=0)
    assert log == ["do zeroth", "do first", "first is told", "do second", "second is told"]
    assert threads == {"MainThread"}


def test_in_its_thread_order_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the thread jobs may overlap with telling, but they are done and told in order."""
    log, threads = run_jobs(monkeypatch, taught_by=1_000)
    assert [line for line in log if line.startswith("do")] == ["do zeroth", "do first", "do second"]
    assert log.index("first is told") < log.index("second is told")
    assert threads == {"journal"}


def test_from_the_thread_to_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change-over comes when the writer has seen enough fast jobs, and overtakes nobody."""
    log, threads = run_jobs(monkeypatch, taught_by=2)
    assert log == ["do zeroth", "do first", "first is told", "do second", "second is told"]
    assert threads == {"journal", "MainThread"}


def test_a_slow_disk_gets_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where jobs take long, the event loop does not wait for them."""
    monkeypatch.setattr(writing, "IN_PLACE_BELOW_S", 0.0)
    _, threads = run_jobs(monkeypatch, taught_by=0)
    assert threads == {"journal"}


def test_an_error_is_raised_where_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job raises reaches whoever waits for it, and later jobs are done all the same."""
    monkeypatch.setattr(writing, "TAUGHT_BY", 1)

    async def main() -> None:
        writer = Writer(asyncio.get_running_loop())

        def fail() -> None:
            raise OSError("no room")

        for _ in range(3):
            with pytest.raises(OSError, match="no room"):
                await writer.wait_for(fail)
            await writer.wait_for(lambda: None)
        writer.close()

    asyncio.run(main())
