"""The attributes of a block: texts with placeholders, filled in for each resource.

A placeholder is the name of a level, or `path`; a brace that is meant is written twice. A
template is kept as a format string with positions for placeholders, checked when it is read, so
that filling it in cannot fail. What does not depend on the innermost levels is made once and shared
by all resources there.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, product, repeat
from math import prod
from string import Formatter

from laissez.documents.nodes import Field, is_empty
from laissez.documents.problems import Problems, shown
from laissez.topology.cluster import LEVELS_ATTRIBUTE, Attributes
from laissez.topology.fields import mapping, scalar
from laissez.topology.names import name_problem

PATH_PLACEHOLDER = "path"


def read_templates(field: Field | None, levels: tuple[str, ...], problems: Problems) -> Attributes:
    """Pairs of key and template, sorted by key."""
    if field is None or is_empty(field.value):
        return ()
    example = '{address: "{host}.example.com"}'.replace("host", levels[-1])
    attributes = mapping(field.value, field.name, example, problems) or {}
    templates = []
    for attribute in attributes.values():
        wrong = name_problem(attribute.name, slash_allowed=True)
        if attribute.name == LEVELS_ATTRIBUTE:
            wrong = "is set by laissez itself; choose another key"
        if wrong:
            problems.add(attribute.key.start_mark, f"attribute {shown(attribute.name)} {wrong}")
            continue
        text = scalar(attribute.value, attribute.name, f'{attribute.name}: "..."', problems)
        if text is not None:
            templates.append((attribute.name, _template(attribute, text, levels, problems)))
    return tuple(sorted(templates))


def _template(attribute: Field, text: str, levels: tuple[str, ...], problems: Problems) -> str:
    known = (*levels, PATH_PLACEHOLDER)
    mark = attribute.value.start_mark
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        problems.add(mark, f"{attribute.name} has half a character in it; write whole ones")
        return ""
    template = ""
    try:
        for literal, placeholder, form, conversion in Formatter().parse(text):
            template += literal.replace("{", "{{").replace("}", "}}")
            if placeholder is None:
                continue
            if placeholder in known and not form and not conversion:
                template += f"{{{known.index(placeholder)}}}"
                continue
            choices = ", ".join(f"{{{name}}}" for name in known)
            problems.add(
                mark,
                f"{attribute.name} has the placeholder {shown('{' + placeholder + '}')}, which is "
                f"not a level; use {choices}, or {{{{ for a brace",
            )
    except ValueError:
        problems.add(mark, f"{attribute.name} has a brace without its partner; write {{{{ for one")
    return template


def filled(
    templates: Attributes,
    joined_levels: str,
    names: Sequence[Collection[str]],
    paths: Sequence[str],
) -> Iterable[Attributes]:
    """The attributes of each path; the paths are the product of the names, in its order."""
    pairs = sorted((*templates, (LEVELS_ATTRIBUTE, joined_levels)))
    columns = [_column(key, template, names, paths) for key, template in pairs]
    return zip(*columns, strict=True)


def _column(
    key: str, template: str, names: Sequence[Collection[str]], paths: Sequence[str]
) -> Iterable[tuple[str, str]]:
    """One attribute of each path. Equal pairs beside each other are one object."""
    used = {int(place) for _, place, _, _ in Formatter().parse(template) if place is not None}
    if len(names) in used:
        return (
            (key, template.format(*chosen, path))
            for path, chosen in zip(paths, product(*names), strict=True)
        )
    depth = max(used, default=-1) + 1
    pairs = ((key, template.format(*chosen)) for chosen in product(*names[:depth]))
    times = prod(len(level) for level in names[depth:])
    return chain.from_iterable(repeat(pair, times) for pair in pairs)
