"""The telling: scene after scene on a console, with pauses in which to read.

A beat comes in three breaths: what it is about, what was said and what happened, and the cluster
as it is now. How long a breath is comes from outside, as a function that waits: a test counts the
seconds, a pipe does not wait at all. A beat fits a terminal of 80 by 24.
"""

from collections.abc import Callable

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from laissez.market import Market
from laissez.model import Rejected, Transferred
from laissez.sample.amounts import show_charge, show_clock
from laissez.sample.story.scene import PlayedScene, PlayedTurn, perform
from laissez.sample.story.script import CAST, CLOSING, OPENING, SCRIPT, Beat
from laissez.sample.story.sentence import answer_in_words, command_in_words
from laissez.sample.story.statement import TenantBill, bill_table, bills, sum_table
from laissez.sample.story.table import cluster_table, waiting_line

Pause = Callable[[float], None]

WIDTH_MAX = 100

VIEW = "You see everything, as the operator does. Tenants don't see each other's limits."
EXACTLY = "The long numbers are exact: micro-dollars an hour, times microseconds."

STYLES: dict[type, str] = {Transferred: "bold green", Rejected: "bold red"}

SECONDS_FOR_CAST = 5.0
SECONDS_FOR_HEADING = 1.4
SECONDS_FOR_ANSWER = 1.4
SECONDS_FOR_TABLE = 1.8
SECONDS_FOR_BILL = 0.7


def tell(console: Console, pause: Pause) -> None:
    """Play the whole script, and tell it."""
    market = Market()
    scenes = []
    for scene in perform(market, SCRIPT):
        scenes.append(scene)
        _tell_heading(console, scene.beat)
        if scene.beat is OPENING:
            _tell_cast(console, pause)
        elif scene.beat is CLOSING:
            _tell_bills(console, bills(scenes, CAST), market.revenue(at=market.now), pause)
        else:
            _tell_scene(console, scene, pause)


def _tell_heading(console: Console, beat: Beat) -> None:
    console.print()
    console.print(Rule(Text(beat.heading, "bold"), align="left"))
    console.print(Text(beat.aside, "italic"))


def _tell_cast(console: Console, pause: Pause) -> None:
    console.print()
    for tenant, trade in CAST.items():
        console.print(Text.assemble("  ", (f"{tenant:<7}", "bold"), trade))
    console.print()
    console.print(VIEW)
    pause(SECONDS_FOR_CAST)


def _tell_scene(console: Console, scene: PlayedScene, pause: Pause) -> None:
    pause(SECONDS_FOR_HEADING)
    console.print(_dialogue(scene.turns))
    pause(SECONDS_FOR_ANSWER)
    console.print()
    console.print(cluster_table(scene.before, scene.after))
    console.print(Text(waiting_line(scene.after), "" if scene.after.waiting else "dim"))
    pause(SECONDS_FOR_TABLE)


def _dialogue(turns: tuple[PlayedTurn, ...]) -> Table:
    """Each command with its time, and under it, indented, what it caused."""
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True, style="dim")
    lines.add_column()
    for turn in turns:
        lines.add_row(show_clock(turn.command.at), command_in_words(turn.command))
        for event, sentence in answer_in_words(turn):
            lines.add_row("", Text(sentence, STYLES.get(type(event), "")))
    return lines


def _tell_bills(
    console: Console, every: tuple[TenantBill, ...], revenue: int, pause: Pause
) -> None:
    pause(SECONDS_FOR_HEADING)
    for bill in every:
        console.print()
        console.print(Text(f"{bill.tenant} owes {show_charge(bill.charge)}", "bold"))
        console.print(bill_table(bill))
        pause(SECONDS_FOR_BILL)
    console.print()
    console.print(sum_table(every, revenue))
    console.print(Text(EXACTLY, "dim"))
