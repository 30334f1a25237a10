"""A Ctrl-C at any moment: the blocking client stops waiting and leaves nothing behind.

The signal is put where Python looks for signals: after every call and at every jump back in the
client's own files, one place after the other, until a run gets through without meeting one.
"""

import contextlib
import dis
import gc
import itertools
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from fake_exchange import NO_ANSWER, TOKEN, FakeExchange
from laissez.client import Client, ConnectionFailed, background, blocking
from laissez.client import client as client_module
from laissez.model import (
    AskOrders,
    CancelOrder,
    Filled,
    Instruction,
    Notice,
    OpenOrder,
    OrderList,
    Placed,
    PlaceOrder,
    Release,
)

OWN_FILES = {module.__file__ for module in (background, blocking, client_module)}
LOOKS_AFTER = ("CALL", "RESUME", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")
PLACES_MAX = 2_000


class Interrupter:
    """Raises KeyboardInterrupt at the n-th place where a signal may be noticed."""

    def __init__(self, place: int) -> None:
        self.is_done = False
        self._left = place
        self._places: dict[CodeType, set[int]] = {}

    def __enter__(self) -> "Interrupter":
        sys.settrace(self._trace)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.is_done or frame.f_code.co_filename not in OWN_FILES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in self._places_in(frame.f_code):
            self._left -= 1
            if self._left == 0:
                self.is_done = True
                raise KeyboardInterrupt
        return self._trace

    def _places_in(self, code: CodeType) -> set[int]:
        if code not in self._places:
            steps = list(dis.get_instructions(code))
            self._places[code] = {
                after.offset
                for before, after in itertools.pairwise(steps)
                if before.opname.startswith(LOOKS_AFTER)
            }
        return self._places[code]


@contextlib.contextmanager
def nothing_left_behind(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No coroutine that nobody awaits, no task that nobody ends, no error that nobody reads."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(each.message) for each in warned] == []
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def interrupt_everywhere(work: Callable[[], object]) -> int:
    """Do something again and again, interrupted one place later each time; how many there are."""
    for place in range(1, PLACES_MAX):
        with Interrupter(place) as interrupter, contextlib.suppress(KeyboardInterrupt):
            work()
        if not interrupter.is_done:
            return place - 1
    raise AssertionError("this never gets through")


def threads_of_clients() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "laissez-client"]


@pytest.fixture(autouse=True)
def ctrl_c_interrupts() -> Iterator[None]:
    """As in a terminal; whoever runs tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_that_wakes_nobody_is_noticed(exchange: FakeExchange) -> None:
    """A Ctrl-C that comes just before the wait, or to another thread, ends the wait soon."""
    exchange.moves = [None, NO_ANSWER]
    others = threads_of_clients()
    too_late: list[bool] = []

    def help_out() -> None:
        too_late.append(True)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with Client(exchange.url, TOKEN, retry_for_s=60) as client:
        client.status()
        (its_thread,) = set(threads_of_clients()) - set(others)

        def interrupt() -> None:
            exchange.wait_until(lambda: len(exchange.requests) == 2)
            time.sleep(0.1)  # by now the other one waits; if not, it is told anyway
            signal.pthread_kill(its_thread.ident or 0, signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        helper = threading.Timer(10, help_out)
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            client.status()
        helper.cancel()
        interrupting.join()
        assert too_late == []
        assert client.status().tenant == "ada"


def test_a_request_can_be_interrupted_anywhere(
    exchange: FakeExchange, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever step it comes in, nothing stays under way, and the client goes on."""
    with nothing_left_behind(caplog), Client(exchange.url, TOKEN) as client:
        assert interrupt_everywhere(client.status) > 10
        assert client.status().tenant == "ada"
        assert client._background._under_way == set()
        assert client._async._link._calls == {}


def test_a_first_request_and_a_close_can_be_interrupted_anywhere(
    exchange: FakeExchange, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread that was about to start or to end does end, and close can be called again."""

    def work() -> None:
        client = Client(exchange.url, TOKEN)
        clients.append(client)
        client.status()
        client.close()

    clients: list[Client] = []
    others = threads_of_clients()
    with nothing_left_behind(caplog):
        assert interrupt_everywhere(work) > 20
        for client in clients:
            client.close()
        for thread in set(threads_of_clients()) - set(others):
            thread.join(10)
    assert [each for each in threads_of_clients() if each not in others] == []


def test_an_iteration_can_be_interrupted_anywhere(
    exchange: FakeExchange, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever step it comes in, nobody goes on listening."""
    exchange.replies[AskOrders] = lambda do: OrderList(
        1, (OpenOrder("ada", "o", "h100", 1, 1, None),)
    )
    with nothing_left_behind(caplog), Client(exchange.url, TOKEN) as client:
        assert interrupt_everywhere(lambda: list(client.follow_orders("o", wait_s=0.001))) > 20
        client.status()
        gc.collect()
        client.status()
        assert client._async._stream._listeners == []
    assert exchange.acted == []


def test_a_block_can_be_interrupted_anywhere(
    exchange: FakeExchange, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever was ordered is cancelled, or given back, also if it was won in that instant."""
    held: set[str] = set()
    client = Client(exchange.url, TOKEN)

    def trade(do: Instruction) -> tuple[Notice, ...]:
        if isinstance(do, PlaceOrder):
            assert do.order is not None
            held.add(f"h100/{do.order}")
            placed = Placed(1, "ada", do.order, "h100", 1, 1, None)
            return (placed, Filled(1, do.order, f"h100/{do.order}", {}))
        if isinstance(do, Release):
            held.discard(do.resource)
        elif isinstance(do, CancelOrder):  # this exchange lets even one be cancelled that has won
            held.discard(f"h100/{do.order}")
        return ()

    exchange.events_of = trade

    def work() -> None:
        with client.hold("h100", limit=1):
            pass

    with nothing_left_behind(caplog), client:
        assert interrupt_everywhere(work) > 20
        gc.collect()
    assert exchange.asked(PlaceOrder) != []
    assert held == set()


def test_a_close_in_between_is_told(
    exchange: FakeExchange, caplog: pytest.LogCaptureFixture
) -> None:
    """Threads that ask while another closes the client get their answer or an error, all of them,
    and nothing is left that nobody awaits."""
    unexpected: list[BaseException] = []

    def ask(client: Client) -> None:
        try:
            while True:
                client.status()
        except ConnectionFailed:
            pass
        except BaseException as error:
            unexpected.append(error)

    with nothing_left_behind(caplog):
        for _ in range(10):
            client = Client(exchange.url, TOKEN)
            asking = [threading.Thread(target=ask, args=(client,)) for _ in range(4)]
            for thread in asking:
                thread.start()
            client.status()
            client.close()
            for thread in asking:
                thread.join(10)
            assert not any(thread.is_alive() for thread in asking)
    assert unexpected == []


def test_a_thread_that_is_gone_is_not_waited_for(exchange: FakeExchange) -> None:
    """A forked process has no copy of the client's thread; who asks there is told to make another
    client."""
    with Client(exchange.url, TOKEN) as client:
        client.status()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            signal.alarm(10)
            try:
                client.status()
            except ConnectionFailed as error:
                os._exit(0 if "make another" in str(error) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.status().tenant == "ada"
