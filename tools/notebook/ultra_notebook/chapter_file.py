"""A chapter's Markdown as a notebook, and the line of each cell in it.

The format is jupytext's `md`: a fenced block in python, c++ or bash is a cell, and
```` ```c++ magic_args="--ranks 4" ```` is the cell `%%c++ --ranks 4`. A fence in another language
(cpp, text, console) is prose.
"""

from pathlib import Path

import jupytext
from nbformat import NotebookNode

from .cell_lines import CellLocator, split_magic

KERNEL = {"display_name": "Ultra-Scale Workbook", "language": "python", "name": "ultra"}

JUPYTEXT_OPTIONS = {
    "formats": "ipynb,md",
    "notebook_metadata_filter": "kernelspec,-jupytext",
    "hide_notebook_metadata": True,
    "cell_metadata_filter": "tags,-all",
}
"""How a chapter is stored: no outputs, no versions, the kernel in an invisible comment."""


def read_chapter(path: Path) -> NotebookNode:
    """The notebook of a chapter's file, for our kernel whatever its header says."""
    options = jupytext.config.JupytextConfiguration(**JUPYTEXT_OPTIONS)
    text = path.read_text(encoding="utf-8")
    notebook = jupytext.reads(with_header(text), fmt="md", config=options)
    notebook.metadata["kernelspec"] = dict(KERNEL)
    return notebook


def with_header(text: str) -> str:
    """The text with a header that says python: without one, jupytext takes the commonest language
    of the cells for the notebook's, and the Python cells of a chapter in C++ would be lost."""
    if text.lstrip().startswith(("---", "<!--\n\n---")):
        return text
    header = "\n".join(f"    {key}: {value}" for key, value in KERNEL.items())
    return f"---\njupyter:\n  kernelspec:\n{header}\n---\n\n{text}"


def write_chapter(notebook: NotebookNode) -> str:
    """The Markdown of a notebook, as JupyterLab would save it."""
    options = jupytext.config.JupytextConfiguration(**JUPYTEXT_OPTIONS)
    return jupytext.writes(notebook, fmt="md", config=options)


def code_cell_lines(path: Path, notebook: NotebookNode) -> dict[int, int]:
    """The line of the first line of the body of each code cell, by the cell's index."""
    locator = CellLocator(path.read_text(encoding="utf-8"))
    lines = {}
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            lines[index] = locator.find(split_magic(cell.source)[1]) or 1
    return lines
