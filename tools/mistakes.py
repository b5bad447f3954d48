"""Classic wrong answers: applies tests/mistakes/NN_name/NAME.patch and proves that it is caught.

    mistakes.py apply SOLUTION FOLDER PATCH...   the solution with each mistake: FOLDER/NAME/ and its name
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

FAILED = 1  # the exit code of a check that failed (tests/support/exercise_main.cpp)
SKIPPED = 5


def header(patch):
    """The header's fields; exits when one is missing."""
    text = pathlib.Path(patch).read_text(encoding="utf-8").split("\n--- ", 1)[0]
    fields = dict(re.findall(r"^(Exercise|Mistake|Hint): *(.+)$", text, re.MULTILINE))
    missing = [key for key in ("Exercise", "Mistake", "Hint") if key not in fields]
    if missing:
        sys.exit(f"{patch}: the header lacks the line '{missing[0]}: ...'")
    return fields


def apply(patch, solution, out):
    """Writes the solution with a mistake, unless it is there."""
    header(patch)
    # No fuzz: a patch whose context has changed may no longer make the mistake it names.
    command = ["patch", "--silent", "--fuzz=0", "--reject-file=-", "--output=-", solution, patch]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    target = pathlib.Path(out)
    if done.returncode != 0:
        target.unlink(missing_ok=True)
        sys.exit(f"{patch} does not apply to {solution}:\n{done.stderr}"
                 "Make it again: diff -u SOLUTION MISTAKEN, below its three header lines.")
    target.parent.mkdir(parents=True, exist_ok=True)
    # What has not changed is not compiled again.
    if not target.is_file() or target.read_text(encoding="utf-8") != done.stdout:
        target.write_text(done.stdout, encoding="utf-8")


def apply_all(solution, folder, *patches):
    for patch in patches:
        apply(patch, solution, pathlib.Path(folder, pathlib.Path(patch).stem, pathlib.Path(solution).name))


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
    done = run_check(executable, folder, "/".join(pathlib.Path(patch).parts[-4:]))
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
        case "expect", patch, executable, folder:
            expect(patch, executable, folder)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
