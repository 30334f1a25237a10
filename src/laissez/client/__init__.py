"""The SDK: the exchange as an object in a program, blocking (`Client`) or not (`AsyncClient`).

It knows the model and nothing else of the house: what it says and hears is in
`laissez.model.protocol`. It keeps no state of the market, only what it has asked and not been
answered yet.

    login                    where to go, and with which token
    connection <- link       one WebSocket; a line that is mended and asks again
    stream                   many listeners, one subscription
    bulk                     many changes at once, at the pace that the exchange gives
    following                how orders end, as they end
    held, advice, money      a holding as a block; what can be known; amounts
    async_client             every method, written once
    background <- blocking   a loop in a thread of its own; a method that waits for one there
    client                   the blocking face, made of both
"""

import warnings
from typing import TYPE_CHECKING

from laissez.client.advice import Preview
from laissez.client.async_client import AsyncClient
from laissez.client.client import Client, Held
from laissez.client.errors import (
    BadAddress,
    ChangeRejected,
    ConnectionFailed,
    LaissezError,
    LoginNeeded,
    NotFilled,
    NotPermitted,
    Refusal,
    Unauthenticated,
)
from laissez.client.following import OrderEnd
from laissez.client.held import AsyncHeld
from laissez.client.login import Login, find_login, forget_login, read_login, save_login
from laissez.client.watch import Gone, Summons

__all__ = [
    "AsyncClient",
    "AsyncHeld",
    "BadAddress",
    "ChangeRejected",
    "Client",
    "ConnectionFailed",
    "Gone",
    "Held",
    "LaissezError",
    "Login",
    "LoginNeeded",
    "NotFilled",
    "NotPermitted",
    "OrderEnd",
    "Preview",
    "Refusal",
    "Summons",
    "Unauthenticated",
    "find_login",
    "forget_login",
    "read_login",
    "save_login",
]

if not TYPE_CHECKING:  # a type checker is to find what is misspelt
    # Until 0.2 these errors had the names of an event and of a code, which mean something else.
    _RENAMED = {"Forbidden": NotPermitted, "Rejected": ChangeRejected}

    def __getattr__(name: str) -> type[Refusal]:
        if name not in _RENAMED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = _RENAMED[name]
        message = f"laissez.client.{name} is now laissez.client.{found.__name__}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return found
