"""When a process that serves is asked to stop: Ctrl-C and SIGTERM, or the end of who started it.

A shell starts the background jobs of a script with Ctrl-C ignored: it is meant for whoever is in
front. That is left as it is.

Whoever is killed, or whose terminal is closed, can't stop what it has started. But its end of a
pipe closes with it, however it ends, and on every system: so a service may have one as its stdin.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat

READ_MAX = 4_096


def stop_on_signals() -> asyncio.Event:
    """An event that is set by the first of them, in the loop that runs."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)
    return stop


def stop_when_closed(pipe: int, stop: asyncio.Event) -> None:
    """Stop when nobody holds the other end of a pipe any more. What comes through it is of no
    interest; anything else than a pipe is refused, for it may never end, or have ended already."""
    if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
        raise ValueError("that is no pipe; start it with one as its stdin")
    loop = asyncio.get_running_loop()

    def look() -> None:
        if not os.read(pipe, READ_MAX):
            loop.remove_reader(pipe)
            stop.set()

    loop.add_reader(pipe, look)
