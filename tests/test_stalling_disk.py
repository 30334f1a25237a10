"""A disk that does not answer for a while holds up what has to be written, and nothing else."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.model import Answer, AskOrders, AskStatus, OfferResource, OrderList, PlaceOrder, Reply
from raw_websocket import RawSocket
from serving import Served, served
from test_socket import wait_until

PATIENCE_S = 60


class Disk:
    """While it stalls, what is to be written waits, in whatever thread that may be."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.waits = threading.Event()

    def stall(self) -> None:
        self.goes_on.clear()

    def write(self) -> None:
        if not self.goes_on.is_set():
            self.waits.set()
            assert self.goes_on.wait(PATIENCE_S)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    append = SqliteJournal.append

    def slowly(journal: SqliteJournal, *arguments: Any) -> None:
        disk.write()
        append(journal, *arguments)

    monkeypatch.setattr(SqliteJournal, "append", slowly)
    yield disk
    disk.goes_on.set()


@pytest.fixture
def exchange(tmp_path: Path, disk: Disk) -> Iterator[Served]:
    with served(tmp_path, "operator", "ada", "bob") as running:
        with RawSocket(running.url, running.secrets["operator"]) as operator:
            operator.ask(OfferResource("h100/a/g0"))
        yield running
        disk.goes_on.set()


def test_questions_and_health_are_answered_while_the_disk_stalls(
    exchange: Served, disk: Disk
) -> None:
    """Through both doors, also for whoever waits for a change of its own; the change is answered
    when it is written, and not before."""
    secrets = exchange.secrets
    with (
        RawSocket(exchange.url, secrets["ada"]) as ada,
        RawSocket(exchange.url, secrets["bob"]) as bob,
        closing(http.client.HTTPConnection(exchange.url.removeprefix("http://"))) as web,
    ):
        disk.stall()
        (order,) = ada.send(PlaceOrder("h100", 1, 1, "mine"))
        wait_until(disk.waits.is_set)
        for client in (bob, ada):
            assert isinstance(client.ask(AskStatus()), Reply)
        orders = ada.ask(AskOrders())
        assert isinstance(orders, Reply) and isinstance(orders.told, OrderList)
        assert orders.told.orders == (), "what is not written has not happened"
        for path in ("/v1/health", "/v1/status"):
            web.request("GET", path, headers={"Authorization": f"Bearer {secrets['bob']}"})
            with web.getresponse() as response:
                assert (response.status, bool(response.read())) == (200, True)
        disk.goes_on.set()
        assert isinstance(ada.answers([order])[order], Answer)
