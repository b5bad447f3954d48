"""The cell magic `%%c++`: compiles the cell, runs it on some ranks, shows what came of it."""

import argparse
import re
import shlex
import sys
from pathlib import Path

from IPython.core.error import UsageError

from .build_settings import CELL_TARGET, load_build_settings
from ..cell_lines import CellLocator
from .cell_source import CellText, definitions_source, header_source, program_source
from .compiler import CompileError, compiler_of
from ..failures import CellFailed, plain
from .freshness import require_fresh_build
from .process import CellRun, run_cell
from ..workspace import Workspace

WRAPPER = re.compile(r"^.*In function.*::cell\(.*\n", re.MULTILINE)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        raise UsageError(f"%%c++: {message}. {self.format_usage()}")


def argument_parser() -> argparse.ArgumentParser:
    """The options of `%%c++`."""
    parser = _Parser(prog="%%c++", description=__doc__, add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("--ranks", type=int, default=1, help="run the cell on so many ranks")
    add("--mpi", action="store_true", help="ranks as processes under mpirun")
    add("--header", metavar="NAME", help="definitions: include them in the cells that follow")
    add("--rows", metavar="NAME", help="the Python name of the emitted rows (default: rows)")
    add("--release", action="store_true", help="compile with -O3, for a cell that takes time")
    add("--timeout", type=float, default=60.0, help="seconds until the cell is stopped")
    add("--fails", metavar="REGEX", help="the error that the cell is there to show")
    add("--links", metavar="NN_name", nargs="+", default=[], help="libraries of other chapters")
    return parser


class CppMagic:
    """Runs the C++ cells of one notebook, in order; remembers its headers."""

    def __init__(self, workspace: Workspace, user_namespace: dict):
        self._workspace = workspace
        self._user_namespace = user_namespace
        self._headers = {}
        self._locator, self._located_text = None, None
        self._parser = argument_parser()

    def __call__(self, line: str, body: str) -> None:
        options = self._parser.parse_args(shlex.split(line))
        if options.ranks < 1:
            raise UsageError(f"%%c++: --ranks {options.ranks} must be at least 1")
        if options.header and not options.header.isidentifier():
            raise UsageError(f"%%c++: --header {options.header} must be a name like my_functions")
        cell = self._cell_text(body)
        try:
            self._run(cell, options)
        except CellFailed as failure:
            if options.fails is None:
                raise
            _expect_failure(options.fails, failure, cell)
        else:
            if options.fails is not None:
                raise CellFailed(
                    f"{cell.place}: expected an error that matches {options.fails!r}, "
                    "but the cell succeeded"
                )

    def _run(self, cell: CellText, options: argparse.Namespace) -> None:
        require_fresh_build(
            self._workspace.build_dir, CELL_TARGET.format(chapter=self._workspace.chapter)
        )
        try:
            if options.header:
                self._define(cell, options)
                return
            if options.mpi:
                _require_mpi(self._workspace.build_dir, cell)
            headers = list(self._headers.values())
            source = program_source(cell, options.ranks, headers, mpi=options.mpi)
            binary = self._build(source, options)
        except CompileError as error:
            raise CellFailed(self._shortened(str(error))) from None
        run = run_cell(
            binary, options.ranks, options.timeout, self._workspace.root, mpi=options.mpi
        )
        _show(run)
        _raise_failures(run, cell)
        self._keep_rows(run, cell, options)

    def _define(self, cell: CellText, options: argparse.Namespace) -> None:
        header = compiler_of(self._workspace).save_header(options.header, header_source(cell))
        others = {name: path for name, path in self._headers.items() if name != options.header}
        self._build(definitions_source(header, list(others.values())), options)
        self._headers[options.header] = header

    def _build(self, source: str, options: argparse.Namespace):
        extra = []
        for chapter in options.links:
            extra += load_build_settings(self._workspace.build_dir, chapter).link_flags
        binary = compiler_of(self._workspace).build(
            source, release=options.release, link_flags=extra
        )
        if binary.warnings:
            print(self._shortened(binary.warnings), file=sys.stderr, end="")
        return binary.path

    def _cell_text(self, body: str) -> CellText:
        text = self._workspace.chapter_file.read_text(encoding="utf-8")
        if text != self._located_text:
            self._locator, self._located_text = CellLocator(text), text
        line = self._locator.find(body)
        if line is None:
            return CellText(body, "cell", 1)
        return CellText(body, self._workspace.chapter_file.name, line)

    def _shortened(self, messages: str) -> str:
        """Compiler messages with paths as the learner knows them, and without the function that
        we have put around the cell."""
        return WRAPPER.sub("", messages).replace(f"{self._workspace.root}/", "")

    def _keep_rows(self, run: CellRun, cell: CellText, options: argparse.Namespace) -> None:
        if run.rows:
            import pandas

            self._user_namespace[options.rows or "rows"] = pandas.DataFrame(run.rows)
        elif options.rows:
            raise CellFailed(f"{cell.place}: --rows {options.rows}, but the cell emitted no rows")


def _require_mpi(build_dir: Path, cell: CellText) -> None:
    """Without MPI in the build, each process under mpirun would run all ranks as its threads."""
    config = build_dir / "generated" / "build_config.hpp"
    if config.exists() and "kHasMpi = false" in config.read_text(encoding="utf-8"):
        raise CellFailed(f"{cell.place}: this build has no MPI: run ./workbook setup")


def _show(run: CellRun) -> None:
    """Prints what a cell printed, the ranks in their order."""
    if run.output:
        print(run.output, end="" if run.output.endswith("\n") else "\n")
    for rank, text in enumerate(run.by_rank):
        for line in text.splitlines():
            print(f"rank {rank} │ {line}")


def _raise_failures(run: CellRun, cell: CellText) -> None:
    failures = list(run.failures)
    if run.end and not (failures and run.end == "ended with exit code 1"):
        failures.append(f"{cell.place}: {run.end}")
    if failures:
        raise CellFailed("\n".join(failures))


def _expect_failure(pattern: str, failure: CellFailed, cell: CellText) -> None:
    message = str(failure)
    if not re.search(pattern, plain(message)):
        raise CellFailed(
            f"{cell.place}: expected an error that matches {pattern!r}, but it reads:\n{message}"
        ) from None
    print(message, file=sys.stderr)
