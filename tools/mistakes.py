"""Classic wrong answers: applies tests/mistakes/NN_name/NAME.patch and proves that it is caught.

    mistakes.py apply PATCH SOLUTION OUT    the solution with the mistake, into OUT
    mistakes.py expect PATCH EXECUTABLE     the check built with it must fail, with the hint

A patch starts with three header lines, then a unified diff against the solution:
    Exercise: 01.2
    Mistake: what is wrong, in one line
    Hint: the text that the check must print
"""

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
    header(patch)
    target = pathlib.Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    # No fuzz: a patch whose context has changed may no longer make the mistake it names.
    command = ["patch", "--silent", "--fuzz=0", "--reject-file=-", f"--output={out}",
               solution, patch]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        target.unlink(missing_ok=True)
        sys.exit(f"{patch} does not apply to {solution}:\n{done.stdout}{done.stderr}"
                 "Make it again: diff -u SOLUTION MISTAKEN, below its three header lines.")


def one_line(text):
    return " ".join(text.split())


def expect(patch, executable):
    fields = header(patch)
    done = subprocess.run([executable], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
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
    commands = {"apply": (apply, 3), "expect": (expect, 2)}
    command, count = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if command is None or len(sys.argv) != 2 + count:
        sys.exit(__doc__)
    command(*sys.argv[2:])


if __name__ == "__main__":
    main()
