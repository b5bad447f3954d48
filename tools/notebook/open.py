#!/usr/bin/env python3
"""Opens a chapter in JupyterLab; what is saved there goes back to the chapter's Markdown.

    open.py 01 [options of `jupyter lab`, such as --no-browser --port 8899]
"""

import os
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import nbformat  # noqa: E402  (after the path)

from ultra_notebook.chapter_file import JUPYTEXT_OPTIONS, read_chapter  # noqa: E402
from ultra_notebook.workspace import WorkspaceError, find_chapter  # noqa: E402

ROOT = TOOLS.parents[1]


def make_notebook(chapter: Path) -> Path:
    """The .ipynb beside the chapter, made when it is not there; jupytext keeps the two together."""
    notebook = chapter.with_suffix(".ipynb")
    if not notebook.exists():
        notebook.write_text(nbformat.writes(read_chapter(chapter)), encoding="utf-8")
        changed = chapter.stat().st_mtime
        os.utime(notebook, (changed, changed))  # a newer .ipynb would count as the better source
    return notebook


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
        notebook = make_notebook(find_chapter(ROOT, sys.argv[1]))
    except WorkspaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    os.environ["JUPYTER_PATH"] = str(TOOLS / "jupyter")
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    command = lab_command(notebook, sys.argv[2:])
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
