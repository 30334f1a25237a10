"""The attacks can be held and can be missed, and the table says which. Nothing depends on a clock:
what a service under attack waits is for `make attacks` to find out."""

import re
import socket
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from laissez.model import AskStatus, Bill, Refused, Reply
from laissez.service import entrance
from laissez.service.visitor import has_gone
from raw_websocket import RawSocket
from serving import served
from test_paid_doors import forgive, overdraw, principal_of, reception_of

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def attacks(load_benchmark: Callable[[str], ModuleType]) -> ModuleType:
    return load_benchmark("attacks")


def test_every_attack_has_a_program(attacks: ModuleType) -> None:
    """And all programs are used; names are one of a kind, because --only takes them."""
    from attacking.programs import PROGRAMS  # noqa: PLC0415

    programs = [attack.program for attack in attacks.ATTACKS if attack.program is not None]
    assert sorted(programs) == sorted(PROGRAMS)
    assert len({attack.name for attack in attacks.ATTACKS}) == len(attacks.ATTACKS)


def test_every_attack_has_a_bound_in_the_suite(attacks: ModuleType) -> None:
    """CONTRIBUTING.md names each attack once, and the tests beside it are there."""
    text = (TESTS.parent / "CONTRIBUTING.md").read_text()
    rows = [row for row in text.splitlines() if row.startswith("| ") and "`test_" in row]
    bounded = [name for row in rows for name in re.findall(r"`(.+?)`", row.split("|")[1])]
    attacking = [attack.name for attack in attacks.ATTACKS if attack.name != "nobody"]
    assert sorted(bounded) == sorted(attacking)
    named = [test for row in rows for test in re.findall(r"`(test_\w+\.py)::(test_\w+)`", row)]
    assert len(named) == sum(row.count("::") for row in rows)
    for file, test in named:
        assert f"def {test}(" in (TESTS / file).read_text(), f"{file}::{test} is not there"


def enough(attacks: ModuleType, attack: Any) -> Any:
    """What makes an attack count."""
    done = [attacks.stage.Done("", amount) for amount in (attack.least_before, attack.least)]
    return attacks.Took(*done)


def traded(attacks: ModuleType, *more: object, seconds: float = 0.001) -> list[Any]:
    """Another tenant who traded enough, and came in quickly."""
    questions = [attacks.Waited("question", 1.0, seconds)] * attacks.TRADED_LEAST
    doors = [attacks.Waited("door", 1.0, 0.001)] * attacks.DOORS_LEAST
    return [*questions, *doors, *more]


def named(attacks: ModuleType, name: str) -> Any:
    (attack,) = (each for each in attacks.ATTACKS if each.name == name)
    return attack


@pytest.mark.parametrize(
    ("name", "milliseconds", "most_mb", "journal_mb", "note", "broken"),
    [
        ("pongs", 49.0, 250, 900.0, "", []),
        ("pongs", 51.0, 250, 0.0, "", ["p99"]),
        ("pongs", 1.0, 251, 0.0, "", ["memory"]),
        ("long paths", 1.0, 50, 31.0, "", ["journal"]),
        ("keys", 1.0, 50, 0.0, "the victim's retry acted twice", ["keys"]),
        ("stalling disk", 51.0, 50, 0.0, "", ["p99"]),
    ],
)
def test_what_is_held_and_what_is_missed(
    attacks: ModuleType,
    name: str,
    milliseconds: float,
    most_mb: int,
    journal_mb: float,
    note: str,
    broken: list[str],
) -> None:
    """Another tenant's p99, memory, the journal where nothing of it belongs there, and keys."""
    attack = named(attacks, name)
    stalled = attacks.Waited("change", 1.0, 8.0)
    more = [stalled] if attack.stalls_the_disk else []
    seen = traded(attacks, *more, seconds=milliseconds / 1_000)
    took = enough(attacks, attack)
    noticed = attacks._noticed(attack, seen, took, (50, most_mb, 60), journal_mb, [note])
    assert noticed.broken == broken and noticed.void == []
    assert noticed.verdict == ("MISSED" if broken else "held")


