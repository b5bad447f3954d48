"""Content hashes: what a compiled cell was built from, and whether that is still so."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

_known: dict[tuple[str, int, int, int], str] = {}
"""Hashes of files already read by this process, by path, inode, size and time of change."""


def hash_text(*texts: str) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """The hash of a file's content; "missing" for one that is not there."""
    try:
        status = path.stat()
    except OSError:
        return "missing"
    key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
    if key not in _known:
        _known[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    return _known[key]


def hash_files(paths: Iterable[Path]) -> dict[str, str]:
    return {str(path): hash_file(path) for path in paths}


def are_unchanged(hashes: dict[str, str]) -> bool:
    return all(hash_file(Path(path)) == known for path, known in hashes.items())


def read_depfile(depfile: Path, directory: Path) -> list[Path]:
    """The files that a compiler's -MD output names, except precompiled headers (whose own headers
    it names as well)."""
    _, _, names = depfile.read_text().replace("\\\n", " ").partition(": ")
    paths = [name.replace("\\ ", " ") for name in re.split(r"(?<!\\)\s+", names.strip())]
    return [directory / path for path in paths if not path.endswith(".gch")]


def write_atomically(path: Path, content: str) -> None:
    """Writes a file so that another process sees all of it or nothing."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(content, encoding="utf-8")
    os.replace(temporary, path)
