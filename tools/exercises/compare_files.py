"""diff: the learner's file beside the solution; in two columns where the terminal is wide."""

import difflib
import shutil
import sys

import assignment
import catalog

WIDE = 160  # columns of a terminal in which two files fit side by side
RED, GREEN, PLAIN = "\033[31m", "\033[32m", "\033[0m"


def run(options):
    chosen = catalog.select(options.what)
    assigned = assignment.read_record().get("chapters", [])
    for exercise in chosen:
        if exercise.chapter in assigned:
            raise catalog.UsageError(f"{exercise.id} is assigned: there is no solution here to compare with")
    for exercise in chosen:
        show(exercise)
    return 0


def show(exercise):
    print(f"{exercise.id}  {exercise.path}  ->  {exercise.solution_path}")
    if not exercise.exists():
        print(f"Missing: {exercise.absence()}\n")
        return
    mine = (catalog.ROOT / exercise.path).read_text(errors="replace").splitlines()
    solution = (catalog.ROOT / exercise.solution_path).read_text(errors="replace").splitlines()
    if mine == solution:
        print("The two are identical.\n")
        return
    width = shutil.get_terminal_size().columns
    lines = side_by_side(mine, solution, width) if width >= WIDE else unified(
        exercise, mine, solution)
    for line in lines:
        print(line)
    print()


def paint(text, colour):
    return f"{colour}{text}{PLAIN}" if sys.stdout.isatty() else text


def unified(exercise, mine, solution):
    for line in difflib.unified_diff(mine, solution, exercise.path, exercise.solution_path,
                                     lineterm=""):
        if line.startswith("-"):
            yield paint(line, RED)
        elif line.startswith("+"):
            yield paint(line, GREEN)
        else:
            yield line


def side_by_side(mine, solution, width):
    column = (width - 3) // 2
    yield f"{'yours':<{column}} | solution"
    matcher = difflib.SequenceMatcher(None, mine, solution, autojunk=False)
    for kind, left_from, left_to, right_from, right_to in matcher.get_opcodes():
        left, right = mine[left_from:left_to], solution[right_from:right_to]
        mark = " " if kind == "equal" else "|"
        for index in range(max(len(left), len(right))):
            a = left[index] if index < len(left) else ""
            b = right[index] if index < len(right) else ""
            row = f"{a[:column]:<{column}} {mark} {b[:column]}"
            yield row if kind == "equal" else paint(row, GREEN)
