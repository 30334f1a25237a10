"""The journal's writer: order is kept, and nothing is done in the event loop."""

import asyncio
import threading
import time

import pytest

from laissez.exchange.writer import Writer

PATIENCE_S = 20


def test_order_is_kept() -> None:
    """Jobs are done one after the other in a thread, and told of in that order in the loop."""
    log: list[str] = []
    threads: set[str] = set()

    async def main() -> None:
        writer = Writer(asyncio.get_running_loop())
        finished = asyncio.Event()

        def write(name: str) -> None:
            threads.add(threading.current_thread().name)
            log.append(f"do {name}")

        def told_first(error: BaseException | None) -> None:
            assert threading.current_thread() is threading.main_thread()
            writer.do(lambda: write("third"), told_third)
            log.append("first is told")

        def told_third(error: BaseException | None) -> None:
            log.append("third is told")
            finished.set()

        writer.do(lambda: write("first"), told_first)
        writer.do(lambda: write("second"), lambda error: log.append("second is told"))
        await asyncio.wait_for(finished.wait(), PATIENCE_S)
        await writer.close()

    asyncio.run(main())
    assert [line for line in log if line.startswith("do")] == ["do first", "do second", "do third"]
    assert [line for line in log if line.endswith("told")] == [
        "first is told",
        "second is told",
        "third is told",
    ]
    assert threads == {"journal"}


def test_a_disk_that_stalls_holds_up_nobody_else() -> None:
    """However many jobs were fast before, one that takes long leaves the event loop to others."""

    async def main() -> None:
        writer = Writer(asyncio.get_running_loop())
        for _ in range(200):
            await writer.wait_for(lambda: None)
        let_go = threading.Event()

        def stall() -> None:
            assert let_go.wait(PATIENCE_S)

        stalled = asyncio.create_task(writer.wait_for(stall))
        turns = 0
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            await asyncio.sleep(0)
            turns += 1
        assert turns > 10
        assert not stalled.done()
        let_go.set()
        await stalled
        await writer.close()

    asyncio.run(main())


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    """What a job raises reaches whoever waits for it, and later jobs are done all the same."""

    async def main() -> None:
        writer = Writer(asyncio.get_running_loop())

        def fail() -> None:
            raise OSError("no room")

        for _ in range(3):
            with pytest.raises(OSError, match="no room"):
                await writer.wait_for(fail)
            await writer.wait_for(lambda: None)
        await writer.close()

    asyncio.run(main())
