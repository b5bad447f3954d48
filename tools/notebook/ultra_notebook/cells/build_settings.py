"""How the project compiles and links: read from the build's own commands, never guessed.

notebook.cmake declares, for each chapter, a target `notebook.NN_name` that links what a cell of
that chapter may use. The target is never built; the commands that would build it, which ninja
prints, hold the compile flags and the link line of the cells, and name all that the cells are
linked from.
"""

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..failures import NotebookError

CELL_TARGET = "notebook.{chapter}"
OWN_FLAGS = ("-O", "-g", "-Werror", "-fuse-ld=", "-MD")
"""Beginnings of flags that the cells decide on for themselves."""
FLAGS_WITH_FILE = ("-MT", "-MF", "-o", "-c")
"""Flags that name the files of one command."""


class BuildSettingsError(NotebookError):
    """The build folder does not say how to build a cell."""


@dataclass(frozen=True)
class BuildSettings:
    """What a cell is compiled and linked with; the link line is relative to `build_dir`."""

    build_dir: Path
    compiler: str
    compile_flags: tuple[str, ...]
    linker: str
    link_flags: tuple[str, ...]

    def libraries(self) -> list[Path]:
        """The library files on the link line."""
        paths = (self.build_dir / flag for flag in self.link_flags if not flag.startswith("-"))
        return [path for path in paths if path.suffix == ".a" or ".so" in path.name]


def load_build_settings(build_dir: Path, chapter: str) -> BuildSettings:
    """The settings of a chapter's cells."""
    target = CELL_TARGET.format(chapter=chapter)
    commands = [_without_launcher(command) for command in build_commands(build_dir, target)]
    compile_line = next(c for c in commands if c[-1].endswith("/cell_target.cpp"))
    link_line = next(c for c in commands if linked_product(c).endswith(target))
    link_flags = [flag for flag in _flags(link_line) if not flag.endswith("/cell_target.cpp.o")]
    return BuildSettings(
        build_dir=build_dir,
        compiler=compile_line[0],
        compile_flags=tuple(_flags(compile_line)),
        linker=link_line[0],
        link_flags=tuple(link_flags),
    )


def build_commands(build_dir: Path, target: str) -> list[list[str]]:
    """All commands that a build of `target` from nothing runs, in order; one entry per program."""
    rules = build_dir / "build.ninja"
    return _build_commands(build_dir, target, rules.stat().st_mtime_ns if rules.exists() else 0)


@cache
def _build_commands(build_dir: Path, target: str, _configured_at: int) -> list[list[str]]:
    """The same, kept until the build is configured anew."""
    output = ask_ninja(build_dir, "commands", target)
    programs = (program for line in output.splitlines() for program in line.split(" && "))
    return [shlex.split(program) for program in programs if program.strip() not in ("", ":")]


def linked_product(command: list[str]) -> str:
    """The path of what a command links; "" for a command that does something else."""
    if "-o" not in command or "-c" in command:
        return ""
    return command[command.index("-o") + 1]


def ask_ninja(build_dir: Path, tool: str, *arguments: str) -> str:
    """What one of ninja's tools says of the build folder; it changes nothing there."""
    if not (build_dir / "build.ninja").exists():
        raise BuildSettingsError(f"{build_dir} is not configured: run ./workbook setup")
    command = ["ninja", "-C", str(build_dir), "-t", tool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        reason = re.sub(r"^ninja: error: ", "", done.stderr.strip())
        raise BuildSettingsError(f"{build_dir}: {reason}: run ./workbook setup")
    return done.stdout


def _without_launcher(command: list[str]) -> list[str]:
    """A compile command without ccache in front: the cells have a cache of their own."""
    return command[1:] if os.path.basename(command[0]) in ("ccache", "sccache") else command


def _flags(command: list[str]) -> list[str]:
    """The flags of a command that do not name its own files."""
    flags, words = [], iter(command[1:])
    for word in words:
        if word in FLAGS_WITH_FILE:
            next(words)
        elif not word.startswith(OWN_FLAGS):
            flags.append(word)
    return flags
