"""Cells in the text of a chapter: their magics and their lines."""

from collections.abc import Sequence


def split_magic(source: str) -> tuple[str, str]:
    """A cell's first line when it is a cell magic (`%%c++ --ranks 4`), else "", and the rest."""
    if not source.startswith("%%"):
        return "", source
    magic, _, body = source.partition("\n")
    return magic, body


class CellLocator:
    """Finds cells in the text of a chapter by what they say.

    Each search starts behind the cell found last and then wraps around, so two cells that read
    the same are told apart when they are looked up in their order.
    """

    def __init__(self, text: str):
        self._lines = text.split("\n")
        self._next = 0

    def find(self, body: str) -> int | None:
        """The number (from 1) of the first line of a cell's body; None when it is not there."""
        wanted = body.rstrip().split("\n")
        for start in (*range(self._next, len(self._lines)), *range(self._next)):
            if self._is_cell(start, wanted):
                self._next = start + len(wanted)
                return start + 1
        return None

    def _is_cell(self, start: int, wanted: Sequence[str]) -> bool:
        before = self._lines[start - 1] if start else ""
        if not before.startswith(("```", "%%")):
            return False
        found = self._lines[start : start + len(wanted)]
        return [line.rstrip() for line in found] == [line.rstrip() for line in wanted]
