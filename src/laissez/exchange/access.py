"""Who may speak: tokens, roles and how much of the service one token may use.

A token is 32 random bytes, shown once when it is made; what is stored is its SHA-256, which is
enough for a secret that nobody can guess. `Access` keeps all tokens in memory, by hash, and says
of a secret whose it is. Roles:

    operator    runs the cluster: topology, floors, guards, tokens; sees everything
    tenant      trades in its own name; sees its own
    viewer      changes nothing; sees what the tenant it is for sees, or everything
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import get_args

import msgspec

from laissez.model import Role, TokenInfo

ROLES: tuple[Role, ...] = get_args(Role)
TENANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PREFIX = "lz_"
US_PER_S = 1_000_000


class Token(msgspec.Struct, frozen=True):
    """What is stored of a token; the secret is not part of it."""

    id: str
    hash: str
    role: Role
    tenant: str | None
    created_us: int
    expires_us: int | None = None
    revoked_us: int | None = None
    note: str = ""
    made_by: str = ""
    key: str | None = None

    def is_dead(self, at: int) -> bool:
        expired = self.expires_us is not None and self.expires_us <= at
        return expired or self.revoked_us is not None

    @property
    def info(self) -> TokenInfo:
        return TokenInfo(
            self.id,
            self.role,
            self.tenant,
            self.created_us,
            self.expires_us,
            self.revoked_us,
            self.note,
        )


class BadToken(ValueError):
    """A token that can't be made as asked; the sentence says why."""


def new_token(
    role: Role,
    tenant: str | None,
    *,
    at: int,
    lifetime_us: int | None = None,
    note: str = "",
    made_by: str = "",
    key: str | None = None,
) -> tuple[str, Token]:
    """A secret, to be shown once, and what is kept of it."""
    if role not in ROLES:
        raise BadToken(f"{role!r} is no role; use one of {', '.join(ROLES)}")
    if role == "operator" and tenant is not None:
        raise BadToken("an operator's token is for no tenant; leave the tenant out")
    if role == "tenant" and tenant is None:
        raise BadToken("a tenant's token needs the tenant's name")
    if tenant is not None and not TENANT_NAME.fullmatch(tenant):
        raise BadToken(
            f"{tenant[:80]!r} can't be a tenant; use up to 64 letters, digits, '.', '_' and '-', "
            "beginning with a letter or a digit"
        )
    if lifetime_us is not None and lifetime_us <= 0:
        raise BadToken("a token must live for some time; give a positive lifetime or none")
    secret = PREFIX + secrets.token_urlsafe(32)
    expires = None if lifetime_us is None else at + lifetime_us
    token = Token(
        secrets.token_hex(6), hashed(secret), role, tenant, at, expires, None, note, made_by, key
    )
    return secret, token


def hashed(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


class Limits(msgspec.Struct, frozen=True):
    """What one token may use."""

    requests_per_s: int = 1_000
    burst: int = 2_000
    connections: int = 100


OPERATOR_LIMITS = Limits(requests_per_s=50_000, burst=100_000, connections=1_000)


class Principal:
    """Somebody who has shown a token: who it is, and what it has used of its allowance."""

    __slots__ = (
        "_allowance",
        "_refilled_us",
        "connections",
        "limits",
        "name",
        "role",
        "tenant",
        "token",
    )

    def __init__(self, token: Token, limits: Limits) -> None:
        self.token = token
        self.role: Role = token.role
        self.tenant = token.tenant
        self.name = token.tenant or f"{token.role}:{token.id}"
        self.limits = limits = OPERATOR_LIMITS if token.role == "operator" else limits
        self.connections = 0
        self._allowance = limits.burst * US_PER_S
        self._refilled_us = 0

    @property
    def sees_everything(self) -> bool:
        return self.tenant is None

    def wait_us(self, at: int) -> int:
        """Take one request from the allowance: 0, or how long to wait until there is one."""
        limits = self.limits
        allowance = self._allowance + (at - self._refilled_us) * limits.requests_per_s
        self._refilled_us = at
        if allowance > limits.burst * US_PER_S:
            allowance = limits.burst * US_PER_S
        if allowance < US_PER_S:
            self._allowance = allowance
            return -((allowance - US_PER_S) // limits.requests_per_s)
        self._allowance = allowance - US_PER_S
        return 0


class Access:
    """All tokens, and everybody who has come with one."""

    def __init__(self, tokens: Iterable[Token], limits: Limits) -> None:
        self.limits = limits
        self._principals = {token.hash: Principal(token, limits) for token in tokens}
        self.on_death: Callable[[Principal], None] = lambda principal: None

    def who(self, secret: str, at: int) -> Principal | None:
        """Whose secret this is, None if it is nobody's, expired or revoked."""
        principal = self._principals.get(hashed(secret))
        return None if principal is None or principal.token.is_dead(at) else principal

    def tokens(self) -> list[Token]:
        return sorted((p.token for p in self._principals.values()), key=lambda t: t.created_us)

    def add(self, token: Token) -> None:
        self._principals[token.hash] = Principal(token, self.limits)

    def find(self, token_id: str) -> Token | None:
        return next((token for token in self.tokens() if token.id == token_id), None)

    def replace(self, token: Token) -> None:
        """A token has changed; those who came with it are told if it is dead."""
        principal = self._principals[token.hash]
        principal.token = token
        if token.revoked_us is not None:
            self.on_death(principal)
