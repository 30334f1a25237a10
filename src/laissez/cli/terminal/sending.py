"""Many changes by one token, at the pace that the service allows.

A token has an allowance. What goes beyond it is refused for now, with a hint when to come back, and
nothing has happened; so it is sent again, after as long. Only a slice is under way at a time: who
is interrupted knows what was done but for the last slice.
"""

from __future__ import annotations

from collections.abc import Sequence

from laissez.cli.terminal import clock
from laissez.cli.terminal.output import ShownProgress
from laissez.client import Client
from laissez.model import Answer, Instruction, Refused, ServiceCode

SLICE = 250
US_PER_S = 1_000_000
PATIENCE_US = 60 * US_PER_S
PAUSE_MS_MIN = 50
FOR_NOW = frozenset({ServiceCode.TOO_MANY_REQUESTS, ServiceCode.BUSY})


def send_paced(
    client: Client,
    instructions: Sequence[Instruction],
    outcomes: list[Answer | Refused],
    progress: ShownProgress,
) -> None:
    """Send all of it, and put each outcome into `outcomes` as it is known.

    What is refused for now for a minute on end stays refused, and so does all that follows it.
    """
    rest, total = list(instructions), len(instructions)
    until = clock.now_us() + PATIENCE_US
    while rest:
        part, rest = rest[:SLICE], rest[SLICE:]
        said = client.send_all(part, progress=part_of(len(outcomes), total, progress))
        late = [pair for pair in zip(part, said, strict=True) if _is_for_now(pair[1])]
        outcomes += [each for each in said if not _is_for_now(each)]
        progress(len(outcomes), total)
        if not late:
            continue
        if len(late) < len(part):
            until = clock.now_us() + PATIENCE_US
        elif clock.now_us() >= until:
            outcomes += [each for _, each in late] + [late[-1][1]] * len(rest)
            return
        rest = [do for do, _ in late] + rest
        clock.sleep_s(max(PAUSE_MS_MIN, *(_hint_ms(each) for _, each in late)) / 1_000)


def part_of(before: int, total: int, progress: ShownProgress) -> ShownProgress:
    """The progress of a part, as progress of the whole."""
    return lambda done, _: progress(before + done, total)


def _is_for_now(said: Answer | Refused) -> bool:
    return isinstance(said, Refused) and said.code in FOR_NOW


def _hint_ms(said: Answer | Refused) -> int:
    return (said.retry_after_ms or 0) if isinstance(said, Refused) else 0
