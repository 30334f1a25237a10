"""YAML documents that people write, read into typed values; what is wrong is said with its line.

A room whose users write a file describes it as a `msgspec.Struct` and calls `read`: it gets the
value, and a `Document` that knows the line of every part, or a `BadDocument` with everything there
is to mend. It may import `amounts`, for what people write as money, shares and durations; it is
given text, and opens no file.

    source       text -> YAML nodes that know their place
    nodes        the fields of a node, and what is said of those that can't be there
    quantities   fields that are written as amounts: Dollars, Duration, Percentage
    declared     the words of a field in the order of its author
    reading      nodes + the types of a Struct -> a value
    document     the value, and the way from a place such as `$.scopes[2]` to its line
    problems     what there is to mend, shown at its place in the text
"""

from laissez.documents.document import Document, read
from laissez.documents.problems import BadDocument, BadField, Problem
from laissez.documents.quantities import (
    Dollars,
    DollarsPerHour,
    Duration,
    Percentage,
    PositiveNumber,
    Share,
    duration,
)

__all__ = [
    "BadDocument",
    "BadField",
    "Document",
    "Dollars",
    "DollarsPerHour",
    "Duration",
    "Percentage",
    "PositiveNumber",
    "Problem",
    "Share",
    "duration",
    "read",
]
