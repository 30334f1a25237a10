"""The attacks can be held and can be missed, and the table says which. Nothing depends on a clock:
what a service under attack waits is for `make attacks` to find out."""

from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def attacks(load_benchmark: Callable[[str], ModuleType]) -> ModuleType:
    return load_benchmark("attacks")


def test_every_attack_has_a_program(attacks: ModuleType) -> None:
    """And all programs are used; names are one of a kind, because --only takes them."""
    from attacking.programs import PROGRAMS  # noqa: PLC0415

    programs = [attack.program for attack in attacks.ATTACKS if attack.program is not None]
    assert sorted(programs) == sorted(PROGRAMS)
    assert len({attack.name for attack in attacks.ATTACKS}) == len(attacks.ATTACKS)


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
    (attack,) = (each for each in attacks.ATTACKS if each.name == name)
    seen = [attacks.Waited("question", 1.0, milliseconds / 1_000)] * 3
    noticed = attacks._noticed(attack, seen, 2.0, (50, most_mb, 60), journal_mb, [note])
    assert noticed.broken == broken


def test_doors_count_when_there_was_time_to_throw_others_out(attacks: ModuleType) -> None:
    """A new connection that came to nothing counts in the second half; a request always does."""
    attack = attacks.ATTACKS[0]
    early = attacks.Waited("door", 1.0, 5.0, "hung up")
    late = attacks.Waited("door", 3.0, 5.0, "hung up")
    lost = attacks.Waited("change", 1.0, 0.001, "disconnected")

    def broken(*seen: object) -> list[str]:
        found: list[str] = attacks._noticed(attack, list(seen), 2.0, (1, 1, 1), 0.0, []).broken
        return found

    assert broken(early) == []
    assert broken(early, late) == ["doors"]
    assert broken(lost) == ["requests"]


def test_while_the_disk_stalls_only_questions_count(attacks: ModuleType) -> None:
    """Changes wait for the disk, as they must."""
    (attack,) = (each for each in attacks.ATTACKS if each.stalls_the_disk)
    seen = [attacks.Waited("question", 1.0, 0.001), attacks.Waited("change", 1.0, 8.0)]
    assert attacks._noticed(attack, seen, 2.0, (1, 1, 1), 0.0, []).broken == []


def test_a_row_has_at_most_80_columns(attacks: ModuleType) -> None:
    """Also when it is as bad as it can be."""
    attack = attacks.Attack("continuations", None, "as bad as it can be")
    seen = [attacks.Waited("question", 1.0, 99.9999)] * 3
    noticed = attacks._noticed(attack, seen, 2.0, (9_999, 9_999, 9_999), 9_999.9, [])
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
