"""Whether the build is newer than its sources.

A cell or an executable built from yesterday's sources would prove nothing about today's. Building
is not the kernel's business (two notebooks, or a terminal, may be building in the same folder), so
an old build is an error that says what to do.
"""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .build_settings import CELL_TARGET, ask_ninja, build_commands, linked_product
from ..failures import NotebookError

ADVICE = "run ./workbook setup, then this again"


class OldBuild(NotebookError):
    """Something is not built yet, or a source has changed since."""


def require_fresh_build(build_dir: Path, target: str) -> None:
    """Fails when a library or object that `target` is built from is missing, or older than one of
    the files that it was built from.

    @raises OldBuild naming the file
    """
    changed_at = cache(lambda path: _changed_at(os.path.join(build_dir, path)))  # many pairs, fewer files
    products = set()
    for product, inputs in _products(build_dir, target):
        products |= {product, *inputs}
        for path in (product, *inputs):
            if not changed_at(path):
                raise OldBuild(f"{path} is not built: {ADVICE}")
        if any(changed_at(path) > changed_at(product) for path in inputs):
            raise OldBuild(f"{product} is older than what it is made of: {ADVICE}")
    record = build_dir / ".ninja_deps"
    sources_of = _sources_by_object(build_dir, record.stat().st_mtime_ns if record.exists() else 0)
    for built in sorted(products):
        for source in sources_of.get(built, ()):
            if changed_at(source) > changed_at(built):
                raise OldBuild(f"{source} has changed since it was built: {ADVICE}")


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _products(build_dir: Path, target: str) -> Iterator[tuple[str, list[str]]]:
    """The archives and executables that a target needs, and what each is made of."""
    for command in build_commands(build_dir, target):
        made_of = [word for word in command if word.endswith((".o", ".a"))]
        product = linked_product(command)
        if command[1] == "qc":
            yield made_of[0], made_of[1:]
        elif product and CELL_TARGET.format(chapter="") not in product:  # never built
            yield product, made_of


@cache
def _sources_by_object(build_dir: Path, _recorded_at: int) -> dict[str, tuple[str, ...]]:
    """The sources and headers that each object was made from, as ninja has recorded them; read once
    until it records anew, for they are a million lines."""
    found: dict[str, list[str]] = {}
    names: dict[str, str] = {}  # a header stands below a thousand objects
    sources: list[str] = []
    for line in ask_ninja(build_dir, "deps").splitlines():
        if line.startswith("    "):
            name = line.strip()
            sources.append(names.setdefault(name, name))
        elif line:
            sources = found[line.partition(": #deps")[0]] = []
    return {built: tuple(names) for built, names in found.items()}
