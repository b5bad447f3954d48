"""Errors that the learner reads: shown as their message, without a traceback through our code."""

import re

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def plain(text: str) -> str:
    """The text without terminal colours."""
    return ANSI.sub("", text)


class NotebookError(Exception):
    """An error whose message says everything."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback."""
        text = str(self)
        return [text if ANSI.search(text) else f"\x1b[31m{text}\x1b[0m"]


class CellFailed(NotebookError):
    """A C++ cell that did not compile, did not run to its end or did not hold what it claims."""


class TrainingFailed(NotebookError):
    """A chapter's executable that ended with an error."""
