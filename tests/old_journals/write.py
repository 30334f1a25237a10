"""Write the journals that every later laissez must open: `python write.py FOLDER`.

Run it with the version whose journals are wanted, on an empty folder (`format-1` was written by
laissez 0.2.0, `rules-1` by the last 0.3.0 before gangs, each with the script as it was then). It
drives a real service through the SDK, so that it needs to know little of the version that it runs
with, and ends it in two ways: `stopped` has a snapshot at its end, `killed` has commands after its
last snapshot, some of them still in the write-ahead log. Beside each journal stands
`expected.json`: what the version that wrote it says of it.
"""

from __future__ import annotations

import json
import lzma
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from laissez import Client, __version__
from laissez.exchange.access import new_token
from laissez.exchange.offline import grant
from laissez.exchange.recovery import recover
from laissez.exchange.sqlite_journal import SqliteJournal

FILES = ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-head")


def start(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    settings = json.dumps({"snapshot_every": 60, "private_webhooks": True})
    service = subprocess.Popen(
        [sys.executable, "-m", "laissez.service", str(folder), "--settings", settings],
        stdout=subprocess.PIPE,
    )
    assert service.stdout is not None
    return service, json.loads(service.stdout.readline())["url"]


def make_operator(folder: Path) -> str:
    journal = SqliteJournal(folder)
    secret, token = new_token("operator", None, at=0, note="the first")
    grant(journal, token)
    journal.close()
    return secret


def run(url: str, operator_secret: str, part: int) -> None:
    """Some of everything: two trees, floors, a guard, a cordon, orders that fill, rest and end."""
    with Client(url, operator_secret) as operator:
        for tree, per_host in (("h100", 4), ("a100", 2)):
            operator.set_floor(tree, 1_500_000)
            for host in range(3):
                for gpu in range(per_host):
                    path = f"{tree}/zone-{part}/h{host}/g{gpu}"
                    operator.add_resource(path, {"host": f"{tree}-{host}", "gpu": str(gpu)})
        operator.set_floor(f"h100/zone-{part}/h1", 2_250_000)
        operator.set_guard(
            "a100",
            rise=2_500,
            fall=500_000,
            hold=timedelta(milliseconds=200),
            window=timedelta(milliseconds=100),
        )
        tenants = {}
        for name in ("ada", "bob", "grace"):
            made = operator.create_token("tenant", tenant=name, note=f"for {name}, part {part}")
            tenants[name] = made.secret
        operator.create_token(
            "tenant", tenant="hopper", lifetime_s=3_600, note="expires", key=f"hopper-{part}"
        )
        spare = operator.create_token("viewer", tenant="ada", note="revoked at once")
        operator.revoke_token(spare.info.token)
        operator.add_webhook("http://127.0.0.1:9/handovers")
        removed = operator.add_webhook("http://127.0.0.1:9/removed")
        operator.remove_webhook(removed.info.webhook)
        with (
            Client(url, tenants["ada"]) as ada,
            Client(url, tenants["bob"]) as bob,
            Client(url, tenants["grace"]) as grace,
        ):
            for number in range(8):
                ada.place("h100", limit=3_000_000 + number * 100_000, order=f"a{part}-{number}")
            for number in range(5):
                bob.place("h100", price=2_500_000, limit=4_000_000, order=f"b{part}-{number}")
            bob.place("a100", limit=2_000_000, expires=timedelta(hours=1))
            grace.place("a100", limit=2_600_000, key=f"grace-{part}")
            grace.place("h100", price=2_700_000, limit=2_800_000, order=f"waits-{part}")
            bob.amend(f"b{part}-4", limit=4_500_000) if bob.orders() else None
            held = [holding.resource for holding in ada.holdings()]
            ada.set_limit(held[0], 2_600_000)
            ada.release(held[-1])
            operator.cordon(f"a100/zone-{part}/h2")
            operator.settle()
            time.sleep(0.3)
            operator.set_floor("a100", 1_000_000)
            grace.place("a100", price=1_800_000, limit=3_300_000, order=f"more-{part}")
            time.sleep(0.3)


def describe(folder: Path) -> dict[str, Any]:
    """What this version says of a journal, in a copy so that nothing of it changes."""
    with tempfile.TemporaryDirectory() as name:
        for file in FILES:
            if (folder / file).exists():
                Path(name, file).write_bytes((folder / file).read_bytes())
        journal = SqliteJournal(Path(name))
        execution = recover(journal, 10_000)
        rights, bookmarks = execution.venue.rights, journal.bookmarks()
        market, now = execution.venue.market, execution.venue.market.now
        described = {
            "laissez": __version__,
            "sequence": execution.sequence,
            "now": now,
            "digest": execution.venue.digest(),
            "cordons": {
                scope: sorted(kept_aside) for scope, kept_aside in execution.venue.cordons.items()
            },
            "resources": {
                path: [market.owner(path), market.limit(path), market.rate(path)]
                for path in market.resources(None)
            },
            "attributes": {path: market.attributes(path) for path in market.resources(None)},
            "bills": {tenant: market.bill(tenant, now) for tenant in market.tenants()},
            "segments": {
                tenant: {
                    path: [list(each) for each in segments]
                    for path, segments in market.segments(tenant, now).items()
                }
                for tenant in market.tenants()
            },
            "orders": {
                tenant: [
                    [order.order, order.scope, order.price, order.limit, order.expires]
                    for order in market.orders(tenant)
                ]
                for tenant in market.tenants()
            },
            "floors": dict(market.floors()),
            "guards": json.loads(msgspec.json.encode(market.guards())),
            "tokens": {
                token.id: json.loads(msgspec.json.encode(token)) for token in rights.tokens.values()
            },
            "webhooks": [
                [json.loads(msgspec.json.encode(webhook)), bookmarks.get(webhook.id, 0)]
                for webhook in rights.webhooks.values()
            ],
            "keys": {key: execution.keys.sequence("grace", key) for key in ("grace-1", "grace-2")},
        }
        journal.close()
        return described


def keep(folder: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for file in FILES:
        if (folder / file).exists():
            (target / f"{file}.xz").write_bytes(lzma.compress((folder / file).read_bytes()))
    text = json.dumps(describe(folder), indent=1, sort_keys=True)
    (target / "expected.json").write_text(text + "\n")


def main() -> None:
    target = Path(sys.argv[1])
    for end in ("stopped", "killed"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "journal")
            operator = make_operator(folder)
            for part in (1, 2):
                is_killed = end == "killed" and part == 2
                service, url = start(folder)
                try:
                    run(url, operator, part)
                finally:
                    service.send_signal(signal.SIGKILL if is_killed else signal.SIGTERM)
                    service.wait()
            keep(folder, target / end)


if __name__ == "__main__":
    main()
