"""Executed notebooks: those that ./workbook test has left, where their text and code are the same;
the others are executed."""

import subprocess
import sys
from enum import Enum
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from ultra_notebook.chapter_file import read_chapter
from ultra_notebook.executed_code import digest_of_code
from ultra_notebook.workspace import notebook_name


class Outputs(Enum):
    """Which outputs a site shows."""

    FRESH = "fresh"
    """Of the code as it is: what is not is executed."""
    STORED = "stored"
    """Of the same text, whatever code has changed since."""
    NONE = "none"
    """None: pages of cells alone."""


class NotExecuted(Exception):
    """A notebook that does not pass."""


def executed_notebook(root: Path, file: Path, outputs: Outputs) -> NotebookNode:
    """A notebook with its outputs; executes it when that is needed.

    @raises NotExecuted when a cell fails
    """
    if outputs is Outputs.NONE:
        return read_chapter(file)
    stored = root / "build" / "notebooks" / f"{notebook_name(file)}.ipynb"
    stamp = stored.with_suffix(".code")
    if stored.is_file():
        is_fresh = stamp.is_file() and stamp.read_text() == digest_of_code(root, file)
        if is_fresh or outputs is Outputs.STORED:
            notebook = nbformat.read(stored, as_version=4)
            if has_text_of(notebook, file):
                return notebook
    return _execute(root, file, stored)


def has_text_of(notebook: NotebookNode, file: Path) -> bool:
    """Whether an executed notebook is of the file as it is now."""
    return [cell.source for cell in notebook.cells] == [
        cell.source for cell in read_chapter(file).cells
    ]


def _execute(root: Path, file: Path, stored: Path) -> NotebookNode:
    command = [sys.executable, str(root / "tools" / "notebook"), "run", str(file)]
    print(f"executing {file.relative_to(root)} ...", flush=True)
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotExecuted(
            f"{file.relative_to(root)} does not pass:\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return nbformat.read(stored, as_version=4)
