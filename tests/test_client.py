"""The SDK as a program uses it: logins, amounts, refusals, holdings, advice; against the real
exchange where it can be, against a fake one where the exchange must misbehave."""

import inspect
import pickle
import re
import stat
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import get_args

import click
import pytest

import laissez.client
from client_pool import Pool
from fake_exchange import TOKEN, FakeExchange
from laissez.cli.main import cli
from laissez.client import (
    AsyncClient,
    BadAddress,
    ChangeRejected,
    Client,
    ConnectionFailed,
    LoginNeeded,
    NotFilled,
    NotPermitted,
    Refusal,
    Unauthenticated,
    forget_login,
    read_login,
    save_login,
)
from laissez.client import link as link_module
from laissez.client.advice import preview_order, scope_around, why_not_filled
from laissez.client.client import Client as BlockingClient
from laissez.client.money import duration_us, instant_us, micros_per_hour, show_rate
from laissez.exchange.records import VenueRecord
from laissez.model import (
    Answer,
    CancelOrder,
    Command,
    Filled,
    Happened,
    Holding,
    Instruction,
    Lost,
    OpenOrder,
    Placed,
    Quoted,
    Rejected,
)
from serving import served

G0 = "h100/east/r1/g0"


@pytest.fixture(autouse=True)
def no_login_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAISSEZ_CONFIG", str(tmp_path / "config" / "login.json"))
    monkeypatch.delenv("LAISSEZ_URL", raising=False)
    monkeypatch.delenv("LAISSEZ_TOKEN", raising=False)


# --- logging in ---------------------------------------------------------------------------------


def test_a_login_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    """The file and its folder are open to nobody else, also when an old one is replaced."""
    assert read_login() is None
    path = save_login("https://x.example:1", "one")
    path.chmod(0o644)
    save_login("https://x.example:1/", TOKEN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    login = read_login()
    assert login is not None and (login.url, login.token) == ("https://x.example:1", TOKEN)
    assert TOKEN not in repr(login) + str(login)
    assert forget_login() and not forget_login()
    assert read_login() is None


def test_a_login_that_others_can_read_is_not_used() -> None:
    """A token that lies open is refused until it is put away."""
    save_login("https://x.example:1", TOKEN).chmod(0o640)
    with pytest.raises(LoginNeeded, match="chmod 600"):
        Client()


def test_a_spoilt_login_does_not_show_itself() -> None:
    """What can't be read as a login is refused, without a word of it."""
    path = save_login("https://x.example:1", TOKEN)
    path.write_text(f'{{"token": "{TOKEN}", "url": 5}}')
    with pytest.raises(LoginNeeded) as error:
        Client()
    assert TOKEN not in str(error.value)


def test_where_a_login_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call wins over the environment, and that over the file."""
    with pytest.raises(LoginNeeded, match="laissez login"):
        Client()
    save_login("http://file:1", "file")
    assert Client().url == "http://file:1"
    monkeypatch.setenv("LAISSEZ_URL", "http://env:1")
    monkeypatch.setenv("LAISSEZ_TOKEN", "env")
    assert Client().url == "http://env:1"
    client = AsyncClient("http://call:1")
    assert client.url == "http://call:1" and client._link._login.token == "env"


def test_a_saved_token_goes_only_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming another address does not send it the saved token."""
    save_login("http://home:1", TOKEN)
    assert AsyncClient("http://home:1/")._link._login.token == TOKEN
    with pytest.raises(LoginNeeded, match="http://home:1"):
        AsyncClient("http://elsewhere:1")
    monkeypatch.setenv("LAISSEZ_URL", "http://elsewhere:1")
    with pytest.raises(LoginNeeded):
        AsyncClient()


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("x.example:1", TOKEN),
        ("ftp://x.example", TOKEN),
        ("http://", TOKEN),
        ("http://x.example:port", TOKEN),
        ("http://me:hunter2@x.example", TOKEN),
        ("http://x.example:99999", TOKEN),
        ("http://x.example:0", TOKEN),
        ("http://x.example", "two\r\nX-Lines: 1"),
        ("http://x.example", "tökén"),
    ],
)
def test_a_login_that_can_not_work_is_refused(url: str, token: str) -> None:
    """An address that is none and a token that fits into no header are refused, unshown."""
    with pytest.raises(LoginNeeded) as error:
        Client(url, token)
    assert "hunter2" not in str(error.value) and token not in str(error.value)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("127.0.0.1:7070", "give it as http://HOST:PORT or https://HOST:PORT"),
        ("localhost:7070", "give it as http://HOST:PORT or https://HOST:PORT"),
        ("http://127.0.0.1:99999", "a number from 1 to 65535"),
        ("http://127.0.0.1:port", "a number from 1 to 65535"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(url: str, sentence: str) -> None:
    """An address that is none is an error of its own, and says what to give instead."""
    with pytest.raises(BadAddress, match=sentence):
        Client(url, TOKEN)


# --- money and time -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "micros"),
    [
        (3_200_000, 3_200_000),
        ("3.20", 3_200_000),
        ("0.000001", 1),
        ("12", 12_000_000),
        (Decimal("3.20"), 3_200_000),
        (Decimal("1E+1"), 10_000_000),
        (-5, -5),  # for the market to refuse
    ],
)
def test_money_is_exact(amount: int | str | Decimal, micros: int) -> None:
    """An int counts micro-dollars, a str or Decimal dollars, to the last digit."""
    assert micros_per_hour(amount) == micros


