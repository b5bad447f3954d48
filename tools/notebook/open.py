#!/usr/bin/env python3
"""Opens a notebook in JupyterLab; what is saved there goes back to its Markdown.

    open.py 04 [options of `jupyter lab`, such as --no-browser --port 8899]
    open.py 04/offload                                           one of the chapter's rooms
"""

import os
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import nbformat  # noqa: E402  (after the path)

from ultra_notebook.chapter_file import JUPYTEXT_OPTIONS, read_chapter  # noqa: E402
from ultra_notebook.workspace import (  # noqa: E402
    WorkspaceError,
    chapter_folder,
    find_notebook,
    find_rooms,
)

ROOT = TOOLS.parents[1]


def make_notebook(chapter: Path) -> Path:
    """The .ipynb beside the chapter, made when it is not there; jupytext keeps the two together."""
    notebook = chapter.with_suffix(".ipynb")
    if not notebook.exists():
        notebook.write_text(nbformat.writes(read_chapter(chapter)), encoding="utf-8")
        changed = chapter.stat().st_mtime
        os.utime(notebook, (changed, changed))  # a newer .ipynb would count as the better source
    return notebook


def name_rooms(file: Path) -> None:
    """Says which notebooks a chapter has beside its own."""
    chapter = chapter_folder(file)
    rooms = find_rooms(file) if file.parent == chapter else []
    for room in rooms:
        print(f"{chapter.name} has more to read: ./workbook notebook {chapter.name[:2]}/{room.stem}")


def lab_command(notebook: Path, options: list[str]) -> list[str]:
    """The command line of JupyterLab, with the notebook opened."""
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={ROOT}"]
    command.append(f"--LabApp.default_url=/lab/tree/{notebook.relative_to(ROOT)}")
    for option, value in JUPYTEXT_OPTIONS.items():
        command.append(f"--JupytextConfiguration.{option}={value}")
    if os.geteuid() == 0:
        command.append("--allow-root")
    return [*command, *options]


def main() -> int:
    """Replaces this process by JupyterLab."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if len(sys.argv) > 1 else 2
    try:
        file = find_notebook(ROOT, sys.argv[1])
        notebook = make_notebook(file)
    except WorkspaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    name_rooms(file)
    sys.stdout.flush()
    os.environ["JUPYTER_PATH"] = str(TOOLS / "jupyter")
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    command = lab_command(notebook, sys.argv[2:])
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
