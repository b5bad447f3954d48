"""Runs a compiled cell: its output by rank, its rows, its failures, and how it ended."""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from ..failures import CellFailed
from ..patience import patient

MAX_OUTPUT = 100_000
"""Characters of output that are shown, per rank."""

FAILURE_SEPARATOR = "\n\x1e"
"""Ends each record of failures.txt (include/notebook/cell.hpp writes it)."""


LAST_WORDS = 3.0
"""Seconds that mpirun gets to end what it has started."""


@dataclass
class CellRun:
    """What a cell did."""

    output: str
    """What the process printed outside of any rank: all of it, when there is one rank."""
    by_rank: list[str]
    rows: list[dict] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Failed expectations and exceptions, in the order in which they happened."""
    end: str = ""
    """How the process ended, when it did not end well: an exit code, a signal, the timeout."""


def run_cell(
    binary: Path, world_size: int, timeout: float, directory: Path, *, mpi: bool = False
) -> CellRun:
    """Runs a cell's binary in `directory`, for at most `timeout` seconds.

    With `mpi` its ranks are processes that mpirun starts.
    """
    command = [*(_mpirun(world_size) if mpi else []), str(binary)]
    with tempfile.TemporaryDirectory(prefix="ultra-cell-") as folder:
        environment = {**os.environ, "ULTRA_NOTEBOOK_OUTPUT": folder}
        if mpi and os.geteuid() == 0:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        output, end = _run_to_its_end(command, timeout, directory, environment)
        return CellRun(
            output=_shortened(output),
            by_rank=_read_by_rank(Path(folder), world_size),
            rows=_read_rows(Path(folder)),
            failures=_read_failures(Path(folder)),
            end=end,
        )


def _mpirun(processes: int) -> list[str]:
    """The command in front of a program: more processes than cores is normal here."""
    if shutil.which("mpirun") is None:
        raise CellFailed("there is no mpirun here: ./workbook setup installs it")
    options = ["-quiet", "--oversubscribe", "--bind-to", "none"]
    return ["mpirun", *options, "-n", str(processes)]


def _run_to_its_end(
    command: list[str], timeout: float, directory: Path, environment: dict[str, str]
) -> tuple[str, str]:
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))  # a crash on purpose is common here
    end = ""
    try:
        output, _ = process.communicate(timeout=patient(timeout))
    except subprocess.TimeoutExpired:
        _stop(process, command)
        output, _ = process.communicate()
        end = f"still running after {patient(timeout):g} s: stopped"
    except BaseException:  # the learner interrupts the kernel
        _stop(process, command)
        raise
    return output.decode(errors="replace"), end or _end(process.returncode)


def _stop(process: subprocess.Popen, command: list[str]) -> None:
    try:
        if command[0] == "mpirun":  # its ranks are not of its process group
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LAST_WORDS)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended


def _end(code: int) -> str:
    if code == 0:
        return ""
    if code > 0:
        return f"ended with exit code {code}"
    return f"crashed with {signal.Signals(-code).name} ({signal.strsignal(-code)})"


def _shortened(text: str) -> str:
    if len(text) <= MAX_OUTPUT:
        return text
    return text[:MAX_OUTPUT] + f"\n... {len(text) - MAX_OUTPUT} more characters are not shown\n"


def _read_by_rank(folder: Path, world_size: int) -> list[str]:
    texts = []
    for rank in range(world_size):
        path = folder / f"rank-{rank}.txt"
        texts.append(_shortened(path.read_text(errors="replace")) if path.exists() else "")
    return texts


def _read_rows(folder: Path) -> list[dict]:
    files = {int(path.stem.removeprefix("rows-")): path for path in folder.glob("rows-*.jsonl")}
    return [
        json.loads(line) for rank in sorted(files) for line in files[rank].read_text().splitlines()
    ]


def _read_failures(folder: Path) -> list[str]:
    path = folder / "failures.txt"
    if not path.exists():
        return []
    records = path.read_text(errors="replace").split(FAILURE_SEPARATOR)
    return [record.strip("\n") for record in records if record.strip()]