@pytest.mark.parametrize("amount", [3.2, True, None, b"3.2"])
def test_what_is_not_exact_is_no_money(amount: object) -> None:
    """A float, whatever its value, is a TypeError that says what to write."""
    with pytest.raises(TypeError, match=r"'3\.20'"):
        micros_per_hour(amount)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "amount",
    ["3,20", "-1", "$3", "", "1e3", "0.0000001", "9" * 19, Decimal("NaN"), Decimal("1e30"), 2**63],
)
def test_what_can_not_be_read_is_no_money(amount: int | str | Decimal) -> None:
    """A text that is no number of dollars is a ValueError."""
    with pytest.raises(ValueError, match=r"dollar"):
        micros_per_hour(amount)


def test_a_float_is_refused_wherever_money_is_given(exchange: FakeExchange) -> None:
    """No way around: nothing is sent."""
    with Client(exchange.url, TOKEN) as client:
        for call in (
            lambda: client.place("h100", price=3.2),  # type: ignore[arg-type]
            lambda: client.place("h100", limit=3.2),  # type: ignore[arg-type]
            lambda: client.amend("o", limit=3.2),  # type: ignore[arg-type]
            lambda: client.set_limit(G0, 3.2),  # type: ignore[arg-type]
            lambda: client.set_floor("h100", 3.2),  # type: ignore[arg-type]
            lambda: client.set_guard("h100", fall=3.2),  # type: ignore[arg-type]
            lambda: client.preview("h100", price=3.2),  # type: ignore[arg-type]
            lambda: client.hold("h100", limit=3.2).__enter__(),  # type: ignore[arg-type]
        ):
            with pytest.raises(TypeError, match="not exact money"):
                call()
    assert exchange.acted == []


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (3_100_000, "$3.10/h"),
        (1, "$0.0001/h"),
        (7_206_002, "$7.2061/h"),
        (1_234_500_000, "$1,234.50/h"),
    ],
)
def test_rates_are_rounded_up_to_be_shown(micros: int, text: str) -> None:
    """Cents at least, and no more than a hundredth of one: who types it in again pays enough."""
    assert show_rate(micros) == text


