"""An adapter as people write it down: YAML -> the adapter, its application, its telemetry.

    adapter: on-demand
    name: web
    scopes: [h100/east]
    nodes: 4
    limit: 6.00

`adapter` says which of the ready-made ones it is, and so which other fields there are
(`adapter_specs`). A deadline is an instant, or a duration from the first start: whoever runs the
adapter remembers when that was, and says so when it builds.
"""

from __future__ import annotations

from pathlib import Path

from laissez.client.money import show_rate
from laissez.documents import BadField, Document, read
from laissez.runners.adapter_specs import Built, Spec

KINDS: dict[str, str] = {
    "on-demand": "A fixed number of nodes at a high limit, not interrupted while it suffices.",
    "spot": "A fixed number of nodes at a low limit; gives way to whoever offers more.",
    "deadline": "Work that is to be done by a deadline: patient first, sure of a node at the end.",
    "inference": "Replicas of a language model, as many as its load and objective are worth.",
    "training": "Elastic training: the best configuration that prices allow, with near GPUs.",
}


class AdapterFile:
    """A file that was read: what it says, and what can be made of it."""

    def __init__(self, document: Document[Spec]) -> None:
        self.spec = document.value
        self._document = document

    @property
    def kind(self) -> str:
        return str(type(self.spec).__struct_config__.tag)

    def build(self, began_us: int, folder: Path) -> Built:
        """For a first start at this instant; paths in the file are relative to `folder`.

        What can't be built is a BadDocument, too: it is the file that has to be changed.
        """
        try:
            return self.spec.build(began_us, folder)
        except BadField as error:
            raise self._document.wrong(error.place, str(error)) from None
        except ValueError as error:
            raise self._document.wrong("$", str(error)) from None

    def most_owed(self) -> str:
        """The greatest sum that it may owe, as a sentence."""
        per_hour, budget = self.spec.most_per_hour(), self.spec.budget
        rate = "" if per_hour is None else f", and {show_rate(per_hour)} at a time"
        if budget is not None:
            total = show_rate(budget.total).removesuffix("/h")
            return f"at most {total} in all while it runs{rate}"
        if per_hour is not None:
            return f"at most {show_rate(per_hour)}, for as long as it runs: there is no budget"
        return "what its work is worth to it, for as long as it runs: there is no budget"


def read_adapter(text: str, *, file_name: str) -> AdapterFile:
    """What a file says, or BadDocument with everything that is wrong with it."""
    return AdapterFile(read(text, Spec, file_name=file_name))  # type: ignore[arg-type]
