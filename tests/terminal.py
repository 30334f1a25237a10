"""A small terminal: what is written to it, as somebody sees it.

It knows what our screens use: moving the cursor, clearing, the other screen, and going on in the
next row where a line is longer than the terminal is wide. Anything else is an error.
"""

from __future__ import annotations

import re

SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Terminal:
    def __init__(self, width: int, height: int) -> None:
        self.is_other_screen = False
        self.scrolled: list[str] = []
        self._half = ""
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        """A new size; what was shown is left as it comes, as terminals do."""
        shown = self.rows() if hasattr(self, "_cells") else []
        self.width, self.height = width, height
        self._cells = [[" "] * width for _ in range(height)]
        for row, text in zip(self._cells, shown[-height:], strict=False):
            row[: len(text)] = text[:width].ljust(min(len(text), width))
        self._row, self._column = min(len(shown), height - 1), 0

    def rows(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._cells]

    def text(self) -> str:
        """Everything on the screen, with lines that go on in the next row in one piece."""
        return "".join(
            "".join(row) if row[-1] != " " else "".join(row).rstrip() + "\n" for row in self._cells
        )

    def write(self, said: str) -> None:
        said = self._half + said
        at = 0
        while at < len(said):
            if said[at] == "\x1b":
                found = SEQUENCE.match(said, at)
                if found is None:
                    break  # the rest of it is still to come
                self._obey(found)
                at = found.end()
            else:
                self._put(said[at])
                at += 1
        self._half = said[at:]

    def _put(self, sign: str) -> None:
        if sign == "\r":
            self._column = 0
        elif sign == "\n":
            self._row += 1
        else:
            if self._column == self.width:
                self._row, self._column = self._row + 1, 0
            self._scroll()
            self._cells[self._row][self._column] = sign
            self._column += 1
        self._scroll()

    def _scroll(self) -> None:
        while self._row >= self.height:
            self.scrolled.append("".join(self._cells.pop(0)).rstrip())
            self._cells.append([" "] * self.width)
            self._row -= 1

    def _obey(self, found: re.Match[str]) -> None:
        private, numbers, letter = found.groups()
        if letter == "H":
            row, column = [int(number) for number in (numbers or "1;1").split(";")]
            self._row, self._column = min(row, self.height) - 1, min(column, self.width) - 1
        elif letter == "K" and not numbers:
            self._clear(self._row, self._column)
        elif letter == "J" and numbers in ("", "0"):
            self._clear(self._row, self._column)
            for row in range(self._row + 1, self.height):
                self._clear(row, 0)
        elif private and numbers == "1049":
            self.is_other_screen = letter == "h"
            self._cells = [[" "] * self.width for _ in range(self.height)]
        elif not (letter == "m" or (private and numbers == "25")):
            raise AssertionError(f"this terminal does not know {found[0]!r}")

    def _clear(self, row: int, column: int) -> None:
        self._cells[row][min(column, self.width - 1) :] = [" "] * (
            self.width - min(column, self.width - 1)
        )