def test_time_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durations and instants in every way they can be given."""
    assert duration_us("30m") == 1_800_000_000 == duration_us(timedelta(minutes=30))
    assert duration_us("1.5 s") == 1_500_000 and duration_us(7) == 7
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000_000_000)
    assert instant_us("2s") == 1_002_000_000 == instant_us(timedelta(seconds=2))
    assert instant_us(5) == 5
    assert instant_us(datetime(1970, 1, 1, 0, 0, 1, 7, UTC)) == 1_000_007
    with pytest.raises(ValueError, match="time zone"):
        instant_us(datetime(2026, 1, 1))
    for wrong in ("30", "m", "3 weeks", ""):
        with pytest.raises(ValueError, match="30m"):
            duration_us(wrong)
    with pytest.raises(TypeError, match="no duration"):
        duration_us(1.5)  # type: ignore[arg-type]


# --- the real exchange --------------------------------------------------------------------------


def test_a_day_at_the_real_exchange(pool: Pool) -> None:
    """Every question and change of a tenant gets to the exchange and back."""
    tree, ada, dalia = pool.tree, pool.ada, pool.dalia
    pool.add("a/g0")
    filled = ada.place(tree, limit="5.00", order="first", expires="1h").events[-1]
    assert isinstance(filled, Filled) and filled.resource == f"{tree}/a/g0"
    placed = dalia.place(tree, price="3.00", limit="4.00", order="wait").events[0]
    assert isinstance(placed, Placed) and (placed.price, placed.limit) == (3_000_000, 4_000_000)
    dalia.amend("wait", price="3.50", expires=timedelta(hours=1))
    (order,) = dalia.orders()
    assert order.price == 3_500_000 and order.expires is not None
    dalia.amend("wait", expires=None)
    assert dalia.orders()[0].expires is None
    assert [h.rate for h in ada.holdings() if h.resource.startswith(tree)] == [3_500_000]
    assert ada.quote(tree).rate is None and dalia.quote(tree).rate == 3_500_000
    assert ada.bill(explain=True).open_segments.keys() >= {f"{tree}/a/g0"}
    assert ada.scope_near(f"{tree}/a/g0", "zone") == f"{tree}/a"
    with pytest.raises(ValueError, match="do not hold"):
        dalia.scope_near(f"{tree}/a/g0", "zone")
    lost = ada.set_limit(f"{tree}/a/g0", "3.00").events[-1]
    assert isinstance(lost, Lost) and lost.reason == "limit"
    assert [h.resource for h in dalia.holdings()] == [f"{tree}/a/g0"]
    dalia.release(f"{tree}/a/g0")
    assert dalia.holdings() == ()


def test_a_day_of_the_operator(pool: Pool) -> None:
    """Every question and change of an operator gets to the exchange and back."""
    tree, operator = pool.tree, pool.operator
    pool.add("a/g0", "a/g1")
    operator.set_guard(tree, rise=2_500, fall="0.50", hold="2s", window=timedelta(seconds=1))
    floors = operator.floors()
    assert floors.floors[tree] == 2_000_000
    (guard,) = [guard for guard in floors.guards if guard.tree == tree]
    assert (guard.rise, guard.fall) == (2_500, 500_000)
    assert (guard.hold, guard.window) == (2_000_000, 1_000_000)
    operator.cordon(f"{tree}/a")
    assert f"{tree}/a" in operator.floors().cordons and operator.resources(tree) == ()
    operator.uncordon(f"{tree}/a")
    operator.withdraw(f"{tree}/a/g1")
    assert [each.resource for each in operator.resources(tree)] == [f"{tree}/a/g0"]
    operator.settle()
    made = operator.create_token("tenant", tenant="zoe", lifetime_s=60, note="for a test")
    with Client(operator.url, made.secret) as zoe:
        assert zoe.status().tenant == "zoe"
        assert operator.revoke_token(made.info.token).revoked_us is not None
        with pytest.raises(Unauthenticated):
            zoe.status()
    assert made.info.token in {info.token for info in operator.tokens()}
    hook = operator.add_webhook("https://hooks.invalid/hook")
    assert [info.webhook for info in operator.webhooks()] == [hook.info.webhook]
    operator.remove_webhook(hook.info.webhook)
    assert operator.webhooks() == ()
    pool.ada.place(tree, limit="3.00")
    assert "ada" in {summary.tenant for summary in operator.tenants()}
    assert operator.holdings("ada") and operator.bill("ada").tenant == "ada"
    operator.withdraw(f"{tree}/a/g0")


def test_refusals_are_errors_with_a_code(pool: Pool) -> None:
    """The market's and the service's refusals are told apart, and carry what was said."""
    with pytest.raises(ChangeRejected) as rejected:
        pool.ada.cancel("never-placed")
    assert rejected.value.code == "unknown_order"
    assert isinstance(rejected.value.answer.events[-1], Rejected)
    assert "never-placed" in str(rejected.value)
    with pytest.raises(NotPermitted):
        pool.ada.set_floor(pool.tree, 1)
    with pytest.raises(Refusal) as refused:
        pool.ada.quote(f"{pool.tree}/out/of/sight")
    assert not isinstance(refused.value, ChangeRejected)
    with pytest.raises(Unauthenticated):
        Client(pool.ada.url, "lz_unknown").status()


def test_events_of_the_real_exchange(pool: Pool) -> None:
    """A stream after a number brings what happened since, rates and quotes too."""
    pool.add("a/g0")
    after = pool.ada.status().sequence
    pool.ada.place(pool.tree, limit="5.00", order="streamed")
    stream = pool.ada.events(after=after, rates=True, quotes=[pool.tree])
    first = next(stream)
    assert isinstance(first, Happened)
    assert [type(event) for event in first.events] == [Placed, Filled]
    kinds = {type(next(stream)).__name__, type(next(stream)).__name__}
    assert kinds == {"Rates", "Quotes"}
    pool.ada.release(f"{pool.tree}/a/g0")


def test_a_real_exchange_that_restarts_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client, its stream and its holding outlive a restart of the exchange."""
    # It comes back when the first one is gone, not while that is closing.
    monkeypatch.setattr(link_module, "FIRST_PAUSE_S", 0.5)
    with served(tmp_path, "operator", "ada") as first:
        port, token = int(first.url.rpartition(":")[2]), first.secrets["ada"]
        with Client(first.url, first.secrets["operator"]) as operator:
            operator.add_resource("h100/a/g0")
        client = Client(first.url, token)
        block = client.hold("h100", limit="2.00", wait_s=5)
        held = block.__enter__()
    with client, served(tmp_path, "operator", port=port):
        assert client.holdings()[0].resource == held.resource == "h100/a/g0"
        assert held.wait_lost(0.1) is None
        block.__exit__(None, None, None)
        assert client.holdings() == ()


