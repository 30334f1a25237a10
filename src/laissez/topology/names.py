"""The market's rules for the names in a path, as advice to whoever writes them.

The market states them in its own room and has the last word; a test holds the two together.
"""

DEPTH_MAX = 128


def name_problem(name: str, *, slash_allowed: bool = False) -> str:
    """The rest of a sentence that began with the name; empty if the name is good."""
    if not name:
        return "is empty; write a name"
    if name != name.strip():
        return "has white space at its ends; remove it"
    if "/" in name and not slash_allowed:
        return "has a '/' in it, which joins names; give each level its own name"
    if not name.isprintable():
        return "has signs in it that can't be printed; remove them"
    return ""
