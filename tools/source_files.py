"""The repository's files: what git tracks or would track, for all tools that go through folders.

No tool lists a folder by itself: what git ignores (byte code, editors' copies, what is built) is nobody's source.
"""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
CPP_SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh"}
BUILT = {"build", ".workbook"}
"""Folders of the root that are no sources, where there is no git to ask."""
NOBODYS = {".git", "__pycache__", ".ipynb_checkpoints"}
"""The same, of any folder."""


def repository_files(root=ROOT, *folders):
    """Paths relative to the checkout `root`, sorted; of all of it, or of some of its folders."""
    names = _names_from_git(root, folders)
    if names is None:
        names = _names_without_git(root, folders)
    return sorted(pathlib.PurePosixPath(n) for n in set(names) if (root / n).is_file())


def _names_from_git(root, folders):
    """None where `root` is no checkout of its own: a copy without git, or one in somebody else's."""
    try:
        if _git(root, "rev-parse", "--show-prefix").strip():
            return None
        listed = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *folders)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return [name for name in listed.split("\0") if name]


def _git(root, *arguments):
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def _names_without_git(root, folders):
    for start in folders or [""]:
        for place, below, files in os.walk(root / start):
            is_root = pathlib.Path(place) == root
            below[:] = [name for name in below if name not in NOBODYS and not (is_root and name in BUILT)]
            yield from (str((pathlib.Path(place) / name).relative_to(root)) for name in files
                        if not name.endswith((".pyc", ".ipynb")))


def cpp_files():
    return [path for path in repository_files() if path.suffix in CPP_SUFFIXES]