def test_every_new_connection_counts_and_so_does_its_time(attacks: ModuleType) -> None:
    """One that came to nothing, whenever it was, or one that was let in late; a request always."""
    attack = attacks.ATTACKS[0]

    def noticed(*seen: object) -> Any:
        everybody = traded(attacks, *seen)
        return attacks._noticed(attack, everybody, attacks.Took(), (1, 1, 1), 0.0, [])

    assert noticed().broken == []
    assert noticed(attacks.Waited("door", 1.0, 0.1, "hung up")).broken == ["doors"]
    late = noticed(attacks.Waited("door", 1.0, 1.5))
    assert late.broken == ["doors"] and late.door_ms == 1_500
    assert "1,500" in attacks.row(late)
    assert noticed(attacks.Waited("change", 1.0, 0.001, "disconnected")).broken == ["requests"]


def test_what_did_not_take_place_is_not_held(attacks: ModuleType) -> None:
    """An attack that was turned away, one without the past that it needs, a disk that went on, and
    another tenant who was not there: nothing was shown."""
    for attack in attacks.ATTACKS:
        stalled = attacks.Waited("change", 1.0, 8.0)
        more = [stalled] if attack.stalls_the_disk else []
        took = enough(attacks, attack)

        def verdict(took: Any, seen: list[Any], attack: Any = attack) -> str:
            found = attacks._noticed(attack, seen, took, (1, 1, 1), 0.0, [])
            assert bool(found.void) == any(
                "did not take place" in it for it in attacks.details(found)
            )
            return str(found.verdict)

        assert verdict(took, traded(attacks, *more)) == "held"
        assert verdict(took, []) == "VOID"
        if attack.program is not None:
            assert attack.least > 0
            assert verdict(attacks.Took(took.before), traded(attacks)) == "VOID"
        if attack.prepare is not attacks.stage.nothing:
            assert verdict(attacks.Took(attack=took.attack), traded(attacks)) == "VOID"
        if attack.stalls_the_disk:
            assert verdict(took, traded(attacks)) == "VOID"


def test_what_acts_at_one_instant_is_looked_at_there(attacks: ModuleType) -> None:
    """A stall of 100 ms, which nobody sees among the requests of 16 seconds; what was over before
    the victim came, or comes when it has gone, did not take place. Changes have to wait for what
    acts, but not without end."""
    attack = named(attacks, "expiries")
    instants = [number / attacks.LOOKS_PER_S for number in range(16 * attacks.LOOKS_PER_S)]
    doors = [attacks.Waited("door", 0.5 + number / 2, 0.001) for number in range(30)]

    def noticed(acts_at: float | None, question_s: float, change_s: float) -> Any:
        """What is seen of a stall at the tenth second."""
        seen = [*doors]
        for number, at in enumerate(instants):
            kind, stall_s = [("question", question_s), ("change", change_s)][number % 3 > 0]
            waits = max(0.001, 10.0 + stall_s - at) if at >= 10.0 else 0.001
            seen.append(attacks.Waited(kind, at, waits))
        meanwhile = attacks._meanwhile(seen, 0.0, 16.0, acts_at)
        took = attacks.Took(attacks.stage.Done("", attack.least_before, acts_at))
        took = msgspec.structs.replace(took, attack=attacks.stage.Done("", attack.least))
        return attacks._noticed(attack, meanwhile, took, (1, 1, 1), 0.0, [])

    assert noticed(None, 0.1, 0.1).broken == []
    assert noticed(10.0, 0.1, 0.1).broken == ["p99"]
    assert noticed(10.0, 0.0, 0.4).verdict == "held"
    assert noticed(10.0, 0.0, 0.6).broken == ["changes"]
    assert noticed(5.0, 0.1, 0.1).verdict == "held"
    assert noticed(-2.0, 0.1, 0.1).verdict == noticed(17.0, 0.1, 0.1).verdict == "VOID"


def test_a_refusal_is_not_a_bill(attacks: ModuleType) -> None:
    """Nor does a bill that explains nothing count as explained."""
    from attacking.programs import is_bill  # noqa: PLC0415

    told = Bill(1, "t", 1, {"h100/g0": ()})
    assert is_bill(Reply(1, told), explain=True)
    assert not is_bill(Reply(1, Bill(1, "t", 1)), explain=True)
    assert is_bill(Reply(1, Bill(1, "t", 1)), explain=False)
    assert not is_bill(Refused(1, "too_many_requests", "later"), explain=False)


def test_what_nobody_does_is_printed_beside(attacks: ModuleType) -> None:
    """The p99 without an attack stands with each attack's own."""
    attack = named(attacks, "pongs")
    took = enough(attacks, attack)
    noticed = attacks._noticed(attack, traded(attacks), took, (1, 1, 1), 0.0, [])
    noticed = msgspec.structs.replace(noticed, nobody_p99_ms=7.5)
    assert any("nobody attacks 7.5" in each for each in attacks.details(noticed))


