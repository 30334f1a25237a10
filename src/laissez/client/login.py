"""Where the exchange is, and the token to go there with.

What is given in the call wins, then the environment (LAISSEZ_URL, LAISSEZ_TOKEN), then the login
file: JSON, readable by its owner alone, at $LAISSEZ_CONFIG or ~/.config/laissez/login.json. A token
from the file is sent only to the address that it was saved for: whoever names another address
must bring another token.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from laissez.client.errors import BadAddress, LoginNeeded

URL_VARIABLE = "LAISSEZ_URL"
TOKEN_VARIABLE = "LAISSEZ_TOKEN"
FILE_VARIABLE = "LAISSEZ_CONFIG"
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Login(msgspec.Struct, frozen=True):
    """An address and a token; the token is never shown."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"Login(url={self.url!r})"

    __str__ = __repr__


def find_login(url: str | None = None, token: str | None = None) -> Login:
    """The login to use, or LoginNeeded with a sentence that says what is missing."""
    url = url or os.environ.get(URL_VARIABLE)
    token = token or os.environ.get(TOKEN_VARIABLE)
    if url and token:
        return checked(url, token)
    saved = read_login()
    if saved is None:
        missing = "address" if not url else "token"
        raise LoginNeeded(
            f"there is no {missing} of an exchange; log in with 'laissez login', or set "
            f"{URL_VARIABLE} and {TOKEN_VARIABLE}"
        )
    if url and checked(url, saved.token).url != saved.url:
        raise LoginNeeded(
            f"the saved token is for {saved.url} and is not sent anywhere else; log in with "
            f"'laissez login {_bare(url)}', or set {TOKEN_VARIABLE}"
        )
    return checked(saved.url, token or saved.token)


def read_login() -> Login | None:
    """The saved login, None if there is none."""
    path = login_file()
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LoginNeeded(f"{path} can't be read ({error.strerror}); log in again") from None
    if mode & OTHERS:
        raise LoginNeeded(f"{path} holds a token and is open to others; chmod 600 it")
    try:
        saved = msgspec.json.decode(content, type=Login)
    except msgspec.DecodeError:
        # What is wrong with it is not told: it may be a piece of the token.
        raise LoginNeeded(f"{path} is not a login; remove it and log in again") from None
    return checked(saved.url, saved.token)


def save_login(url: str, token: str) -> Path:
    """Keep a login for later, readable by its owner alone; the file's path."""
    login = checked(url, token)
    path = login_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A new file that takes the old one's place: nobody who has the old one open can read it.
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(msgspec.json.encode(login))
    fresh.replace(path)
    return path


def forget_login() -> bool:
    """Remove the saved login; False if there was none."""
    try:
        login_file().unlink()
    except FileNotFoundError:
        return False
    return True


def login_file() -> Path:
    named = os.environ.get(FILE_VARIABLE)
    return Path(named) if named else Path.home() / ".config" / "laissez" / "login.json"


def checked(url: str, token: str) -> Login:
    """A login whose address is one and whose token fits into a header."""
    _check_address(url)
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise LoginNeeded("the token has characters that no token has; copy it once more")
    return Login(url.rstrip("/"), token)


def _check_address(url: str) -> None:
    form = "give it as http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadAddress(f"{_bare(url)!r} is no address; {form}") from None
    known = parts.scheme in ("http", "https") and parts.hostname
    if not known or parts.query or parts.fragment or parts.username or parts.password:
        raise BadAddress(f"{_bare(url)!r} is no address; {form}")
    try:
        is_port = parts.port != 0
    except ValueError:
        is_port = False
    if not is_port:
        raise BadAddress(f"{_bare(url)!r} has no port that can be: give a number from 1 to 65535")


def _bare(url: str) -> str:
    """An address without what may be a password in it."""
    return url.rpartition("@")[2][:200]
