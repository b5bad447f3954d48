"""Checks that all C++ files are laid out as .clang-format says; with --write, lays them out.

An exercise that its learner has changed is the learner's: it is left alone.
"""

import pathlib
import re
import subprocess
import sys

from source_files import ROOT, cpp_files

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "exercises"))
import catalog  # noqa: E402  (a folder of plain modules, not a package)

FORMATTER = ROOT / "build" / "venv" / "bin" / "clang-format"
SKIPPED = 77


def files_to_format():
    if catalog.in_ci():
        return cpp_files()
    learners = {exercise.path for exercise in catalog.all_exercises()
                if not exercise.is_untouched()}
    return [path for path in cpp_files() if str(path) not in learners]


def main():
    if not FORMATTER.is_file():
        sys.exit(f"{FORMATTER} is missing; ./workbook format installs it")
    files = [str(path) for path in files_to_format()]
    if not files:
        sys.exit("found no C++ files to check")
    if "--write" in sys.argv[1:]:
        sys.exit(subprocess.run([FORMATTER, "-i", *files], cwd=ROOT, check=False).returncode)
    done = subprocess.run([FORMATTER, "--dry-run", "-Werror", *files], cwd=ROOT, check=False,
                          stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode != 0:
        print("\n".join(first_faults(done.stderr)) or done.stderr)
        sys.exit("These files are not laid out as .clang-format says. Fix: ./workbook format")
    print(f"{len(files)} files are laid out as .clang-format says")


def first_faults(messages):
    """path:line of the first fault of each file."""
    first = {}
    for path, line in re.findall(r"^(\S+?):(\d+):\d+: error: ", messages, re.MULTILINE):
        first.setdefault(path, line)
    return [f"{path}:{line}" for path, line in first.items()]


if __name__ == "__main__":
    main()
