"""The repository's files, for the checks of layout and format."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
CPP_SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh"}


def repository_files():
    """Paths relative to the checkout: what git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        names = [name for name in done.stdout.split("\0") if name]
    except (FileNotFoundError, subprocess.CalledProcessError):
        # A copy without git: everything but what is built.
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
        names = [n for n in names if not n.startswith((".git/", "build/", ".workbook/"))]
    return sorted(pathlib.PurePosixPath(n) for n in set(names) if (ROOT / n).is_file())


def cpp_files():
    return [path for path in repository_files() if path.suffix in CPP_SUFFIXES]
