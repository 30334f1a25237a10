"""What became of many changes sent at once: which were made, and why the others were not."""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec import structs

from laissez.cli.terminal.exits import Exit, Failure, tell_failure
from laissez.cli.terminal.output import progress_bar, say, say_json, warn
from laissez.cli.terminal.sentences import LINES_MAX, say_events
from laissez.client import Client
from laissez.client.bulk import Outcomes
from laissez.model import Answer, Instruction, Refused, Rejected

FEW = 250
MANY_PATIENCE_S = 60.0
"""Many changes go on after so long without one that is taken: an allowance comes back."""


def refusal_in(answer: Answer | Refused) -> Refused | None:
    """The refusal, whether it was the service's or the market's."""
    if isinstance(answer, Refused):
        return answer
    last = answer.events[-1] if answer.events else None
    return Refused(answer.id, last.code, last.message) if isinstance(last, Rejected) else None


def refusals_in(answers: Sequence[Answer | Refused]) -> tuple[Refused, ...]:
    return tuple(refused for answer in answers if (refused := refusal_in(answer)))


def end_with(refused: Sequence[Refused], *, as_json: bool) -> None:
    """Leave with the code for refusals, if there are any, and say the first few on stderr."""
    if not refused:
        return
    if as_json:
        tell_failure(Failure(Exit.REFUSED, refused[0].code, refused[0].message), as_json=True)
    else:
        for each in refused[:LINES_MAX]:
            warn(f"laissez: {each.message}")
        if len(refused) > LINES_MAX:
            warn(f"laissez: ... and {len(refused) - LINES_MAX:,} more were refused")
    click.get_current_context().exit(Exit.REFUSED)


def send_all_shown(
    client: Client, instructions: Sequence[Instruction], title: str, *, as_json: bool
) -> list[Answer | Refused]:
    """Make many changes, with a bar; an interruption says what was done until then."""
    outcomes: Outcomes = {}
    try:
        few = len(instructions) <= FEW
        with progress_bar(title, as_json=as_json or few) as progress:
            return client.send_all(
                instructions, progress=progress, outcomes=outcomes, patience_s=MANY_PATIENCE_S
            )
    except KeyboardInterrupt:
        if not as_json:
            done = len(outcomes) - len(refusals_in([*outcomes.values()]))
            warn(
                f"laissez: stopped after {done:,} of {len(instructions):,}; run it again for the "
                "rest"
            )
        raise


def say_answer(answer: Answer, *, as_json: bool) -> None:
    """What one change did."""
    if as_json:
        say_json(answer)
    else:
        say_events(answer.events)


def say_answers(
    answers: Sequence[Answer | Refused],
    *,
    as_json: bool,
    nothing: str,
    hints: Sequence[str] = (),
) -> None:
    """What many changes did; ends the command where some were refused.

    A hint belongs to the answer at its place, and is told if that is a refusal.
    """
    if as_json:
        say_json(answers)
    else:
        done = [answer for answer in answers if isinstance(answer, Answer)]
        events = [e for answer in done for e in answer.events if not isinstance(e, Rejected)]
        if events or not answers:
            say_events(events, nothing)
        if len(events) > LINES_MAX:
            say(f"{len(answers) - len(refusals_in(answers)):,} of {len(answers):,} done")
    refused = [
        structs.replace(no, message=f"{no.message}{hint}")
        for each, hint in zip(answers, hints or [""] * len(answers), strict=True)
        if (no := refusal_in(each)) is not None
    ]
    end_with(refused, as_json=as_json)
