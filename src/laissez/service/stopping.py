"""When a process that serves is asked to stop: Ctrl-C and SIGTERM.

A shell starts the background jobs of a script with Ctrl-C ignored: it is meant for whoever is in
front. That is left as it is.
"""

from __future__ import annotations

import asyncio
import signal


def stop_on_signals() -> asyncio.Event:
    """An event that is set by the first of them, in the loop that runs."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)
    return stop
