"""Compiles cells, and remembers the binaries.

A binary is named by a hash of its source, the flags and the compiler's version. Beside it stand the
hashes of every header and library it was built from and of the binary itself: it is used again only
when all of them are still the same. The headers that all cells share are precompiled once.
"""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .build_settings import BuildSettings, load_build_settings
from .fingerprint import (
    are_unchanged,
    hash_file,
    hash_files,
    hash_text,
    read_depfile,
    write_atomically,
)
from ..workspace import TOOLS, Workspace

MAX_BINARIES = 400
"""The cache keeps the binaries used last."""

DEAR_MODULES = ("data", "gpu", "nn", "replay", "storage", "trace", "train")
"""Modules of common/ whose headers are not precompiled, so a cell has to include them: GCC instantiates
the templates of what is precompiled anew for every cell (0.5 s with all but train, 0.3 without these;
4 s with train, which brings a command-line parser), and few cells need them."""

CELL_FLAGS = (
    "-Wall",
    "-Wextra",
    "-fmax-errors=5",
    "-fdiagnostics-color=always",
    "-ftemplate-backtrace-limit=4",
)
FAST_TO_COMPILE = ("-O1",)
FAST_TO_RUN = ("-O3",)


class CompileError(Exception):
    """The compiler or linker refused a cell; the message is what it said."""


@dataclass(frozen=True)
class Binary:
    """A compiled cell."""

    path: Path
    warnings: str
    from_cache: bool


class Compiler:
    """Compiles the cells of one chapter."""

    def __init__(
        self, settings: BuildSettings, cache_dir: Path, shared_headers: Sequence[str], source_dir: Path
    ):
        """`shared_headers` are precompiled; `source_dir` is where relative #line names are found."""
        self._settings = settings
        self._cells = cache_dir / "cells"
        self._precompiled = cache_dir / "precompiled"
        self._shared_headers = tuple(shared_headers)
        self._source_dir = source_dir
        self._cells.mkdir(parents=True, exist_ok=True)

    def build(self, source: str, *, release: bool, link_flags: Sequence[str] = ()) -> Binary:
        """The binary of a program, compiled now or before.

        @raises CompileError with the compiler's messages
        """
        flags = self._flags(release)
        link_flags = [*self._settings.link_flags, *link_flags]
        name = hash_text(source, *flags, "|", *link_flags, self._version)[:32]
        return self._from_cache(name) or self._build(name, source, flags, link_flags)

    def save_header(self, name: str, text: str) -> Path:
        """Writes a header for later cells; its name holds its content's hash, so that two notebooks
        that run at once never see each other's."""
        path = self._cells / f"{name}-{hash_text(text)[:12]}.hpp"
        write_atomically(path, text)
        return path

    def _from_cache(self, name: str) -> Binary | None:
        record_file, path = self._cells / f"{name}.json", self._cells / name
        if not record_file.exists():
            return None
        record = json.loads(record_file.read_text())
        if hash_file(path) != record["binary"] or not are_unchanged(record["inputs"]):
            return None
        os.utime(record_file)
        return Binary(path, record["warnings"], from_cache=True)

    def _build(self, name: str, source: str, flags: list[str], link_flags: list[str]) -> Binary:
        precompiled = self._precompiled_header(flags)
        with tempfile.TemporaryDirectory(dir=self._cells, prefix="building-") as folder:
            cpp, depfile, built = (Path(folder) / n for n in ("cell.cpp", "cell.d", "cell"))
            cpp.write_text(source, encoding="utf-8")
            warnings = self._compile(cpp, [*flags, "-include", str(precompiled)], depfile)
            self._link(cpp.with_suffix(".o"), built, link_flags)
            inputs = [path for path in read_depfile(depfile, self._source_dir) if path != cpp]
            self._remember(name, built, inputs, warnings)
        self._forget_old_binaries()
        return Binary(self._cells / name, warnings, from_cache=False)

    def _compile(self, cpp: Path, flags: list[str], depfile: Path) -> str:
        command = [self._settings.compiler, *flags, "-MD", "-MF", str(depfile)]
        return self._run([*command, "-c", str(cpp), "-o", str(cpp.with_suffix(".o"))], self._source_dir)

    def _link(self, object_file: Path, binary: Path, link_flags: list[str]) -> None:
        command = [self._settings.linker, *_fast_linker(), str(object_file), "-o", str(binary)]
        libraries = ["-Wl,--start-group", *link_flags, "-Wl,--end-group"]
        self._run([*command, *libraries], self._settings.build_dir)

    def _remember(self, name: str, built: Path, inputs: list[Path], warnings: str) -> None:
        record = {
            "binary": hash_file(built),
            "inputs": hash_files([*inputs, *self._settings.libraries()]),
            "warnings": warnings,
        }
        os.replace(built, self._cells / name)
        write_atomically(self._cells / f"{name}.json", json.dumps(record))

    def _forget_old_binaries(self) -> None:
        records = sorted(self._cells.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for record in records[:-MAX_BINARIES]:
            record.unlink(missing_ok=True)
            record.with_suffix("").unlink(missing_ok=True)

    def _flags(self, release: bool) -> list[str]:
        own = [*CELL_FLAGS, *(FAST_TO_RUN if release else FAST_TO_COMPILE)]
        if "gcc version" in self._version:
            own += ["-Winvalid-pch", "-Werror=invalid-pch", "-fpch-deps"]
        return [*self._settings.compile_flags, "-I", str(TOOLS / "include"), *own]

    def _precompiled_header(self, flags: list[str]) -> Path:
        """The header that every cell includes first, precompiled with the cell's own flags."""
        text = "".join(f'#include "{header}"\n' for header in self._shared_headers)
        folder = self._precompiled / hash_text(text, *flags, self._version)[:32]
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another notebook may want the same one now
            header, record = folder / "cell.hpp", folder / "inputs.json"
            if not (record.exists() and are_unchanged(json.loads(record.read_text()))):
                self._precompile(header, text, flags)
                inputs = read_depfile(folder / "cell.d", self._source_dir)
                write_atomically(record, json.dumps(hash_files(inputs)))
        return header

    def _precompile(self, header: Path, text: str, flags: list[str]) -> None:
        write_atomically(header, text)
        precompiled = header.with_name("cell.hpp.gch")
        building = header.with_name("building.gch")
        command = [self._settings.compiler, *flags, "-x", "c++-header", str(header)]
        depfile = str(header.with_suffix(".d"))
        self._run([*command, "-MD", "-MF", depfile, "-o", str(building)], self._source_dir)
        os.replace(building, precompiled)

    def _run(self, command: list[str], directory: Path) -> str:
        done = subprocess.run(
            command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode != 0:
            raise CompileError(done.stdout.strip())
        return done.stdout

    @cached_property
    def _version(self) -> str:
        return self._run([self._settings.compiler, "-v"], self._source_dir)


def compiler_of(workspace: Workspace) -> Compiler:
    """The compiler of a chapter's cells. Made anew for each cell, because the learner may have
    configured the project again meanwhile."""
    public = [path.relative_to(workspace.root) for path in workspace.root.glob("common/**/*.hpp")]
    shared = sorted(path for path in public
                    if path.parts[1] not in DEAR_MODULES and "backend" not in path.parts)
    return Compiler(
        load_build_settings(workspace.build_dir, workspace.chapter),
        workspace.cache_dir,
        ["notebook/cell.hpp", *(str(path) for path in shared)],
        workspace.chapter_file.parent,
    )


def _fast_linker() -> list[str]:
    return ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