# --- advice -------------------------------------------------------------------------------------

ORDER = OpenOrder("ada", "o-1", "h100", 3_000_000, 4_000_000, None)


@pytest.mark.parametrize(
    ("quote", "texts"),
    [
        (None, ["do not see its quote", "$3.00/h"]),
        (Quoted(1, "h100", None, False), ["not yours already"]),
        (Quoted(1, "h100", 3_100_000, False), ["nothing is idle", "$3.10/h", "$3.00/h"]),
        (Quoted(1, "h100", 4_500_000, True), ["$4.50/h at least", "limit of $4.00/h"]),
        (Quoted(1, "h100", 3_500_000, True), ["just become idle"]),
    ],
)
def test_why_an_order_waits(quote: Quoted | None, texts: list[str]) -> None:
    """Each state of the quote has its sentence."""
    sentence = why_not_filled(ORDER, quote)
    assert all(text in sentence for text in texts)


@pytest.mark.parametrize(
    ("price", "limit", "quote", "expected"),
    [
        (None, 4, Quoted(1, "h100", 2, True), (True, 2, 4)),
        (3, None, Quoted(1, "h100", 2, True), (True, 3, 3)),
        (None, 4, Quoted(1, "h100", 0, True), (True, 1, 4)),
        (None, 4, Quoted(1, "h100", 9, True), (False, 4, 4)),
        (None, 4, Quoted(1, "h100", 3, False), (False, 3, 4)),
        (None, 4, Quoted(1, "h100", None, False), (False, 4, 4)),
        (3, 4, None, (False, 3, 4)),
    ],
)
def test_a_preview_follows_the_rules_of_the_market(
    price: int | None, limit: int | None, quote: Quoted | None, expected: tuple[bool, int, int]
) -> None:
    """What is not given is chosen as the market would, and only what is idle fills for sure."""
    preview = preview_order("h100", price, limit, quote)
    assert (preview.fills_now, preview.price, preview.limit) == expected
    assert preview.quote == quote and "h100" in preview.sentence


def test_a_preview_of_what_would_be_refused() -> None:
    """An order that the market would not take is a ValueError."""
    quote = Quoted(1, "h100", 2, True)
    for price, limit in ((None, None), (5, 4), (0, 4)):
        with pytest.raises(ValueError, match="price"):
            preview_order("h100", price, limit, quote)
    with pytest.raises(ValueError, match="no quote"):
        preview_order("h100", None, 4, None)


