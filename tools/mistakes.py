"""Classic wrong answers: applies those of tests/mistakes/NN_name/FILE.patches and proves that each is caught.

    mistakes.py apply PATCHES SOLUTION FOLDER          the solution with each mistake: FOLDER/NAME/ and its name
    mistakes.py called FILE OBJECT...                  what the objects call of ours, as options of the linker
    mistakes.py expect PATCHES NAME EXECUTABLE FOLDER  the check must fail, with the hint, when it loads
                                                       the solution with the mistake, FOLDER/libprovider.so

A file of patches has them one after the other. Each starts with four header lines, then a unified diff against
the solution:
    Name: a name that no other mistake of the chapter has
    Exercise: 01.2
    Mistake: what is wrong, in one line
    Hint: the text that the check must print
"""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys

from source_files import ROOT

FAILED = 1  # the exit code of a check that failed (tests/support/exercise_main.cpp)
SKIPPED = 5
HEADER = ("Name", "Exercise", "Mistake", "Hint")


@dataclasses.dataclass(frozen=True)
class Mistake:
    """One of a file of patches."""

    name: str
    exercise: str
    what: str
    hint: str
    solution: str  # whose path the diff names
    patch: str


def parsed(text):
    """The mistakes of a file's text, in its order; a ValueError in words where it is not as it should be."""
    nobodys, *patches = re.split(r"^(?=Name:)", text, flags=re.MULTILINE)
    if nobodys.strip():
        raise ValueError(f"begins with '{nobodys.strip().splitlines()[0]}' before the first line 'Name: ...'")
    found = {}
    for patch in patches:
        header, *diffs = re.split(r"^--- \S*?(solutions/\S+)", patch, flags=re.MULTILINE)
        fields = dict(re.findall(rf"^({'|'.join(HEADER)}): *(.+)$", header, re.MULTILINE))
        for key in HEADER:
            if key not in fields:
                raise ValueError(f"the header of '{patch.splitlines()[0]}' lacks the line '{key}: ...'")
        name = fields["Name"]
        if len(diffs) != 2:
            raise ValueError(f"'{name}' has {len(diffs) // 2} lines '--- solutions/...', not one")
        if name in found:
            raise ValueError(f"has two mistakes of the name '{name}'")
        found[name] = Mistake(*(fields[key] for key in HEADER), diffs[0], patch)
    return list(found.values())


def read(path):
    """The mistakes of a file of patches; exits with what is wrong with it."""
    try:
        return parsed(pathlib.Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        sys.exit(f"{path}: {error}")


def of_chapter(chapter):
    """Those of all exercises of a chapter."""
    return [mistake for path in sorted((ROOT / "tests" / "mistakes" / chapter).glob("*.patches"))
            for mistake in read(path)]


def patched(solution, patch, name):
    """The solution with the text of a patch; exits when that does not apply."""
    # No fuzz: a patch whose context has changed may no longer make the mistake it names.
    command = ["patch", "--silent", "--fuzz=0", "--reject-file=-", "--output=-", solution]
    done = subprocess.run(command, input=patch, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{name} does not apply to {os.path.relpath(solution, ROOT)}:\n{done.stderr}"
                 "Make it again: diff -u SOLUTION MISTAKEN, below its header.")
    return done.stdout


def apply(mistake, solution, out):
    """Writes the solution with a mistake, unless it is there."""
    text = patched(solution, mistake.patch, f"Name: {mistake.name}")
    target = pathlib.Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    # What has not changed is not compiled again.
    if not target.is_file() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def apply_all(patches, solution, folder):
    for mistake in read(patches):
        apply(mistake, solution, pathlib.Path(folder, mistake.name, pathlib.Path(solution).name))


def called(file, *objects):
    """Writes -u NAME for each name of ours that some object calls and does not have."""
    done = subprocess.run(["nm", "-u", "-P", *objects], capture_output=True, text=True, check=True)
    names = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("_Z") and "5ultra" in line}
    text = "".join(f"-Wl,-u,{name}\n" for name in sorted(names))
    pathlib.Path(file).write_text(text, encoding="utf-8")


def run_check(executable, folder, change):
    """Runs a check that loads FOLDER/libprovider.so, the solution with `change`."""
    if not pathlib.Path(folder, "libprovider.so").is_file():
        sys.exit(f"{folder}/libprovider.so is not built")  # the loader would take another one
    paths = [str(folder), os.environ.get("LD_LIBRARY_PATH")]
    environment = os.environ | {"LD_LIBRARY_PATH": ":".join(filter(None, paths)),
                                "LD_BIND_NOW": "1",  # names a missing function at the start
                                "ULTRA_TESTED_CHANGE": change,
                                # The same shapes each time: in some that are small a mistake changes nothing.
                                "ULTRA_TEST_SEED": os.environ.get("ULTRA_TEST_SEED", "1")}
    return subprocess.run([executable], env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)


def one_line(text):
    return " ".join(text.split())


def expect(patches, name, executable, folder):
    mistake = next(mistake for mistake in read(patches) if mistake.name == name)
    where = f"{os.path.relpath(patches, ROOT)}: {name}"
    done = run_check(executable, folder, where)
    print(done.stdout)
    if done.returncode == SKIPPED:
        sys.exit(SKIPPED)
    if done.returncode != FAILED:
        sys.exit(f"{where}: the mistake '{mistake.what}' was not caught: "
                 f"expected exit code {FAILED}, found {done.returncode}")
    if one_line(mistake.hint) not in one_line(done.stdout):
        sys.exit(f"{where}: the check failed without its hint; expected in the output: "
                 f"{mistake.hint}")


def main():
    match sys.argv[1:]:
        case "apply", patches, solution, folder:
            apply_all(patches, solution, folder)
        case "called", file, *objects:
            called(file, *objects)
        case "expect", patches, name, executable, folder:
            expect(patches, name, executable, folder)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
