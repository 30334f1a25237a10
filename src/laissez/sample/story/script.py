"""The script: who says what, when, and how each part of the story is introduced.

It is data, a tuple of beats with the commands that the market will be given, so that it plays the
same every time. All times are multiples of six minutes and all rates multiples of ten cents: then
every charge is a whole number of cents, and whoever adds up the bills by hand gets the revenue.
"""

from typing import NamedTuple

from laissez.model import (
    AddResource,
    Advance,
    Amend,
    Command,
    Place,
    SetFloor,
    SetGuard,
    SetLimit,
    Settle,
)
from laissez.sample.amounts import cents, minutes


class Beat(NamedTuple):
    """One part of the story: a heading, a sentence or two on what to look for, the commands."""

    heading: str
    aside: str
    commands: tuple[Command, ...]


CAST = {
    "Ada": "trains a language model, and saves a checkpoint every hour or so",
    "Bruno": "serves a chatbot, and needs more in the evening",
    "Chen": "computes embeddings overnight, wherever it is cheap",
    "Dalia": "has a paper to finish by tomorrow",
}

OPENING = Beat(
    "The operator opens a market of eight GPUs",
    "Six H100s in two zones, from $2.00 an hour, and two A100s from $1.10. The rate of a GPU is "
    "the best bid of somebody else who wants it, and at least its floor. Its holder stays while "
    "the rate is within its limit; on an H100 the first 18 minutes are safe in any case.",
    (
        SetFloor(0, "h100", cents(200)),
        SetFloor(0, "a100", cents(110)),
        SetGuard(0, "h100", hold=minutes(18)),
        AddResource(0, "h100/east/r1/g0"),
        AddResource(0, "h100/east/r1/g1"),
        AddResource(0, "h100/east/r2/g0"),
        AddResource(0, "h100/east/r2/g1"),
        AddResource(0, "h100/west/r3/g0"),
        AddResource(0, "h100/west/r3/g1"),
        AddResource(0, "a100/west/r4/g0"),
        AddResource(0, "a100/west/r4/g1"),
    ),
)

BEATS = (
    Beat(
        "Ada takes two neighbouring H100s",
        "First any H100, then a sibling near the one she holds. She would follow the rate up to "
        "her limit, $5.00, but nobody presses: she pays the floor.",
        (
            Place(0, "Ada", "ada-1", "h100", limit=cents(500)),
            Place(0, "Ada", "ada-2", "h100/east/r1", limit=cents(500)),
        ),
    ),
    Beat(
        "Bruno and Chen take the other four",
        "Each goes where most is free. Bruno would follow far, Chen would not.",
        (
            Place(minutes(6), "Bruno", "bruno-1", "h100", limit=cents(450)),
            Place(minutes(6), "Bruno", "bruno-2", "h100", limit=cents(450)),
            Place(minutes(6), "Chen", "chen-1", "h100", limit=cents(260)),
            Place(minutes(6), "Chen", "chen-2", "h100", limit=cents(220)),
        ),
    ),
    Beat(
        "Dalia needs an H100 and none is free: the weakest makes room",
        "Of all H100s, Chen's second has the lowest limit. One order moves one GPU: he keeps his "
        "first, although its limit too is below $3.00.",
        (Place(minutes(24), "Dalia", "dalia-1", "h100", price=cents(300), limit=cents(350)),),
    ),
    Beat(
        "Chen answers too late, is refused, and moves to an A100",
        "A refusal changes nothing, and says why.",
        (
            SetLimit(minutes(30), "Chen", "h100/west/r3/g1", cents(310)),
            Place(minutes(30), "Chen", "chen-3", "a100", limit=cents(150)),
        ),
    ),
    Beat(
        "Power gets dear on rack r2: the operator raises its floor",
        "On r2 Bruno follows; Chen, whose limit is lower, leaves. Ada takes what is free.",
        (
            SetFloor(minutes(30), "h100/east/r2", cents(280)),
            Place(minutes(30), "Ada", "ada-3", "h100", limit=cents(500)),
        ),
    ),
    Beat(
        "Evening: Bruno bids for one more, and everybody else follows",
        "Ada follows. $3.80 is more than Dalia's limit, but her first 18 minutes are not over: she "
        "pays her limit, and stays for now.",
        (Place(minutes(36), "Bruno", "bruno-3", "h100", price=cents(380), limit=cents(450)),),
    ),
    Beat(
        "Nobody says a word: Dalia's 18 minutes are over",
        "Now she has to leave. Bruno's order is filled, so it presses nobody any more.",
        (Advance(minutes(42)),),
    ),
    Beat(
        "Dalia comes back, and bids Bruno up to his limit",
        "At $4.50 Bruno stands at his limit, pays it, and stays. A cent more and he would leave.",
        (
            Place(minutes(54), "Dalia", "dalia-2", "h100", price=cents(300), limit=cents(480)),
            Amend(minutes(66), "Dalia", "dalia-2", price=cents(450)),
        ),
    ),
    Beat(
        "Ada's training job passes a checkpoint and lowers its limit",
        "It can stop here without losing work, and $4.00 is all that going on is worth. Dalia, who "
        "waited, gets the GPU, and presses nobody any more.",
        (SetLimit(minutes(78), "Ada", "h100/east/r1/g0", cents(400)),),
    ),
    Beat(
        "Dalia would like the sibling of the GPU she holds",
        "She orders in its rack only, so only Ada, who holds the sibling, feels it.",
        (
            Place(
                minutes(84),
                "Dalia",
                "dalia-3",
                "h100/east/r1",
                price=cents(320),
                limit=cents(480),
                expires=minutes(102),
            ),
        ),
    ),
    Beat(
        "Nobody says a word: Dalia's order expires",
        "The order had an end, and has reached it. Ada pays the floor again.",
        (Advance(minutes(102)),),
    ),
)

CLOSING = Beat(
    "After two hours the operator closes the books",
    "Each charge is explained: so long at the floor, so long at the best bid of others (demand), "
    "or at the limit instead while a holding was safe (hold).",
    (Settle(minutes(120)),),
)

SCRIPT = (OPENING, *BEATS, CLOSING)
