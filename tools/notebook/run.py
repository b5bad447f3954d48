#!/usr/bin/env python3
"""Executes chapters as tests: each from a clean kernel, each cell a case.

    run.py                 all chapters
    run.py 01 04/offload   some of them, by number or name, or by the path of the .md

Writes to the output folder, for each chapter, the page NN_name.html, the executed NN_name.ipynb,
the JUnit report NN_name.xml, and in NN_name.code what it was executed from; for a room of it
NN_name.room.html and so on. Exits with 1 when a cell failed.
"""

import argparse
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import nbformat  # noqa: E402  (after the path)

from ultra_notebook.execute import execute_chapter  # noqa: E402
from ultra_notebook.executed_code import (  # noqa: E402
    RUN_METADATA,
    digest_of_code,
    run_on_this_machine,
)
from ultra_notebook.failures import plain  # noqa: E402
from ultra_notebook.cells.fingerprint import write_atomically  # noqa: E402
from ultra_notebook.pages.glossary import read_glossary  # noqa: E402
from ultra_notebook.pages.page import (  # noqa: E402
    PageError,
    chapter_page,
    glossary_page,
    neighbours_of,
)
from ultra_notebook.pictures.picture import key_pictures, picture_faults, write_pictures  # noqa: E402
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
    parser.add_argument("--write-pictures", action="store_true",
                        help="write the key pictures that show other data than their files")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "notebooks")
    return parser.parse_args()


def run_chapter(workspace: Workspace, output: Path, write: bool) -> bool:
    """Executes one chapter, writes its files, says how it went; whether it passed."""
    code = digest_of_code(workspace.root, workspace.chapter_file)
    notebook, result = execute_chapter(workspace, report_cell(workspace.chapter_file.name))
    notebook.metadata[RUN_METADATA] = run_on_this_machine()
    if not result.failures:
        result.complaint = picture_complaint(workspace.chapter_file, key_pictures(notebook), write)
    output.mkdir(parents=True, exist_ok=True)
    page = output / f"{result.name}.html"
    try:
        glossary = read_glossary(workspace.root)
        file, neighbours = workspace.chapter_file, neighbours_of(workspace.chapter_file, workspace.root)
        write_atomically(page, chapter_page(notebook, file.parent, output, glossary, neighbours))
        if glossary.words:
            write_atomically(output / "glossary.html", glossary_page(workspace.root, output))
    except PageError as error:
        result.complaint = f"{workspace.chapter_file.name}:1: {error}"
    write_atomically(output / f"{result.name}.ipynb", nbformat.writes(notebook))
    write_atomically(output / f"{result.name}.xml", junit_report(result))
    write_atomically(output / f"{result.name}.code", code if not result.failures else "")
    for failure in result.failures:
        print(f"\n{plain(failure)}")
    passed = f"{result.count(PASSED)} of {len(result.cells)} cells passed"
    print(f"\n{result.name}: {passed} in {result.seconds:.1f} s: {page}", flush=True)
    return not result.failures


def picture_complaint(file: Path, shown: list, write: bool) -> str:
    """What is wrong with the files of the key pictures, after writing them if that is wanted."""
    if write:
        for name in write_pictures(file, shown):
            print(f"wrote {file.parent / 'figures' / name}")
    faults = picture_faults(file, shown)
    advice = f"; to write them: tools/notebook run {file} --write-pictures"
    return f"{file.name}:1: {'; '.join(faults)}{advice}" if faults else ""


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
    return 0 if all([run_chapter(w, arguments.output.resolve(), arguments.write_pictures) for w in workspaces]) else 1


if __name__ == "__main__":
    sys.exit(main())
