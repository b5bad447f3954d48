"""hint: one more hint each time; remembers how many the learner has seen."""

import catalog
import mend
from progress import Progress


def run(options):
    is_case = mend.is_case(options.what)
    exercise = mend.find_case(options.what) if is_case else catalog.find_exercise(options.what)
    hints = exercise.hints
    print(f"{exercise.id}  {exercise.title}  {exercise.shown_file if is_case else exercise.path}")
    if not hints:
        print("This exercise has no hints.")
        return 0
    progress = Progress()
    seen = progress.hints_shown(exercise)
    first = 0 if options.all else min(seen, len(hints) - 1)
    last = len(hints) if options.all else first + 1
    for number in range(first, last):
        print(f"\nHint {number + 1} of {len(hints)}: {hints[number]}")
    if last == len(hints):
        print("\nThere are no more hints." + ("" if is_case else " The solution beside your file: "
              f"./workbook diff {exercise.id}"))
    progress.remember_hints(exercise, max(seen, last))
    return 0