def test_a_request_counts_from_when_it_was_due(attacks: ModuleType) -> None:
    """What could not be sent in time has waited, too."""
    from attacking.victim import Victim  # noqa: PLC0415

    victim = Victim()
    victim.fire(5.0)
    assert victim.seen[0].due_at == 5.0


def test_while_the_disk_stalls_only_questions_count(attacks: ModuleType) -> None:
    """Changes wait for the disk, as they must."""
    attack = named(attacks, "stalling disk")
    seen = traded(attacks, attacks.Waited("change", 1.0, 8.0))
    assert attacks._noticed(attack, seen, attacks.Took(), (1, 1, 1), 0.0, []).broken == []


def test_a_row_has_at_most_80_columns(attacks: ModuleType) -> None:
    """Also when it is as bad as it can be."""
    attack = attacks.Attack("continuations", None, "as bad as it can be")
    seen = [attacks.Waited(kind, 1.0, 99.9999) for kind in ("question", "door")]
    noticed = attacks._noticed(attack, seen, attacks.Took(), (9_999, 9_999, 9_999), 9_999.9, [])
    assert len(attacks.row(noticed)) <= 80 and len(attacks.HEAD) <= 80
    assert all(len(f"  {each.says}") <= 80 for each in attacks.ATTACKS)


def test_a_short_run_measures_the_victim(
    attacks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All processes start, the victim trades and is let in, and everything ends by itself."""
    monkeypatch.setattr(attacks, "BEFORE_S", 0.2)
    monkeypatch.setattr(attacks, "AFTER_S", 0.1)
    (attack,) = (each for each in attacks.ATTACKS if each.name == "long numbers")
    noticed = attacks.run(attack, 2.0)
    assert noticed.requests > 0 and noticed.rss_most_mb >= noticed.rss_before_mb > 0
    assert any("sent over" in note for note in noticed.notes)
    assert noticed.void == [] and noticed.door_ms > 0


# The doors ----------------------------------------------------------------------------------------

TRIES = 10

DOORS = {
    "no_token": "strangers",
    "strange_handshakes": "strangers",
    "handshakes": "token",
    "not_there": "token",
    "not_so": "token",
    "too_large": "token",
    "connects": "arrivals",
    "silence": "arrivals",
    "half_heads": "arrivals",
    "half_handshakes": "arrivals",
    "own_smallest_chunks": "token",
}


@pytest.mark.parametrize("program", DOORS)
def test_at_the_doors_nobody_gets_more_than_is_paid_for(
    attacks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """An attack whose payer has overdrawn comes to nothing at all, over however many connections:
    no answer, no refusal, no handshake. Meanwhile another tenant is served. As soon as all is paid
    back the same attack comes to something, so it would have been noticed."""
    from attacking import doors  # noqa: PLC0415
    from attacking.programs import PROGRAMS  # noqa: PLC0415
    from attacking.stage import AttackPlan  # noqa: PLC0415

    accepted: list[socket.socket] = []

    def look(connection: socket.socket) -> bool:
        accepted.append(connection)
        return has_gone(connection)

    monkeypatch.setattr(entrance, "has_gone", look)
    monkeypatch.setattr(doors, "SMALLEST_CHUNKS", 100)  # more are not answered in time anyway
    with served(tmp_path, "attacker", "victim") as service:
        strangers = reception_of(service).strangers
        payer = {
            "strangers": strangers.all,
            "token": principal_of(service, "attacker").token_allowance,
            "arrivals": strangers.arrivals,
        }[DOORS[program]]
        plan = AttackPlan(program, service.url, service.secrets["attacker"], 0.4)
        with RawSocket(service.url, service.secrets["victim"]) as victim:
            overdraw(service, payer)
            before = len(accepted)
            done = PROGRAMS[program](plan)
            assert isinstance(victim.ask(AskStatus()), Reply)
            if DOORS[program] == "arrivals":
                assert len(accepted) == before
            else:
                assert len(accepted) > before
                assert done.amount == 0
                with RawSocket(service.url, service.secrets["victim"]) as again:
                    assert isinstance(again.ask(AskStatus()), Reply)
            before = len(accepted)
            for _ in range(TRIES):  # on a busy machine little is answered in so short a time
                forgive(service, payer)
                done = PROGRAMS[program](plan)
                if done.amount > 0:
                    break
            assert len(accepted) > before and done.amount > 0
