"""The demo tells the truth, all of it, and the same each time."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from laissez.market import Market
from laissez.model import (
    Amended,
    Event,
    Expired,
    Rejected,
    Settled,
    Transferred,
    decode_event,
)
from laissez.sample.amounts import show_charge, show_clock, show_rate, show_span
from laissez.sample.story.__main__ import INTERRUPTED, main
from laissez.sample.story.scene import PlayedScene, perform
from laissez.sample.story.screen import tell
from laissez.sample.story.script import BEATS, CAST, SCRIPT
from laissez.sample.story.sentence import event_in_words
from laissez.sample.story.statement import bills


def play() -> tuple[Market, list[PlayedScene]]:
    market = Market()
    return market, list(perform(market, SCRIPT))


def all_events() -> list[Event]:
    return [event for scene in play()[1] for event in scene.events]


def no_pause(seconds: float) -> None:
    """A reader in no need of time."""


def told(width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    with console.capture() as capture:
        tell(console, no_pause)
    return capture.get()


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_it_runs_to_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Away from a terminal the demo plays through without a pause, and ends with the revenue."""
    assert main([]) == 0
    text = capsys.readouterr().out
    assert [beat.heading for beat in SCRIPT if beat.heading not in text] == []
    assert "Revenue" in text.splitlines()[-2]


def test_every_transfer_is_told() -> None:
    """Each change of hands is in the text, with its reason."""
    text = in_one_line(told())
    transfers = [
        event_in_words(event, turn.before)
        for scene in play()[1]
        for turn in scene.turns
        for event in turn.events
        if isinstance(event, Transferred)
    ]
    assert len(transfers) > len(CAST)
    assert [sentence for sentence in transfers if sentence not in text] == []


def test_the_refusal_is_told() -> None:
    """A refusal is shown with its sentence and its code."""
    (refusal,) = [event for event in all_events() if isinstance(event, Rejected)]
    assert f"{refusal.message}. ({refusal.code})" in in_one_line(told())


def test_it_shows_what_a_market_does() -> None:
    """The script has a transfer for each reason it tells of, an amendment, an expiry, a hold."""
    events = all_events()
    reasons = {event.reason for event in events if isinstance(event, Transferred)}
    causes = {cause for e in events if isinstance(e, Settled) for _, _, _, cause in e.segments}
    assert reasons == {"idle", "outbid", "floor", "limit"}
    assert causes == {"floor", "demand", "hold"}
    assert {Amended, Expired, Rejected} <= {type(event) for event in events}


def test_bills_add_up_to_the_revenue() -> None:
    """The bills told are the market's, and add up to its revenue to the unit and to the cent."""
    market, scenes = play()
    every = bills(scenes, CAST)
    charges = {bill.tenant: bill.charge for bill in every}
    revenue = market.revenue(at=market.now)
    assert charges == {tenant: market.bill(tenant, at=market.now) for tenant in CAST}
    assert sum(charges.values()) == revenue
    amounts = " + ".join(map(show_charge, charges.values()))
    assert f"{amounts} = {show_charge(revenue)} {revenue:,}" in in_one_line(told())
    assert sum(int(show_charge(charge)[1:].replace(".", "")) for charge in charges.values()) == int(
        show_charge(revenue)[1:].replace(".", "")
    )


def test_every_charge_is_explained() -> None:
    """The segments of a holding follow each other from its first to its last instant, and give
    its charge."""
    for event in all_events():
        if isinstance(event, Settled):
            starts = [start for start, _, _, _ in event.segments]
            ends = [end for _, end, _, _ in event.segments]
            assert [event.since, *ends] == [*starts, event.at]
            assert event.charge == sum((end - start) * r for start, end, r, _ in event.segments)


def test_json_gives_the_events(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json each line is an event, and together they are all that happened."""
    assert main(["--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [decode_event(line) for line in lines] == all_events()


def test_it_plays_the_same_twice() -> None:
    """Two performances end in the same state and are told in the same words."""
    assert play()[0].digest() == play()[0].digest()
    assert told() == told()


def test_it_lasts_a_minute() -> None:
    """At its own speed the pauses add up to a bit less than a minute."""
    seconds: list[float] = []
    tell(Console(file=io.StringIO(), width=80), seconds.append)
    assert 50 <= sum(seconds) <= 60


def test_it_fits_a_small_terminal() -> None:
    """At 80 by 24 each beat can be seen whole, no line is broken by the terminal, and no cell is
    cut short."""
    text = told(width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for beat in BEATS:
        rest = text[text.index(f"{beat.heading} ─") :]
        whole = re.match(r".*?^(No order waits|Waiting).*?\n", rest, re.DOTALL | re.MULTILINE)
        assert whole is not None
        assert whole[0].count("\n") < 24


def test_it_needs_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR a terminal gets no colour codes, and changed rows still have their mark."""

    def on_a_terminal() -> str:
        file = io.StringIO()
        tell(Console(file=file, width=80, force_terminal=True, color_system="standard"), no_pause)
        return file.getvalue()

    colour = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colour.search(on_a_terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour.search(on_a_terminal())
    assert "> h100/west/r3/g1" in on_a_terminal()


def test_ctrl_c_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupt is the end of the demo, not an error to read."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("laissez.sample.story.__main__.tell", interrupt)
    assert main([]) == INTERRUPTED
    assert capsys.readouterr() == ("\n", "")


@pytest.mark.parametrize("speed", ["-1", "nan", "inf", "fast"])
def test_a_speed_is_a_number_from_0(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Any other speed is refused with the usage."""
    with pytest.raises(SystemExit) as end:
        main(["--speed", speed])
    assert end.value.code == 2
    assert "--speed" in capsys.readouterr().err


def test_make_demo_plays_it() -> None:
    """What the Makefile runs is there."""
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    (module,) = re.findall(r"^demo:.*\n\t.*python -m (\S+)$", makefile, re.MULTILINE)
    ended = subprocess.run(
        [sys.executable, "-m", module, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == len(all_events())


def test_the_market_needs_no_rich() -> None:
    """It computes, and shows nothing."""
    ended = run_python("import sys, laissez.market; sys.exit('rich' in sys.modules)")
    assert ended.returncode == 0


def test_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """What the README says its example prints is what it prints, but for the line breaks."""
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    example, output = re.findall(
        r"^```(?:python|text)\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL
    )
    exec(example, {})
    assert "".join(capsys.readouterr().out.split()) == "".join(output.split())


def test_amounts_are_rounded_only_to_be_shown() -> None:
    """Half a cent and half a minute are rounded up; a clock shows the minute it is in."""
    assert show_rate(2_504_999) == "$2.50"
    assert show_rate(2_505_000) == "$2.51"
    assert show_charge(5_000 * 3_600_000_000) == "$0.01"
    assert show_charge(5_000 * 3_600_000_000 - 1) == "$0.00"
    assert show_span(90_000_000) == "2 min"
    assert show_clock(3_719_999_999) == "1:01"
