"""Executed notebooks: those that ./workbook test has left, where their text and code are the same;
the others are executed. One that fails costs the site its own outputs behind the failure, no more."""

import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from ultra_notebook.chapter_file import read_chapter
from ultra_notebook.executed_code import digest_of_code
from ultra_notebook.failures import plain
from ultra_notebook.workspace import notebook_name


class Outputs(Enum):
    """Which outputs a site shows."""

    FRESH = "fresh"
    """Of the code as it is: what is not is executed."""
    STORED = "stored"
    """Of the same text, whatever code has changed since."""
    NONE = "none"
    """None: pages of cells alone."""


@dataclass(frozen=True)
class Executed:
    """A notebook with its outputs, up to the first cell that failed."""

    notebook: NotebookNode
    failure: str = ""
    """What failed, and where; empty when nothing did."""

    @property
    def failed_cell(self) -> int:
        """The number of the cell that failed, of those with code; 0 when none did."""
        code = [cell for cell in self.notebook.cells if cell.cell_type == "code"]
        failed = (number for number, cell in enumerate(code, 1) if _error_of(cell))
        return next(failed, 0)


def executed_notebook(root: Path, file: Path, outputs: Outputs) -> Executed:
    """A notebook with its outputs; executes it when that is needed."""
    if outputs is Outputs.NONE:
        return Executed(read_chapter(file))
    stored = root / "build" / "notebooks" / f"{notebook_name(file)}.ipynb"
    stamp = stored.with_suffix(".code")
    if stored.is_file():
        is_fresh = stamp.is_file() and stamp.read_text() == digest_of_code(root, file)
        if is_fresh or outputs is Outputs.STORED:
            notebook = nbformat.read(stored, as_version=4)
            if has_text_of(notebook, file):
                errors = filter(None, map(_error_of, notebook.cells))
                return Executed(notebook, next(errors, ""))
    return _execute(root, file, stored)


def _error_of(cell: NotebookNode) -> str:
    """What a cell's error output says; empty without one."""
    errors = [one for one in cell.get("outputs", []) if one.output_type == "error"]
    return f"{errors[0].ename}: {plain(errors[0].evalue)}" if errors else ""


def has_text_of(notebook: NotebookNode, file: Path) -> bool:
    """Whether an executed notebook is of the file as it is now."""
    return [cell.source for cell in notebook.cells] == [
        cell.source for cell in read_chapter(file).cells
    ]


def _execute(root: Path, file: Path, stored: Path) -> Executed:
    command = [sys.executable, str(root / "tools" / "notebook"), "run", str(file)]
    print(f"executing {file.relative_to(root)} ...", flush=True)
    stored.unlink(missing_ok=True)  # what is there then, this run has written
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    notebook = nbformat.read(stored, as_version=4) if stored.is_file() else read_chapter(file)
    said = "" if done.returncode == 0 else (done.stdout + done.stderr)[-3000:]
    return Executed(notebook, said or f"exit code {done.returncode}" if done.returncode else "")
