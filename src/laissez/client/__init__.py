"""The SDK: the exchange as an object in a program, blocking (`Client`) or not (`AsyncClient`).

It knows the model and nothing else of the house: what it says and hears is in
`laissez.model.protocol`. It keeps no state of the market, only what it has asked and not been
answered yet.

    login                    where to go, and with which token
    connection <- link       one WebSocket; a line that is mended and asks again
    stream                   many listeners, one subscription
    following                how orders end, as they end
    held, advice, money      a holding as a block; what can be known; amounts
    async_client <- client   the two faces
"""

from laissez.client.advice import Preview
from laissez.client.async_client import AsyncClient
from laissez.client.client import Client, Held
from laissez.client.errors import (
    ConnectionFailed,
    Forbidden,
    LaissezError,
    LoginNeeded,
    NotFilled,
    Refusal,
    Rejected,
    Unauthenticated,
)
from laissez.client.following import OrderEnd
from laissez.client.held import AsyncHeld, Gone
from laissez.client.login import Login, find_login, forget_login, read_login, save_login

__all__ = [
    "AsyncClient",
    "AsyncHeld",
    "Client",
    "ConnectionFailed",
    "Forbidden",
    "Gone",
    "Held",
    "LaissezError",
    "Login",
    "LoginNeeded",
    "NotFilled",
    "OrderEnd",
    "Preview",
    "Refusal",
    "Rejected",
    "Unauthenticated",
    "find_login",
    "forget_login",
    "read_login",
    "save_login",
]
