"""The exercises behind a chapter's text: what stays folded until they pass, and its problems."""

import json
import os
import sys
from pathlib import Path

from .failures import NotebookError
from .workspace import EXECUTED_VARIABLE, TOOLS, Workspace, current_workspace

sys.path.append(str(TOOLS.parent / "exercises"))  # a folder of plain modules, not a package
import catalog  # noqa: E402
import problems as problem_files  # noqa: E402
from progress import Progress  # noqa: E402


def is_executed_as_a_test() -> bool:
    """Whether run.py executes the notebook, and nobody sits before it."""
    return EXECUTED_VARIABLE in os.environ


def exercise_of_solution(workspace: Workspace, path: str) -> str | None:
    """ "02.1" for the path of its solution; None for a file that is no solution.

    @raises NotebookError for a file of solutions/ that is no exercise's
    """
    parts = Path(path).parts
    if parts[0] != "solutions":
        return None
    manifest = workspace.root / "exercises" / parts[1] / "exercises.json"
    entries = json.loads(manifest.read_text(encoding="utf-8"))["exercises"] if manifest.is_file() else []
    for entry in entries:
        if entry["file"] == parts[-1]:
            return f"{parts[1][:2]}.{entry['number']}"
    raise NotebookError(f"{path} is no exercise's solution: exercises/{parts[1]}/exercises.json lacks it")


def has_passed(exercise: str) -> bool:
    """Whether the reader's own file passes its check, as it is now."""
    return Progress().passed_and_unchanged(catalog.find_exercise(exercise))


class Problems:
    """A chapter's problems for pencil and paper, with their workings folded."""

    def __init__(self, markdown: str):
        self._markdown = markdown

    def _repr_markdown_(self) -> str:
        return self._markdown

    def __repr__(self) -> str:
        return self._markdown


def problems() -> Problems:
    """The problems of the notebook's chapter.

    @raises NotebookError when it has none
    """
    chapter = current_workspace().chapter
    markdown = problem_files.as_markdown(chapter)
    if not markdown:
        raise NotebookError(f"chapter {chapter} has no problems: write exercises/{chapter}/problems.md")
    return Problems(markdown)
