"""Classic wrong answers: applies tests/mistakes/NN_name/FILE/NAME.patch and proves that it is caught.

    mistakes.py apply SOLUTION FOLDER PATCH...   the solution with each mistake: FOLDER/NAME/ and its name
    mistakes.py called FILE OBJECT...            what the objects call of ours, as options of the linker
    mistakes.py expect PATCH EXECUTABLE FOLDER   the check must fail, with the hint, when it loads
                                                 the solution with the mistake, FOLDER/libprovider.so

A patch starts with three header lines, then a unified diff against the solution:
    Exercise: 01.2
    Mistake: what is wrong, in one line
    Hint: the text that the check must print
"""

import os
import pathlib
import re
import subprocess
import sys

from source_files import ROOT

FAILED = 1  # the exit code of a check that failed (tests/support/exercise_main.cpp)
SKIPPED = 5


def fields_of(patch):
    """The fields of a patch's header, from its text."""
    return dict(re.findall(r"^(Name|Exercise|Mistake|Hint): *(.+)$", patch.split("\n--- ", 1)[0], re.MULTILINE))


def header(patch):
    """The header's fields, from its file; exits when one is missing."""
    fields = fields_of(pathlib.Path(patch).read_text(encoding="utf-8"))
    missing = [key for key in ("Exercise", "Mistake", "Hint") if key not in fields]
    if missing:
        sys.exit(f"{patch}: the header lacks the line '{missing[0]}: ...'")
    return fields


def patched(solution, patch, name):
    """The solution with the text of a patch; exits when that does not apply."""
    # No fuzz: a patch whose context has changed may no longer make the mistake it names.
    command = ["patch", "--silent", "--fuzz=0", "--reject-file=-", "--output=-", solution]
    done = subprocess.run(command, input=patch, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{name} does not apply to {os.path.relpath(solution, ROOT)}:\n{done.stderr}"
                 "Make it again: diff -u SOLUTION MISTAKEN, below its header.")
    return done.stdout


def apply(patch, solution, out):
    """Writes the solution with a mistake, unless it is there."""
    header(patch)
    text = patched(solution, pathlib.Path(patch).read_text(encoding="utf-8"), patch)
    target = pathlib.Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    # What has not changed is not compiled again.
    if not target.is_file() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def apply_all(solution, folder, *patches):
    for patch in patches:
        apply(patch, solution, pathlib.Path(folder, pathlib.Path(patch).stem, pathlib.Path(solution).name))


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
                                "ULTRA_TESTED_CHANGE": change}
    return subprocess.run([executable], env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)


def one_line(text):
    return " ".join(text.split())


def expect(patch, executable, folder):
    fields = header(patch)
    done = run_check(executable, folder, "/".join(pathlib.Path(patch).parts[-5:]))
    print(done.stdout)
    if done.returncode == SKIPPED:
        sys.exit(SKIPPED)
    if done.returncode != FAILED:
        sys.exit(f"{patch}: the mistake '{fields['Mistake']}' was not caught: "
                 f"expected exit code {FAILED}, found {done.returncode}")
    if one_line(fields["Hint"]) not in one_line(done.stdout):
        sys.exit(f"{patch}: the check failed without its hint; expected in the output: "
                 f"{fields['Hint']}")


def main():
    match sys.argv[1:]:
        case "apply", solution, folder, *patches:
            apply_all(solution, folder, *patches)
        case "called", file, *objects:
            called(file, *objects)
        case "expect", patch, executable, folder:
            expect(patch, executable, folder)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
