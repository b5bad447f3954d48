"""Executes a chapter from a clean kernel, cell by cell."""

import ast
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from .cell_lines import split_magic
from .chapter_file import KERNEL, code_cell_lines, read_chapter
from .failures import plain
from .patience import patient
from .results import FAILED, PASSED, CellResult, ChapterResult
from .workspace import EXECUTED_VARIABLE, TOOLS, Workspace

CELL_TIMEOUT = 300
"""Seconds after which a Python cell is given up; C++ cells have their own --timeout."""

CPP_ASSERTION = re.compile(r"\b(?:EXPECT|ASSERT)_[A-Z]+|--fails\b")
PYTHON_FRAME = re.compile(r"Cell In\[\d+\], line (\d+)")


def execute_chapter(
    workspace: Workspace, report: Callable[[CellResult], None]
) -> tuple[NotebookNode, ChapterResult]:
    """Executes all cells, up to the first that fails; calls `report` after each.

    Returns the notebook with its outputs, and what became of each cell.
    """
    notebook = read_chapter(workspace.chapter_file)
    file = workspace.chapter_file.name
    lines = code_cell_lines(workspace.chapter_file, notebook)
    cells = [index for index in lines if notebook.cells[index].source.strip()]
    result = ChapterResult(workspace.name, [_describe(notebook, i, lines[i]) for i in cells])
    if not cells:
        result.complaint = f"{file}:1: the chapter has no cells: nothing was executed"
    elif not any(_asserts(notebook.cells[index].source) for index in cells):
        result.complaint = f"{file}:1: no cell asserts anything"
    asyncio.run(_execute_cells(workspace, notebook, dict(zip(cells, result.cells)), report))
    return notebook, result


async def _execute_cells(
    workspace: Workspace,
    notebook: NotebookNode,
    cells: dict[int, CellResult],
    report: Callable[[CellResult], None],
) -> None:
    with tempfile.TemporaryDirectory(prefix="ultra-nb-") as scratch:
        client = NotebookClient(
            notebook,
            timeout=int(patient(CELL_TIMEOUT)),
            coalesce_streams=True,
            km=_kernel_manager(Path(scratch)),
        )
        environment = _kernel_environment(workspace, Path(scratch))
        async with client.async_setup_kernel(
            env=environment, cwd=str(workspace.root), cleanup_kc=True
        ):
            for index, cell_result in cells.items():
                await _execute_cell(client, index, cell_result, workspace)
                report(cell_result)
                if cell_result.outcome == FAILED:
                    return


def _kernel_manager(scratch: Path) -> AsyncKernelManager:
    """A kernel behind a socket in the scratch folder: chapters that start at the same time would
    otherwise race for a free port."""
    os.environ["JUPYTER_PATH"] = str(TOOLS / "jupyter")
    manager = AsyncKernelManager(kernel_name=KERNEL["name"])
    manager.transport, manager.ip = "ipc", str(scratch / "kernel")
    manager.connection_file = str(scratch / "connection.json")
    return manager


def _kernel_environment(workspace: Workspace, scratch: Path) -> dict[str, str]:
    """The learner's own IPython settings must not decide whether a chapter passes."""
    own = {"IPYTHONDIR": str(scratch), "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    python_first = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    executed = {EXECUTED_VARIABLE: "1"}
    return {**os.environ, **own, **workspace.environment(), **executed, "PATH": python_first}


async def _execute_cell(
    client: NotebookClient, index: int, result: CellResult, workspace: Workspace
) -> None:
    cell = client.nb.cells[index]
    start = time.monotonic()
    try:
        await client.async_execute_cell(cell, index)
        result.outcome = PASSED
    except CellExecutionError:
        result.outcome, result.message = FAILED, _error_message(cell, result, workspace)
    except (CellTimeoutError, DeadKernelError) as error:
        what = f"{type(error).__name__}: {str(error).strip()}"
        result.outcome, result.message = FAILED, f"{workspace.chapter_file.name}:{result.line}: {what}"
    result.seconds = time.monotonic() - start


def _error_message(cell: NotebookNode, result: CellResult, workspace: Workspace) -> str:
    """The cell's error, beginning with the line of the chapter that it points at."""
    error = next(output for output in cell.outputs if output.output_type == "error")
    message, name = plain(error.evalue).strip(), workspace.chapter_file.name
    if result.language == "c++":
        return message if message.startswith(name) else f"{name}:{result.line}: {message}"
    frames = PYTHON_FRAME.findall(plain("\n".join(error.traceback)))
    offset = int(frames[-1]) - 1 if frames and result.language == "python" else 0
    message = message or split_magic(cell.source)[1].split("\n")[offset].strip()
    return f"{name}:{result.line + offset}: {error.ename}: {message}"


def _describe(notebook: NotebookNode, index: int, line: int) -> CellResult:
    magic, body = split_magic(notebook.cells[index].source)
    language = magic.removeprefix("%%").partition(" ")[0] or "python"
    return CellResult(line, language, next(filter(None, map(str.strip, body.split("\n"))), ""))


def _asserts(source: str) -> bool:
    magic, body = split_magic(source)
    if magic:
        return bool(CPP_ASSERTION.search(source))
    try:
        return any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(body)))
    except SyntaxError:  # a line magic; the cell itself will tell if it is anything else
        return bool(re.search(r"^\s*assert\b", body, re.MULTILINE))
