#!/usr/bin/env python3
"""Executes chapters as tests: each from a clean kernel, each cell a case.

    run.py                 all chapters
    run.py 01 04/offload   some of them, by number or name, or by the path of the .md

Writes to the output folder, for each chapter, the page NN_name.html, the executed NN_name.ipynb
and the JUnit report NN_name.xml; for a room of it NN_name.room.html and so on. Exits with 1 when a
cell failed.
"""

import argparse
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import nbformat  # noqa: E402  (after the path)

from ultra_notebook.execute import execute_chapter  # noqa: E402
from ultra_notebook.failures import plain  # noqa: E402
from ultra_notebook.fingerprint import write_atomically  # noqa: E402
from ultra_notebook.page import PageError, chapter_page  # noqa: E402
from ultra_notebook.results import PASSED, CellResult, junit_report  # noqa: E402
from ultra_notebook.workspace import (  # noqa: E402
    Workspace,
    WorkspaceError,
    find_notebook,
    find_notebooks,
    open_workspace,
)

ROOT = TOOLS.parents[1]


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapters", nargs="*", help="01, 01_memory, 04/offload or a path; default: all")
    parser.add_argument("--build-dir", type=Path, help="default: build/release of the checkout")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "notebooks")
    return parser.parse_args()


def run_chapter(workspace: Workspace, output: Path) -> bool:
    """Executes one chapter, writes its files, says how it went; whether it passed."""
    notebook, result = execute_chapter(workspace, report_cell(workspace.chapter_file.name))
    output.mkdir(parents=True, exist_ok=True)
    page = output / f"{result.name}.html"
    try:
        write_atomically(page, chapter_page(notebook, workspace.chapter_file.parent, output))
    except PageError as error:
        result.complaint = f"{workspace.chapter_file.name}:1: {error}"
    write_atomically(output / f"{result.name}.ipynb", nbformat.writes(notebook))
    write_atomically(output / f"{result.name}.xml", junit_report(result))
    for failure in result.failures:
        print(f"\n{plain(failure)}")
    passed = f"{result.count(PASSED)} of {len(result.cells)} cells passed"
    print(f"\n{result.name}: {passed} in {result.seconds:.1f} s: {page}", flush=True)
    return not result.failures


def report_cell(file: str):
    """A function that prints one line per executed cell."""

    def report(cell: CellResult) -> None:
        place = f"{file}:{cell.line}"
        print(f"{place:24} {cell.outcome} {cell.seconds:6.2f} s  {cell.title[:60]}", flush=True)

    return report


def main() -> int:
    """Runs all chapters that were asked for."""
    arguments = parse_arguments()
    try:
        if arguments.chapters:
            files = [find_notebook(ROOT, wanted) for wanted in arguments.chapters]
        else:
            files = find_notebooks(ROOT)
        workspaces = [open_workspace(file, arguments.build_dir) for file in files]
    except WorkspaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not workspaces:
        print(f"error: no chapters in {ROOT / 'chapters'}", file=sys.stderr)
        return 2
    return 0 if all([run_chapter(w, arguments.output.resolve()) for w in workspaces]) else 1


if __name__ == "__main__":
    sys.exit(main())
