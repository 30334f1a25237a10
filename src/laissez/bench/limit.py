"""The limit of the machine: an exchange without a market, as a process.

It does what any exchange of this kind must do: take the same frames from the same kind of socket,
write them to a journal like ours (the same class, the same writer, a sync for each group, the next
group gathers meanwhile), and send every request back once it is durable. It reads nothing but the
id, knows no tokens, checks nothing and keeps nothing. What the service reaches is a share of what
this reaches on the same machine in the same minute.

Both wait for the same disk, so the share is one of this machine, this disk and this number of
requests under way: a slow disk brings both together, a fast one shows the market. What a request
costs each of them in processor time hardly depends on the disk, and its share is told, too.

`python -m laissez.bench.limit FOLDER` prints one line of JSON when it listens, as the service does.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time
from pathlib import Path

import msgspec
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_create_server

from laissez.exchange.pipeline import GROUP_MAX
from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.exchange.venue import Venue
from laissez.exchange.writer import Writer

SWITCH_INTERVAL_S = 0.0001  # as the service
FRAME_BYTES_MAX = 1 << 20
ID_BEGINS = len(b'{"id":')


class Echo(WSListener):
    """One connection."""

    def __init__(self, groups: Groups) -> None:
        self.out: list[bytes] = []
        self._groups = groups
        self._transport: WSTransport | None = None

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._transport = None

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            self._groups.add(self, frame.get_payload_as_bytes())
        elif frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()

    def flush(self) -> None:
        out, self.out = self.out, []
        if self._transport is not None:
            frame = out[0] if len(out) == 1 else b"[" + b",".join(out) + b"]"
            self._transport.send(WSMsgType.TEXT, frame)


class Groups:
    """What waits becomes a group; one is being written at a time."""

    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(self._loop)
        self._waiting: list[tuple[Echo, bytes]] = []
        self._is_writing = False
        self._is_keeping_up = False

    def add(self, echo: Echo, frame: bytes) -> None:
        self._waiting.append((echo, frame))
        if not self._is_writing and len(self._waiting) == 1:
            self._loop.call_soon(self._write)

    async def close(self) -> None:
        await self._writer.close()

    def _write(self) -> None:
        group, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
        self._is_writing = True
        first = self._journal.head.sequence + 1
        data = b"[" + b",".join([frame for _, frame in group]) + b"]"
        at_us = time.time_ns() // 1_000
        self._writer.do(
            lambda: self._journal.append(first, len(group), at_us, Venue.rules, data),
            lambda error: self._written(error, first, group),
        )

    def _written(
        self, error: BaseException | None, first: int, group: list[tuple[Echo, bytes]]
    ) -> None:
        self._is_writing = False
        if error is not None:
            raise error
        if self._waiting:
            self._write()
        echoes = set()
        for sequence, (echo, frame) in enumerate(group, first):
            request_id = frame[ID_BEGINS : frame.index(b",", ID_BEGINS)]
            echo.out.append(
                b'{"type":"Answer","id":%b,"sequence":%d,"echo":%b}' % (request_id, sequence, frame)
            )
            echoes.add(echo)
        for echo in echoes:
            echo.flush()
        if self._journal.is_upkeep_due() and not self._is_keeping_up:
            self._is_keeping_up = True
            upkeep = self._loop.run_in_executor(None, self._journal.upkeep)
            upkeep.add_done_callback(self._end_upkeep)

    def _end_upkeep(self, upkeep: asyncio.Future[None]) -> None:
        self._is_keeping_up = False


async def serve(folder: Path) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    journal = SqliteJournal(folder)
    groups = Groups(journal)
    server = await ws_create_server(
        lambda request: Echo(groups), "127.0.0.1", 0, max_frame_size=FRAME_BYTES_MAX
    )
    port = server.sockets[0].getsockname()[1]
    print(msgspec.json.encode({"url": f"http://127.0.0.1:{port}"}).decode(), flush=True)
    gc.collect()
    gc.freeze()
    gc.disable()
    await stop.wait()
    server.close()
    await groups.close()
    journal.close()


def main() -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    uvloop.run(serve(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
