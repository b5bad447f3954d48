"""Quotes a named region of a source file, so that a chapter never holds a copy of the code.

What a solution shows stays folded on a page, and in Jupyter hidden until its exercise passes. The region stands between two comments of the file:

    // [region recompute]
    ...
    // [/region]
"""

import os
import textwrap
from dataclasses import dataclass
from pathlib import Path

from .exercises import exercise_of_solution, has_passed, is_executed_as_a_test
from .failures import NotebookError
from .workspace import current_workspace

LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".cu": "cuda", ".cuh": "cuda", ".py": "python"}


@dataclass(frozen=True)
class Region:
    """A quoted piece of a source file; the notebook shows it highlighted, with a link."""

    path: str
    first_line: int
    code: str
    link: str
    exercise: str | None = None
    """The exercise whose solution it is."""

    def _repr_markdown_(self) -> str:
        if not self.exercise:
            return self._quote()
        check = f"`./workbook check {self.exercise}`"
        if is_executed_as_a_test():
            summary = f"The reference of exercise {self.exercise}, for after yours passes"
            return f"<details>\n<summary>{summary}</summary>\n\n{self._quote()}\n\n</details>"
        if has_passed(self.exercise):
            return self._quote()
        return (
            f"*The reference of exercise {self.exercise} stands here once yours passes ({check}); then "
            f"run this cell again. To read it without that: [`{self.path}`]({self.link}).*"
        )

    def _quote(self) -> str:
        language = LANGUAGES.get(Path(self.path).suffix, "")
        last_line = self.first_line + self.code.count("\n")
        label = f"{self.path}:{self.first_line}-{last_line}"
        return f"[`{label}`]({self.link})\n\n```{language}\n{self.code}\n```"

    def __repr__(self) -> str:
        place = f"{self.path}:{self.first_line}"
        return place if self.exercise else f"{place}\n{self.code}"


def region(path: str, name: str) -> Region:
    """The region `name` of the file at `path` (from the root of the checkout).

    @raises NotebookError when the file or the region is not there
    """
    workspace = current_workspace()
    file = workspace.root / path
    if not file.is_file():
        raise NotebookError(f"{path} does not exist")
    lines = file.read_text(encoding="utf-8").splitlines()
    first, last = _find_region(lines, path, name)
    code = textwrap.dedent("\n".join(lines[first:last])).strip("\n")
    link = os.path.relpath(file, workspace.chapter_file.parent)
    return Region(path, first + 1, code, link, exercise_of_solution(workspace, path))


def _find_region(lines: list[str], path: str, name: str) -> tuple[int, int]:
    """The indexes of the first line and of the line behind the last."""
    starts = [i for i, line in enumerate(lines) if _comment(line) == f"[region {name}]"]
    if len(starts) != 1:
        raise NotebookError(f"{path} has {len(starts)} regions `// [region {name}]`, not one")
    first = starts[0] + 1
    for last in range(first, len(lines)):
        if _comment(lines[last]) == "[/region]":
            return first, last
    raise NotebookError(f"{path}: region {name} has no end `// [/region]`")


def _comment(line: str) -> str:
    return line.strip().lstrip("/#").strip()
