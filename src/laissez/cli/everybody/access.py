"""Logging in and out, and who one is."""

from __future__ import annotations

import ipaddress
import sys
from urllib.parse import urlsplit

import click

from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import show_time
from laissez.cli.terminal.documents import LoggedIn, LoggedOut
from laissez.cli.terminal.output import json_option, say, say_json, table, warn
from laissez.client.errors import LoginNeeded
from laissez.client.login import checked, forget_login, save_login
from laissez.model import Status


@click.command()
@click.argument("url")
@click.option("--token-stdin", is_flag=True, help="Read the token from stdin, without asking.")
@json_option
def login(url: str, token_stdin: bool, as_json: bool) -> None:
    """Remember a service and the token for it.

    URL is where the service listens, such as https://market.example.com:7070. The token is asked
    for, tried, and kept in a file that only you can read. It is not shown while you type or paste
    it; where there is no terminal, it is read from stdin.
    """
    _check_url(url)
    token = _read_token(ask=sys.stdin.isatty() and not token_stdin)
    if not token:
        raise click.UsageError("there was no token on stdin; the operator makes them")
    with connection.connect(url, token) as client:
        status = client.status()
    save_login(url, token)
    if as_json:
        say_json(LoggedIn(url, status.role, status.tenant))
    else:
        say(f"logged in to {url} as {_who(status)}")


def _read_token(*, ask: bool) -> str:
    """What is pasted brings blanks and line ends along; what a token has in it is left alone."""
    if ask:
        told = "Token (not shown as you type or paste it; then press Enter)"
        return str(click.prompt(told, hide_input=True, err=True)).strip()
    return next((line.strip() for line in iter(sys.stdin.readline, "") if line.strip()), "")


@click.command()
@json_option
def logout(as_json: bool) -> None:
    """Forget the service and the token.

    The token itself stays good; 'laissez tokens revoke' ends it.
    """
    forgotten = forget_login()
    if as_json:
        say_json(LoggedOut(forgotten))
    else:
        say("logged out" if forgotten else "you were not logged in")


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Say who you are, and where the market is."""
    with connection.connect() as client:
        told = client.status()
    if as_json:
        say_json(told)
        return
    rows = [
        ("you are", _who(told)),
        ("trees", ", ".join(told.trees) or "none yet"),
        *((f"levels of {tree}", ", ".join(told.levels[tree])) for tree in sorted(told.levels)),
        ("sequence", f"{told.sequence:,}"),
        ("its clock", show_time(told.at, clock.now_us())),
    ]
    made = table("", "", rows=rows)
    made.show_header = False
    say(made)


def _who(status: Status) -> str:
    if status.tenant is None:
        return {"operator": "the operator", "viewer": "a viewer"}.get(status.role, status.role)
    return f"{status.role} {status.tenant}"


def _check_url(url: str) -> None:
    """Before a token is asked for: is this an address, and a safe one?"""
    try:
        checked(url, "token")
    except LoginNeeded as bad:
        raise click.UsageError(str(bad)) from None
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        warn(
            f"laissez: over http everybody on the way to {parts.hostname} can read the token; "
            "use https"
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
