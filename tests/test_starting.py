"""A start that can't succeed ends, with the reason."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Fault, Settings
from laissez.service import server
from laissez.service.server import (
    BadSettings,
    Running,
    ServerSettings,
    read_settings,
    serve_until_stopped,
    serving,
)

PATIENCE_S = 60


def test_a_door_that_fails_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is raised, instead of a service that doesn't listen."""

    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    is_served = False

    async def run() -> None:
        nonlocal is_served
        async with serving(ServerSettings(tmp_path, port=0)):
            is_served = True

    monkeypatch.setattr(server._Server, "startup", fail)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert not is_served


def test_an_exchange_that_stops_during_the_start_ends_it(tmp_path: Path) -> None:
    """What the start waits for may never come then; the fault is what is told."""
    is_waiting = False

    async def run() -> None:
        async def ready(running: Running) -> None:
            nonlocal is_waiting
            is_waiting = True
            running.exchange.on_failure(Fault("a fault"))
            await asyncio.Event().wait()

        settings = ServerSettings(tmp_path, port=0)
        async with asyncio.timeout(PATIENCE_S) as patience:
            with pytest.raises(Fault, match="a fault"):
                await serve_until_stopped(settings, ready, stop=asyncio.Event())
        assert not patience.expired()

    asyncio.run(run())
    assert is_waiting


def test_what_fails_while_it_starts_is_raised(tmp_path: Path) -> None:
    async def ready(running: Running) -> None:
        raise LookupError(running.url)

    async def run() -> None:
        await serve_until_stopped(ServerSettings(tmp_path, port=0), ready, stop=asyncio.Event())

    with pytest.raises(LookupError, match="http"):
        asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ('{"limits": {"requests_per_s": 0}}', "requests_per_s"),
        ('{"limits": {"request_per_s": 5}}', "request_per_s"),
        ('{"queue_max": -1}', "queue_max"),
        ('{"strangers": 5}', "strangers"),
        ('{"strangers_max": 0}', "strangers_max"),
        ('{"connections_max": "many"}', "connections_max"),
        ("{", "truncated"),
        ("[]", "object"),
    ],
)
def test_a_setting_that_can_not_be_is_refused(given: str, named: str) -> None:
    """A name that is none, and a number out of bounds: a sentence says which."""
    with pytest.raises(BadSettings, match=named) as refused:
        read_settings(given)
    assert "docs/operator.md" in str(refused.value)


def test_every_setting_may_be_given() -> None:
    given = read_settings('{"strangers_max": 5, "queue_max": 7, "limits": {"orders": 9}}')
    assert (given.strangers_max, given.queue_max, given.limits.orders) == (5, 7, 9)
    assert given.connections_max == ServerSettings(Path()).connections_max


def test_settings_out_of_bounds_are_refused_however_they_come(tmp_path: Path) -> None:
    async def run(settings: ServerSettings) -> None:
        async with serving(settings):
            pytest.fail("it serves")

    for settings in (
        ServerSettings(tmp_path, port=0, exchange=Settings(Limits(requests_per_s=0))),
        ServerSettings(tmp_path, port=0, strangers_max=0),
    ):
        with pytest.raises(BadSettings, match=">= 1"):
            asyncio.run(run(settings))


def test_a_child_may_end_with_its_parent(tmp_path: Path) -> None:
    """It serves while somebody holds the other end of its stdin, whatever is written there, and
    ends as by SIGTERM when nobody does any more; what is no pipe is refused."""
    words = [sys.executable, "-m", "laissez.service", str(tmp_path), "--until-stdin-closes"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(b"nothing of interest\n")
        child.stdin.flush()
        assert b"url" in child.stdout.readline()
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(PATIENCE_S) == 0
    refused = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert refused.returncode == 1 and refused.stdout == ""
    assert refused.stderr.startswith("laissez: --until-stdin-closes: that is no pipe")


def test_a_child_with_bad_settings_ends_with_a_sentence(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "laissez.service", str(tmp_path), "--settings", '{"nothing": 1}'],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert child.returncode == 1 and child.stdout == ""
    assert child.stderr.startswith("laissez: these settings can't be used: ")
    assert "`nothing`" in child.stderr and len(child.stderr.splitlines()) == 1