def test_the_scope_around_a_holding() -> None:
    """By the name of a level, or by the number of names."""
    holding = Holding("h100/east/r1/h3/g0", 1, 1, 1, None, {"levels": "zone/rack/host/gpu"}, "ada")
    assert scope_around(holding, "zone") == "h100/east"
    assert scope_around(holding, "rack") == "h100/east/r1" == scope_around(holding, 3)
    assert scope_around(holding, "gpu") == holding.resource
    assert scope_around(holding, 1) == "h100"
    for wrong in ("row", 0, 6):
        with pytest.raises(ValueError, match="h100/east/r1/h3/g0 has"):
            scope_around(holding, wrong)
    with pytest.raises(ValueError, match="number of names"):
        scope_around(Holding(G0, 1, 1, 1, None, {}, "ada"), "zone")


def test_advice_from_a_real_exchange(pool: Pool) -> None:
    """A preview says what then happens, and why says what then does not."""
    pool.add("a/g0")
    preview = pool.ada.preview(pool.tree, limit="5.00")
    assert preview.fills_now and preview.price == 2_000_000
    with pool.ada.hold(pool.tree, limit="5.00"):
        assert not pool.dalia.preview(pool.tree, limit="5.00").fills_now
        pool.dalia.place(f"{pool.tree}/a", price="3.00", order="unseen")
        assert "do not see its quote" in pool.dalia.why("unseen")
        pool.dalia.cancel("unseen")
        assert "no open order" in pool.dalia.why("unseen")
        with pytest.raises(ValueError, match="no quote"):
            pool.dalia.preview(f"{pool.tree}/a", limit="3.00")


# --- both faces ---------------------------------------------------------------------------------


def test_the_two_faces_are_alike() -> None:
    """Whatever one client can do the other can, with the same arguments, and says what it is."""
    own = {"open_reader", "close_reader", "event_batches"}
    for name, method in inspect.getmembers(AsyncClient, inspect.isfunction):
        if name.startswith("_") or name in own:
            continue
        twin = getattr(BlockingClient, name)
        assert twin.__name__ == name and bool(twin.__doc__) == bool(method.__doc__)
        assert (
            str(inspect.signature(twin)).partition(" -> ")[0]
            == (str(inspect.signature(method)).partition(" -> ")[0])
        )
    public = {name for name in vars(BlockingClient) if not name.startswith("_")} - own
    assert public <= set(vars(AsyncClient))


def test_one_act_has_one_word() -> None:
    """The table of words in design.md has every message, with a method that sends it and a command
    that people can type."""
    page = (Path(__file__).parent.parent / "docs" / "design.md").read_text()
    table = page.partition("## Words")[2].partition("\n## ")[0]
    rows = [re.findall(r"`([^`]+)`", row) for row in re.findall(r"^\| .*\|$", table, re.MULTILINE)]
    known = {row[1]: row for row in rows if row}
    assert set(known) == {each.__name__ for each in get_args(Instruction)}
    commands = {each.__name__ for each in (*get_args(Command), *get_args(VenueRecord))}
    for command, message, method, *typed in known.values():
        assert command in commands
        assert f"{message}(" in inspect.getsource(getattr(AsyncClient, method))
        for words in typed:
            found: click.Command | None = cli
            for word in words.split():
                assert isinstance(found, click.Group)
                found = found.get_command(click.Context(found), word)
            assert found is not None, words


def test_errors_are_found_under_their_old_names() -> None:
    """A program that imports an error by the name that it had still works, and is told the new."""
    for old, new in (("Rejected", ChangeRejected), ("Forbidden", NotPermitted)):
        with pytest.warns(DeprecationWarning, match=new.__name__):
            assert getattr(laissez.client, old) is new
    with pytest.raises(AttributeError, match="NeverThere"):
        laissez.client.NeverThere  # type: ignore[attr-defined]  # noqa: B018


def test_errors_travel_between_processes() -> None:
    """An error can be pickled, as pools of processes do."""
    answer = Answer(1, 2, 3, (Rejected(3, "bad_price", "no"),))
    for error in (
        ConnectionFailed("gone", "key"),
        Refusal("busy", "later", 5),
        ChangeRejected("bad_price", "no", answer),
        NotFilled("not now"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))


def test_the_clients_own_thread_may_not_wait_for_itself(exchange: FakeExchange) -> None:
    """A progress callback that calls the client is an error, not a deadlock."""
    with Client(exchange.url, TOKEN) as client, pytest.raises(RuntimeError, match="own thread"):
        client.send_all([CancelOrder("o")], progress=lambda done, total: print(client.status()))
