"""The sample at work: put up the cluster, let the tenants trade, show it until told to stop.

The operator's client feeds the scene; a terminal shows it, painted four times a second. On
something that is no terminal, or a simple one, what moves is printed line by line instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from rich.console import Console

from laissez.client import AsyncClient, LaissezError
from laissez.model import ChangeFloor, ChangeGuard, Happened, Instruction, NameLevels, OfferResource
from laissez.sample.scene import MarketScene
from laissez.sample.screen import Painter, clock
from laissez.sample.tenants import MINDS, trade
from laissez.topology import Cluster, read_cluster

FRAMES_PER_S = 4


def sample_cluster() -> Cluster:
    text = files("laissez.sample").joinpath("cluster.yaml").read_text()
    return read_cluster(text, name="cluster.yaml")


async def put_up(operator: AsyncClient, cluster: Cluster) -> None:
    """Offer every resource of the cluster that is not on the market yet."""
    present = {resource.resource for resource in await operator.resources()}
    changes: list[Instruction] = []
    for tree in cluster.trees:
        changes += [ChangeFloor(floor.scope, floor.micros_per_hour) for floor in tree.all_floors()]
        if tree.guard is not None:
            guard = tree.guard
            changes.append(
                ChangeGuard(
                    tree.name,
                    guard.rise_basis_points,
                    guard.fall_micros_per_hour,
                    guard.hold_us,
                    guard.window_us,
                    guard.notice_us,
                    guard.commit_us,
                )
            )
        changes.append(NameLevels(tree.name, tree.levels))
        changes += [
            OfferResource(resource.path, dict(resource.attributes))
            for resource in tree.resources
            if resource.path not in present
        ]
    await operator.send_all(changes)


async def play(
    url: str,
    operator_token: str,
    tenant_tokens: Mapping[str, str],
    directions: Sequence[str],
    *,
    stop: asyncio.Event,
    console: Console,
    seed: int,
    pace: float = 1.0,
) -> None:
    """Run until `stop` is set."""
    async with contextlib.AsyncExitStack() as clients:
        operator = await clients.enter_async_context(AsyncClient(url, operator_token))
        await put_up(operator, sample_cluster())
        tasks = []
        for number, (name, token) in enumerate(tenant_tokens.items()):
            client = await clients.enter_async_context(AsyncClient(url, token))
            tasks.append(asyncio.create_task(trade(client, MINDS[name], seed + number, pace)))
        scene = MarketScene()
        lines = None if _is_painted(console) else console
        tasks.append(asyncio.create_task(_watch(operator, scene, lines)))
        tasks.append(asyncio.create_task(_look(operator, scene)))
        try:
            await _show(scene, directions, stop, console)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(operator: AsyncClient, scene: MarketScene, console: Console | None) -> None:
    """Listen; with a console, also print each line of news as it comes."""
    async for said in operator.events():
        if isinstance(said, Happened):
            before = scene.news[0] if scene.news else None
            scene.hear(said)
            if console is not None:
                _print_news(scene, before, console)


def _print_news(scene: MarketScene, before: tuple[int, str] | None, console: Console) -> None:
    fresh = []
    for line in scene.news:
        if line is before:
            break
        fresh.append(line)
    for at, sentence in reversed(fresh):
        console.print(f"{clock(at)}  {sentence}", highlight=False, soft_wrap=True)


async def _look(operator: AsyncClient, scene: MarketScene) -> None:
    while True:
        with contextlib.suppress(LaissezError):
            await scene.look(operator)
        await asyncio.sleep(1)


async def _show(
    scene: MarketScene, directions: Sequence[str], stop: asyncio.Event, console: Console
) -> None:
    if not _is_painted(console):
        for line in directions:
            console.print(line, highlight=False, soft_wrap=True)
        await stop.wait()
        return
    painter = Painter(console, directions)
    with _keys_not_echoed(), console.screen(hide_cursor=True):
        while not stop.is_set():
            painter.paint(scene)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stop.wait(), 1 / FRAMES_PER_S)


@contextlib.contextmanager
def _keys_not_echoed() -> Iterator[None]:
    """What is typed meanwhile is neither shown in the picture nor left to whoever reads next.

    In the background of a shell it stays as it is: changing it from there would stop us.
    """
    keys = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
    if keys is None or _is_in_background(keys):
        yield
        return
    before = termios.tcgetattr(keys)
    quiet = termios.tcgetattr(keys)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(keys, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(keys, termios.TCSAFLUSH, before)


def _is_in_background(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:  # it is no shell's terminal
        return False


def _is_painted(console: Console) -> bool:
    return console.is_terminal and not console.is_dumb_terminal
