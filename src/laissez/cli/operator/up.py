"""Starting a service: `laissez up`.

The first start on a folder makes its operator's token and shows it, once. With `--sample` there is
also a small cluster, tenants that trade on it, and a screen to watch them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
import msgspec
import uvloop
from rich.console import Console

from laissez.cli.terminal.documents import Started
from laissez.cli.terminal.output import json_option, progress_bar, say, say_json, warn
from laissez.exchange import offline
from laissez.exchange.access import Limits, new_token
from laissez.exchange.journal import Journal
from laissez.exchange.pipeline import Exchange, Settings
from laissez.exchange.sequencing import KeepToken
from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.model import Role
from laissez.sample.play import play
from laissez.sample.tenants import GUEST, MINDS
from laissez.service.server import (
    DEFAULT_PORT,
    BadSettings,
    Running,
    ServerSettings,
    check_settings,
    serve_until_stopped,
)
from laissez.service.stopping import stop_on_signals

US_PER_S = 1_000_000
STOP_WAIT_S = 30
SAMPLE_NOTE = "sample"
SAMPLE_LOG = "service.log"
LOG_LINES_SHOWN = 20


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="laissez-data")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port; 0 for any free one.",
)
@click.option("--tls-certificate", type=click.Path(path_type=Path), help="Certificate, as PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key, as PEM.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of it does TLS.")
@click.option(
    "--requests-per-s",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Allowance of a token.",
)
@click.option(
    "--connections",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Connections of a token.",
)
@click.option(
    "--settle-every-s",
    type=click.IntRange(1),
    default=3_600,
    show_default=True,
    help="Statement period.",
)
@click.option(
    "--allow-private-webhooks",
    is_flag=True,
    help="Webhooks may lead to loopback and to networks of your own.",
)
@click.option("--new-operator-token", is_flag=True, help="Make another one, and show it once.")
@click.option("--sample", is_flag=True, help="With a sample cluster and tenants that trade.")
@click.option("--seed", type=int, help="For the sample's tenants; drawn and shown if left out.")
@json_option
def up(
    folder: Path,
    host: str,
    port: int,
    tls_certificate: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    requests_per_s: int,
    connections: int,
    settle_every_s: int,
    allow_private_webhooks: bool,
    new_operator_token: bool,
    sample: bool,
    seed: int | None,
    as_json: bool,
) -> None:
    """Start the service.

    FOLDER holds the journal: everything that ever happened, and the tokens. It is made if it is
    not there. The service listens on this machine only, unless told otherwise, and stops with
    Ctrl-C or SIGTERM.
    """
    limits = Limits(requests_per_s, 2 * requests_per_s, connections)
    settings = ServerSettings(
        folder,
        host,
        port,
        tls_certificate,
        tls_key,
        behind_proxy,
        Settings(limits, settle_every_s=settle_every_s, private_webhooks=allow_private_webhooks),
    )
    try:
        check_settings(settings)
        if sample and (as_json or settings != _of_a_sample(settings)):
            raise BadSettings(
                "a sample is served on this machine only; leave the other options out"
            )
        if sample:
            _run_sample(settings, int(time.time()) if seed is None else seed)
        else:
            _run(settings, new_operator_token, as_json)
    except BadSettings as bad:
        raise click.UsageError(str(bad)) from None


def _of_a_sample(settings: ServerSettings) -> ServerSettings:
    """What of the settings a sample follows."""
    return ServerSettings(settings.folder, port=settings.port, exchange=settings.exchange)


async def _first_token(exchange: Exchange, another: bool) -> str | None:
    """A new operator's token, if there is none yet or another is wanted.

    It is made when the service listens: whatever stops it before must not swallow the one sight
    of it.
    """
    if not another and any(token.role == "operator" for token in exchange.access.tokens()):
        return None
    note = "made at a start of the service"
    secret, token = new_token("operator", None, at=exchange.clock.now(), note=note)
    await exchange.carry_out(offline.AUTHOR, KeepToken(token))
    return secret


def _make_token(journal: Journal, role: Role, tenant: str | None, note: str) -> str:
    secret, token = new_token(role, tenant, at=int(time.time() * US_PER_S), note=note)
    offline.grant(journal, token)
    return secret


def _run(settings: ServerSettings, another: bool, as_json: bool) -> None:
    async def ready(running: Running) -> None:
        secret = await _first_token(running.exchange, another)
        if as_json:
            say_json(Started(running.url, str(settings.folder), secret))
            return
        say(f"listening on {running.url}, journal in {settings.folder}")
        if secret is not None:
            say(f"the operator's token, shown only now: {secret}")
            say(f"to use it: laissez login {running.url}")

    uvloop.run(_serve(settings, ready, as_json))


async def _serve(
    settings: ServerSettings, ready: Callable[[Running], Awaitable[None]], as_json: bool
) -> None:
    stop = stop_on_signals()
    with contextlib.ExitStack() as until_ready:
        progress = until_ready.enter_context(progress_bar("reading the journal", as_json=as_json))

        async def ready_at_last(running: Running) -> None:
            until_ready.close()
            await ready(running)

        await serve_until_stopped(settings, ready_at_last, stop=stop, progress=progress)


# The sample ------------------------------------------------------------------------------------


def _run_sample(settings: ServerSettings, seed: int) -> None:
    """The service as a process of its own; tenants and screen in this one."""
    journal = SqliteJournal(settings.folder)
    _revoke_sample_tokens(journal)
    operator = _make_token(journal, "operator", None, SAMPLE_NOTE)
    tenants = {name: _make_token(journal, "tenant", name, SAMPLE_NOTE) for name in MINDS}
    guest = _make_token(journal, "tenant", GUEST, SAMPLE_NOTE)
    journal.close()
    # What it says would scroll the picture away.
    log = settings.folder / SAMPLE_LOG
    with log.open("wb") as said:
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "laissez.service",
                str(settings.folder),
                "--port",
                str(settings.port),
                "--settings",
                msgspec.json.encode(settings.exchange).decode(),
                "--until-stdin-closes",
            ],
            stdin=subprocess.PIPE,  # nothing is written: it is there to be closed, however we end
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        )
    try:
        url = _url_of(server)
        uvloop.run(_play(url, operator, tenants, guest, seed))
    finally:
        server.terminate()
        server.wait(STOP_WAIT_S)
        _show_log(log)
    port = "" if settings.port == DEFAULT_PORT else f" --port {settings.port}"
    say(f"what happened is in {settings.folder}; to go on with it:")
    click.echo(f"  {_this_command()} up --sample{port} {settings.folder}")  # in one piece, to copy


def _show_log(log: Path) -> None:
    lines = log.read_text(errors="replace").splitlines()
    if len(lines) > LOG_LINES_SHOWN:
        warn(f"the last of what the service said; all of it is in {log}:")
    for line in lines[-LOG_LINES_SHOWN:]:
        warn(line)


def _revoke_sample_tokens(journal: Journal) -> None:
    """Those of the last time: nobody knows their secrets any more."""
    left = [
        token.id
        for token in offline.rights_of(journal).tokens.values()
        if token.note == SAMPLE_NOTE and token.revoked_us is None
    ]
    offline.end(journal, left, at=int(time.time() * US_PER_S))


def _url_of(server: subprocess.Popen[bytes]) -> str:
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        raise click.ClickException("the service did not start; what it said is above")
    started: dict[str, str] = msgspec.json.decode(line)
    return started["url"]


def _this_command() -> str:
    """How this command was called, as short as it goes."""
    command = Path(sys.argv[0])
    return os.path.relpath(command) if command.is_absolute() else str(command)


async def _play(url: str, operator: str, tenants: dict[str, str], guest: str, seed: int) -> None:
    directions = [
        f"at {url} four tenants trade (seed {seed}); Ctrl-C stops it",
        f"take part as the tenant {GUEST!r}, in another terminal:",
        f"  export LAISSEZ_URL={url} LAISSEZ_TOKEN={guest}",
        f"  {_this_command()} buy h100 --limit 6.00 --wait 1m",
    ]
    await play(
        url,
        operator,
        tenants,
        directions,
        stop=stop_on_signals(),
        console=Console(),
        seed=seed,
    )
