"""The market that the load trades on: 4 zones of 40 racks of 8 hosts of 8, all of it held.

It is set up through the service, in large frames, by the operator and then by each tenant.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from picows import WSFrame, WSListener, WSMsgType, ws_connect

from laissez.bench.trader import FLOOR, HOLDER_LIMIT
from laissez.exchange.access import new_token
from laissez.exchange.offline import grant
from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.model import (
    ChangeFloor,
    ChangeGuard,
    Instruction,
    OfferResource,
    PlaceOrder,
    Request,
    decode_said,
    encode,
)

ZONES, RACKS, HOSTS, GPUS = 4, 40, 8, 8
RESOURCES = ZONES * RACKS * HOSTS * GPUS
FRAME = 500
TREE = "h100"


class LoadTokens(msgspec.Struct, frozen=True):
    operator: str
    tenants: list[str]


def make_tokens(folder: Path, tenants: int) -> LoadTokens:
    operator, token = new_token("operator", None, at=0)
    made = [new_token("tenant", f"t{number}", at=0) for number in range(tenants)]
    secrets = [secret for secret, _ in made]
    journal = SqliteJournal(folder)
    grant(journal, token, *(each for _, each in made))
    journal.close()
    return LoadTokens(operator, secrets)


def paths() -> list[str]:
    return [
        f"{TREE}/z{zone}/r{rack}/h{host}/g{gpu}"
        for zone in range(ZONES)
        for rack in range(RACKS)
        for host in range(HOSTS)
        for gpu in range(GPUS)
    ]


def scopes_of() -> list[str]:
    """Where the load orders: mostly anywhere and in a zone, sometimes in a rack."""
    zones = [f"{TREE}/z{zone}" for zone in range(ZONES)]
    racks = [f"{zone}/r{rack}" for zone in zones for rack in range(RACKS)]
    return [TREE] * 40 + zones * 20 + racks


def fill(url: str, tokens: LoadTokens) -> None:
    """Put the cluster on the market, and let the tenants hold all of it."""
    asyncio.run(_fill(url, tokens))


async def _fill(url: str, tokens: LoadTokens) -> None:
    # No guard, so that orders displace at once: a request then does the most that it can.
    offers: list[Instruction] = [ChangeGuard(TREE), ChangeFloor(TREE, FLOOR)]
    offers += [OfferResource(path) for path in paths()]
    await _send(url, tokens.operator, offers)
    share = -(-RESOURCES // len(tokens.tenants))
    left = RESOURCES
    for number, secret in enumerate(tokens.tenants):
        count = min(share, left)
        left -= count
        limit = HOLDER_LIMIT + number * 1_000
        orders: list[Instruction] = [PlaceOrder(TREE, FLOOR, limit) for _ in range(count)]
        await _send(url, secret, orders)


class _Sender(WSListener):
    def __init__(self) -> None:
        self.answered = asyncio.Event()
        self.waiting = 0

    def on_ws_frame(self, transport: object, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            said = decode_said(frame.get_payload_as_bytes())
            self.waiting -= len(said) if isinstance(said, list) else 1
            if not self.waiting:
                self.answered.set()


async def _send(url: str, secret: str, instructions: list[Instruction]) -> None:
    transport, sender = await ws_connect(
        _Sender,
        url.replace("http", "ws", 1) + "/v1/stream",
        extra_headers={"Authorization": f"Bearer {secret}"},
    )
    assert isinstance(sender, _Sender)
    for start in range(0, len(instructions), FRAME):
        frame = [Request(i, do) for i, do in enumerate(instructions[start : start + FRAME])]
        sender.waiting = len(frame)
        sender.answered.clear()
        transport.send(WSMsgType.TEXT, encode(frame))
        await asyncio.wait_for(sender.answered.wait(), 60)
    transport.disconnect()


class _Keyed(msgspec.Struct):
    """Of what stands in a journal, by whoever wrote it, no more than the key."""

    key: str | None = None


def journaled_keys(folder: Path) -> tuple[dict[int, str | None], int]:
    """The key of every entry in a journal, and in how many groups the load's were written."""
    journal = SqliteJournal(folder, read_only=True)
    keys: dict[int, str | None] = {}
    groups = 0
    for group in journal.groups():
        entries = msgspec.json.decode(group.entries, type=list[_Keyed])
        for sequence, entry in enumerate(entries, group.first):
            keys[sequence] = entry.key
        groups += any(entry.key is not None for entry in entries)
    journal.close()
    return keys, groups
