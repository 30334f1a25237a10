"""Who may speak: tokens and roles.

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

from laissez.exchange.allowance import OPERATOR_LIMITS, Allowance, Limits
from laissez.model import Role, TokenInfo

__all__ = (
    "OPERATOR_LIMITS",
    "Access",
    "BadToken",
    "Limits",
    "Principal",
    "Token",
    "hashed",
    "new_token",
)

ROLES: tuple[Role, ...] = get_args(Role)
TENANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PREFIX = "lz_"
WORK_UNSETTLED_NS = 100_000
BYTES_UNSETTLED = 8_192


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


class Principal:
    """Somebody who has shown a token: who it is, and what it has used of its allowance.

    One allowance is the token's, the other that of all tokens of its tenant; as long as a tenant
    has one token, what that may use is all that counts. What was spent is settled when it has
    become something, because that is asked for at every frame.
    """

    __slots__ = (
        "bytes_spent",
        "is_alone",
        "is_mortal",
        "limits",
        "name",
        "role",
        "tenant",
        "tenant_allowance",
        "token",
        "token_allowance",
        "work_spent_ns",
    )

    def __init__(
        self, token: Token, limits: Limits, tenant_allowance: Allowance | None = None
    ) -> None:
        self.renew(token)
        self.role: Role = token.role
        self.tenant = token.tenant
        self.name = token.tenant or f"{token.role}:{token.id}"
        self.limits = limits = OPERATOR_LIMITS if token.role == "operator" else limits
        self.token_allowance = Allowance(limits)
        self.tenant_allowance = tenant_allowance or Allowance(limits)
        self.is_alone = tenant_allowance is None
        self.bytes_spent = 0
        self.work_spent_ns = 0

    def renew(self, token: Token) -> None:
        """This is what its token is now."""
        self.token = token
        self.is_mortal = token.expires_us is not None or token.revoked_us is not None

    @property
    def sees_everything(self) -> bool:
        return self.tenant is None

    @property
    def connections(self) -> int:
        return self.token_allowance.connections

    def wait_us(self, at: int) -> int:
        """Take one request from the allowance: 0, or how long to wait until there is one."""
        wait_us = self.token_allowance.take_request(at)
        if wait_us or self.is_alone:
            return wait_us
        wait_us = self.tenant_allowance.take_request(at)
        if wait_us:
            self.token_allowance.give_request_back()
        return wait_us

    def connect(self) -> bool:
        """Count one more connection, if there may be one."""
        token, tenant = self.token_allowance, self.tenant_allowance
        if (
            token.connections >= token.connections_most
            or tenant.connections >= tenant.connections_most
        ):
            return False
        token.connections += 1
        tenant.connections += 1
        return True

    def disconnect(self) -> None:
        self.token_allowance.connections -= 1
        self.tenant_allowance.connections -= 1

    def spend(self, now_ns: int, size: int, work_ns: int) -> bool:
        """Pay for bytes that came in and for what was done; True if it has to rest for that."""
        self.bytes_spent += size
        self.work_spent_ns += work_ns
        if self.work_spent_ns > WORK_UNSETTLED_NS or self.bytes_spent > BYTES_UNSETTLED:
            return self.settle(now_ns)
        return False

    def settle(self, now_ns: int) -> bool:
        """Take what was spent from the allowances; True if it has to rest for that."""
        size, work_ns = self.bytes_spent, self.work_spent_ns
        self.bytes_spent = self.work_spent_ns = 0
        self.token_allowance.spend(now_ns, size, work_ns)
        if not self.is_alone:
            self.tenant_allowance.spend(now_ns, size, work_ns)
        return now_ns < self.rests_until

    @property
    def rests_until(self) -> int:
        """Nothing is done for this caller before this instant, by the monotonic clock."""
        until = self.token_allowance.rests_until
        return until if self.is_alone else max(until, self.tenant_allowance.rests_until)


class Access:
    """All tokens, and everybody who has come with one."""

    def __init__(self, tokens: Iterable[Token], limits: Limits) -> None:
        self.limits = limits
        self._tenant_allowances: dict[str, Allowance] = {}
        self._of_tenant: dict[str, list[Principal]] = {}
        self._principals = {token.hash: self._principal(token) for token in tokens}
        self.on_death: Callable[[Principal], None] = lambda principal: None

    def who(self, secret: str, at: int) -> Principal | None:
        """Whose secret this is, None if it is nobody's, expired or revoked."""
        principal = self._principals.get(hashed(secret))
        return None if principal is None or principal.token.is_dead(at) else principal

    def tokens(self) -> list[Token]:
        return sorted((p.token for p in self._principals.values()), key=lambda t: t.created_us)

    def add(self, token: Token) -> None:
        self._principals[token.hash] = self._principal(token)

    def _principal(self, token: Token) -> Principal:
        """Whoever speaks for a tenant draws on what its tokens have together, a viewer too."""
        tenant = token.tenant
        if tenant is None:
            return Principal(token, self.limits)
        others = self._of_tenant.setdefault(tenant, [])
        if not others:
            self._tenant_allowances[tenant] = Allowance(self.limits, self.limits.tokens_worth)
        principal = Principal(token, self.limits, self._tenant_allowances[tenant])
        others.append(principal)
        for each in others:
            each.is_alone = len(others) == 1
        return principal

    def find(self, token_id: str) -> Token | None:
        return next((token for token in self.tokens() if token.id == token_id), None)

    def replace(self, token: Token) -> None:
        """A token has changed; those who came with it are told if it is dead."""
        principal = self._principals[token.hash]
        principal.renew(token)
        if token.revoked_us is not None:
            self.on_death(principal)
