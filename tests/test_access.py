"""Tokens, roles, allowances, and the office that makes and revokes tokens."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.exchange.access import (
    OPERATOR_LIMITS,
    Access,
    BadToken,
    Limits,
    Principal,
    Token,
    hashed,
    new_token,
)
from laissez.exchange.admission import check_allowance, check_instruction
from laissez.exchange.journal import Journal
from laissez.exchange.office import Office
from laissez.exchange.pipeline import Exchange
from laissez.model import (
    AddWebhook,
    Administered,
    AskTokens,
    CancelOrder,
    CloseStatements,
    CreateToken,
    Instruction,
    OfferResource,
    PlaceOrder,
    Refused,
    RevokeToken,
    Role,
    ServiceCode,
    TokenCreated,
    TokenList,
    TokenRevoked,
    WebhookAdded,
)

SECOND_US = 1_000_000


def principal(role: Role = "tenant", tenant: str | None = "ada", **limits: int) -> Principal:
    _, token = new_token(role, tenant, at=0)
    return Principal(token, Limits(**limits))


# --- tokens -------------------------------------------------------------------------------------


def test_a_secret_is_random_and_stored_as_a_hash_only() -> None:
    """No two alike, 256 bits each, and nothing that is kept or shown contains one."""
    made = [new_token("tenant", "ada", at=5) for _ in range(200)]
    assert len({secret for secret, _ in made}) == len({token.id for _, token in made}) == 200
    for secret, token in made:
        assert secret.startswith("lz_") and len(secret) == 3 + 43
        assert token.hash == hashed(secret)
        random_part = secret.removeprefix("lz_").encode()
        assert random_part not in msgspec.json.encode(token)
        assert random_part not in msgspec.json.encode(token.info)
        assert token.hash not in msgspec.json.encode(token.info).decode()


def test_whose_secret_it_is() -> None:
    """The very secret is known, and nothing like it."""
    (ada, ada_token), (bob, bob_token) = (new_token("tenant", n, at=0) for n in ("ada", "bob"))
    access = Access([ada_token], Limits())
    access.add(bob_token)
    for secret, name in ((ada, "ada"), (bob, "bob")):
        who = access.who(secret, 0)
        assert who is not None and (who.tenant, who.name, who.role) == (name, name, "tenant")
    for wrong in ("", "lz_", ada[:-1], ada + "x", ada.upper(), ada_token.hash, ada_token.id):
        assert access.who(wrong, 0) is None


def test_a_token_dies_at_its_instant() -> None:
    """Alive one microsecond before it expires, dead when it does."""
    secret, token = new_token("tenant", "ada", at=100, lifetime_us=50)
    access = Access([token], Limits())
    assert access.who(secret, 149) is not None
    assert access.who(secret, 150) is None
    caller = access.who(secret, 149)
    assert caller is not None
    assert check_allowance(caller, 1, 149) is None
    refused = check_allowance(caller, 1, 150)
    assert refused is not None and refused.code == ServiceCode.UNAUTHENTICATED


def test_a_revoked_token_is_dead_for_everybody_who_has_it() -> None:
    """Also for those who came with it before, and they are told; others are not."""
    secret, token = new_token("tenant", "ada", at=0)
    other_secret, other = new_token("tenant", "ada", at=0)
    access = Access([token, other], Limits())
    told: list[Principal] = []
    access.on_death = told.append
    caller = access.who(secret, 10)
    assert caller is not None
    access.replace(msgspec.structs.replace(token, note="still alive"))
    assert told == []
    access.replace(msgspec.structs.replace(token, revoked_us=10))
    assert told == [caller]
    assert access.who(secret, 10) is None
    assert check_allowance(caller, 1, 10) is not None
    assert access.who(other_secret, 10) is not None


@pytest.mark.parametrize("name", ["a", "A9", "team-a", "team.b_c", "0", "x" * 64])
def test_names_that_a_tenant_may_have(name: str) -> None:
    """Letters, digits, dots, underscores and dashes."""
    assert new_token("tenant", name, at=0)[1].tenant == name
    assert new_token("viewer", name, at=0)[1].tenant == name


@pytest.mark.parametrize(
    "name",
    ["", "-a", ".a", "_a", "a/b", "a:b", "a b", "a\n", "\na", "a\0b", "é", "x" * 65, "a'b", "*"],
)
def test_names_that_no_tenant_may_have(name: str) -> None:
    """Nothing that means something elsewhere: a path, an operator, a separator, a quote."""
    roles: tuple[Role, ...] = ("tenant", "viewer")
    for role in roles:
        with pytest.raises(BadToken, match="can't be a tenant"):
            new_token(role, name, at=0)


def test_tokens_that_make_no_sense() -> None:
    """Each is refused with a sentence of its own."""
    bad: list[tuple[Callable[[], tuple[str, Token]], str]] = [
        (lambda: new_token("king", None, at=0), "no role"),  # type: ignore[arg-type]
        (lambda: new_token("operator", "ada", at=0), "no tenant"),
        (lambda: new_token("tenant", None, at=0), "needs the tenant's name"),
        (lambda: new_token("tenant", "ada", at=0, lifetime_us=0), "positive lifetime"),
        (lambda: new_token("tenant", "ada", at=0, lifetime_us=-1), "positive lifetime"),
    ]
    for make, sentence in bad:
        with pytest.raises(BadToken, match=sentence):
            make()


def test_who_sees_everything() -> None:
    """The operator, and a viewer that is for no tenant; each acts under a name of its own."""
    operator, viewer = principal("operator", None), principal("viewer", None)
    ada, of_ada = principal("tenant", "ada"), principal("viewer", "ada")
    assert [each.sees_everything for each in (operator, viewer, ada, of_ada)] == [
        True,
        True,
        False,
        False,
    ]
    assert operator.name == f"operator:{operator.token.id}"
    assert viewer.name == f"viewer:{viewer.token.id}"
    assert principal("operator", None, burst=1).limits == OPERATOR_LIMITS


def test_who_may_change_what() -> None:
    """Tenants trade, operators run the cluster, viewers change nothing."""
    trade: list[Instruction] = [PlaceOrder("h", 1), CancelOrder("o-1")]
    run: list[Instruction] = [OfferResource("h/1"), CloseStatements()]
    may: dict[str, list[Instruction]] = {"tenant": trade, "operator": run, "viewer": []}
    for caller in (principal(), principal("operator", None), principal("viewer", "ada")):
        for do in trade + run:
            refused = check_instruction(caller, 7, do, None)
            if do in may[caller.role]:
                assert refused is None
            else:
                assert refused is not None
                assert (refused.id, refused.code) == (7, ServiceCode.FORBIDDEN)


# --- allowances ---------------------------------------------------------------------------------

rates, bursts = st.integers(1, 3_000_000), st.integers(1, 20)
gaps = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2_500_000)), min_size=1, max_size=60)


@given(rates, bursts, st.integers(0, 10**15), gaps)
def test_an_allowance_is_exact(rate: int, burst: int, begin: int, gaps: list[int]) -> None:
    """Never more than the burst and what has grown since, in any window; and never less."""
    caller = principal(requests_per_s=rate, burst=burst)
    at, taken, full = begin, [], True
    left = burst * SECOND_US
    for gap in gaps:
        at += gap
        left = min(burst * SECOND_US, left + (0 if full else gap * rate))
        full = False
        wait = caller.wait_us(at)
        assert (wait == 0) == (left >= SECOND_US)
        if wait == 0:
            left -= SECOND_US
            taken.append(at)
        else:
            assert left + wait * rate >= SECOND_US > left + (wait - 1) * rate
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            count, elapsed = last - first + 1, taken[last] - taken[first]
            assert count * SECOND_US <= burst * SECOND_US + elapsed * rate


def test_a_refusal_says_when_to_come_back() -> None:
    """In whole milliseconds, rounded up: come back then, and it is let through."""
    caller = principal(requests_per_s=3, burst=1)
    assert check_allowance(caller, 1, 0) is None
    refused = check_allowance(caller, 9, 0)
    assert refused is not None
    assert (refused.id, refused.code) == (9, ServiceCode.TOO_MANY_REQUESTS)
    assert refused.retry_after_ms == 334
    assert check_allowance(caller, 9, 333_333) is not None
    assert check_allowance(caller, 9, 334_000) is None


# --- the office ---------------------------------------------------------------------------------


def in_office(
    folder: Path, scene: Callable[[Exchange, Office, Principal], Coroutine[None, None, None]]
) -> None:
    async def run() -> None:
        exchange = Exchange(Journal(folder))
        try:
            await scene(exchange, Office(exchange), principal("operator", None))
        finally:
            await exchange.close()

    asyncio.run(run())


def made(outcome: Administered | Refused) -> TokenCreated:
    assert isinstance(outcome, TokenCreated)
    return outcome


def test_no_file_contains_a_secret(tmp_path: Path) -> None:
    """Not the journal, not its log, while it runs and after; the hash is there."""
    shown: list[str] = []

    async def scene(exchange: Exchange, office: Office, operator: Principal) -> None:
        for number in range(3):
            do = CreateToken("tenant", "ada", note=f"number {number}")
            token = made(await office.handle(operator, number, do, f"key-{number}"))
            shown.append(token.secret)
            assert exchange.authenticate(token.secret) is not None
        check_files()

    def check_files() -> None:
        data = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        for secret in shown:
            assert secret.removeprefix("lz_").encode() not in data
            assert hashed(secret).encode() in data

    in_office(tmp_path, scene)
    check_files()

    async def after_a_restart(exchange: Exchange, office: Office, operator: Principal) -> None:
        assert all(exchange.authenticate(secret) for secret in shown)

    in_office(tmp_path, after_a_restart)


def test_a_token_is_made_once_with_a_key(tmp_path: Path) -> None:
    """A retry, even one that comes while the first is being written, makes no second token."""

    async def scene(exchange: Exchange, office: Office, operator: Principal) -> None:
        do = CreateToken("tenant", "ada")
        first, second = await asyncio.gather(
            office.handle(operator, 1, do, "k"), office.handle(operator, 2, do, "k")
        )
        assert isinstance(second, Refused)
        assert (second.id, second.code) == (2, ServiceCode.KEY_REUSED)
        assert made(first).info.token in second.message
        assert len(exchange.access.tokens()) == 1
        other = await office.handle(principal("operator", None), 3, do, "k")
        assert made(other).secret != made(first).secret
        url = AddWebhook("https://example.org/hook")
        outcomes = await asyncio.gather(*(office.handle(operator, n, url, "w") for n in (4, 5)))
        assert [type(outcome) for outcome in outcomes] == [WebhookAdded, Refused]
        assert len(office.webhooks) == 1

    in_office(tmp_path, scene)


def test_a_revoked_token_stays_revoked(tmp_path: Path) -> None:
    """At once, and after a restart; revoking it again changes nothing."""
    secrets: list[str] = []

    async def scene(exchange: Exchange, office: Office, operator: Principal) -> None:
        token = made(await office.handle(operator, 1, CreateToken("tenant", "ada"), None))
        secrets.append(token.secret)
        assert exchange.authenticate(token.secret) is not None
        revoke = RevokeToken(token.info.token)
        once, twice = [await office.handle(operator, n, revoke, None) for n in (2, 3)]
        assert isinstance(once, TokenRevoked) and once == twice
        assert once.info.revoked_us is not None
        assert exchange.authenticate(token.secret) is None

    async def after_a_restart(exchange: Exchange, office: Office, operator: Principal) -> None:
        assert exchange.authenticate(secrets[0]) is None
        listed = await office.handle(operator, 1, AskTokens(), None)
        assert isinstance(listed, TokenList)
        assert [info.revoked_us is None for info in listed.tokens] == [False]
        assert secrets[0].removeprefix("lz_") not in msgspec.json.encode(listed).decode()

    in_office(tmp_path, scene)
    in_office(tmp_path, after_a_restart)


def test_only_an_operator_is_let_in(tmp_path: Path) -> None:
    """A tenant or a viewer is refused whatever it asks, and a bad token is not made."""

    async def scene(exchange: Exchange, office: Office, operator: Principal) -> None:
        for caller in (principal(), principal("viewer", None)):
            for do in (CreateToken("operator"), AskTokens(), RevokeToken("x")):
                refused = await office.handle(caller, 1, do, None)
                assert isinstance(refused, Refused) and refused.code == ServiceCode.FORBIDDEN
        for bad in (CreateToken("tenant"), CreateToken("tenant", "a/b"), AddWebhook("ftp://x")):
            refused = await office.handle(operator, 1, bad, None)
            assert isinstance(refused, Refused) and refused.code == ServiceCode.BAD_REQUEST
        refused = await office.handle(operator, 1, RevokeToken("nothing"), None)
        assert isinstance(refused, Refused) and refused.code == ServiceCode.NOT_FOUND
        assert exchange.access.tokens() == []

    in_office(tmp_path, scene)


def test_a_closed_exchange_makes_no_tokens(tmp_path: Path) -> None:
    """The office refuses, so that nobody waits for a writer that is gone."""

    async def scene() -> None:
        exchange = Exchange(Journal(tmp_path))
        office, operator = Office(exchange), principal("operator", None)
        await exchange.close()
        for do in (CreateToken("tenant", "ada"), RevokeToken("x"), AddWebhook("https://x.org")):
            async with asyncio.timeout(20):
                refused = await office.handle(operator, 1, do, "k")
            assert isinstance(refused, Refused) and refused.code == ServiceCode.STOPPING
            assert refused.retry_after_ms is not None

    asyncio.run(scene())


def test_tokens_of_one_tenant_draw_on_one_allowance() -> None:
    """A second token brings no second allowance, also if it is made while the first is in use."""
    limits = Limits(requests_per_s=1, burst=10, tokens_worth=2)
    made = [new_token("tenant", name, at=0) for name in ("ada", "ada", "ada", "bob")]
    access = Access([made[0][1], made[3][1]], limits)
    first = access.who(made[0][0], 1)
    assert first is not None
    assert sum(first.wait_us(0) == 0 for _ in range(40)) == 10, "alone it has what a token has"
    for _, token in made[1:3]:
        access.add(token)
    later = [access.who(secret, 1) for secret, _ in made[1:3]]
    assert not first.is_alone
    through = sum(each is not None and each.wait_us(0) == 0 for each in later for _ in range(40))
    assert through == 20, "of what they have together"
    assert sum(first.wait_us(8_000_000) == 0 for _ in range(40)) == 8
    bob = access.who(made[3][0], 1)
    assert bob is not None and bob.wait_us(0) == 0
