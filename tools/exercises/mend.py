"""mend: broken trainers, exercises/NN_name/mend.json; the learner finds the fault from what it does.

A case is a mistake of tests/mistakes in the learner's hands: a copy of the reference with one fault,
.workbook/mend/NN.mK/FILE, and a program of its own that is built with it.
"""

import dataclasses
import json
import re
import shutil
import sys
import time

import catalog
import mend_bug
import runner
import symptoms
from progress import Progress

sys.path.insert(0, str(catalog.ROOT / "tools"))
import mistakes  # noqa: E402  (beside this folder)


@dataclasses.dataclass(frozen=True)
class Case:
    """One entry of a chapter's mend.json."""

    chapter: str
    number: int
    title: str
    mistake: str
    story: str
    right: str  # flags of the chapter's program, and of the broken one
    broken: str
    show: object  # columns of the steps' metrics, or "output"
    symptom: str  # "differs", or what the broken program says, as a regex
    hints: tuple = ()

    @property
    def id(self):
        return f"{self.chapter[:2]}.m{self.number}"

    @property
    def fault(self):
        for known in mistakes.of_chapter(self.chapter):
            if known.name == self.mistake:
                return known
        raise catalog.UsageError(f"exercises/{self.chapter}/mend.json: there is no mistake '{self.mistake}' "
                                 f"in tests/mistakes/{self.chapter}")

    @property
    def exercise(self):
        return catalog.find_exercise(self.fault.exercise)

    @property
    def folder(self):
        return catalog.STATE / "mend" / self.id

    @property
    def file(self):
        return self.folder / self.exercise.file

    @property
    def shown_file(self):
        return self.file.relative_to(catalog.ROOT)

    def checked(self):
        """As an exercise of the runner, whose file is the case's (cmake/UltraMend.cmake)."""
        own = self.exercise
        suffix = own.file.removeprefix(own.stem)
        return dataclasses.replace(own, file=f"{own.stem}.m{self.number}{suffix}")

    def program_target(self):
        return f"{self.chapter}_main_mend_m{self.number}"


def read_cases(chapter):
    """The chapter's cases by number; none when it has no mend.json."""
    path = catalog.ROOT / "exercises" / chapter / "mend.json"
    if not path.is_file():
        return []
    where = path.relative_to(catalog.ROOT)
    try:
        cases = [Case(chapter=chapter, **{**entry, "hints": tuple(entry.get("hints", ()))})
                 for entry in json.loads(path.read_text(encoding="utf-8"))["cases"]]
    except json.JSONDecodeError as error:
        raise catalog.UsageError(f"{where}:{error.lineno}: no valid JSON: {error.msg}") from error
    except (KeyError, TypeError) as error:
        raise catalog.UsageError(f"{where}: an entry lacks or misspells a field: {error}") from error
    if [case.number for case in cases] != list(range(1, len(cases) + 1)):
        raise catalog.UsageError(f"{where}: its numbers are not 1, 2, ...")
    return cases


def is_case(text):
    return bool(text and re.fullmatch(r"\w+\.m\d+", text))


def find_case(text):
    """The case named by NN.mK."""
    if not is_case(text):
        raise catalog.UsageError(f"'{text}' names no broken trainer; write chapter.mnumber, for "
                                 "example 01.m1")
    chapter = catalog.find_chapter(text.split(".")[0])
    cases = read_cases(chapter)
    for case in cases:
        if case.number == int(text.split(".m")[1]):
            return case
    known = ", ".join(case.id for case in cases) or "none"
    raise catalog.UsageError(f"there is no '{text}' to mend; chapter {chapter} has: {known}")


def run(options):
    if mend_bug.is_case(options.what):
        return mend_bug.run(options)
    if "." not in options.what:
        return list_cases(catalog.find_chapter(options.what))
    case = find_case(options.what)
    if options.again and case.file.is_file():
        keep_copy(case)
    begin(case)
    print(f"{case.id}  {case.title}\n\n{case.story}\n")
    result = build_program(case)
    if result:
        print(f"{result.outcome.upper()}\n{result.output}\n")
        return 1
    print(symptoms.shown(case, right_program(case), broken_program(case)))
    print(f"\nThe fault is in {case.shown_file}. Mend it there.\n"
          f"Train again: ./workbook mend {case.id}    Is it mended? ./workbook check {case.id}    "
          f"Hints: ./workbook hint {case.id}")
    return 0


def list_cases(chapter):
    cases = read_cases(chapter)
    if not cases:
        raise catalog.UsageError(f"chapter {chapter} has nothing to mend yet")
    for case in cases:
        print(f"  {case.id}  {case.title:<50} {state_of(case, Progress())}")
    return 0


def state_of(case, progress):
    if progress.mended(case):
        return "mended"
    return "begun" if case.file.is_file() else f"after {case.exercise.id}"


def print_targets(options):
    """What the front door builds first: the program without a fault. Refuses what comes too early."""
    if mend_bug.is_case(options.what):
        print("\n".join(mend_bug.targets(options.what)))
        return 0
    if "." not in options.what:
        return 0
    case = find_case(options.what)
    exercise = case.exercise
    if not (options.anyway or case.file.is_file() or Progress().passed_and_unchanged(exercise)):
        raise catalog.UsageError(
            f"{case.id} shows how {exercise.id} is written, but for the fault. Write that first "
            f"(./workbook check {exercise.id}), or: ./workbook mend {case.id} --anyway")
    print(f"{case.chapter}_main")
    return 0


def begin(case):
    if not case.file.is_file():
        mistakes.apply(case.fault, str(catalog.ROOT / case.exercise.solution_path), str(case.file))


def keep_copy(case):
    kept = catalog.STATE / "backup" / case.id / f"{case.file.name}.{time.strftime('%Y%m%d-%H%M%S')}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(case.file, kept)
    print(f"Your version is kept: {kept.relative_to(catalog.ROOT)}")


def build_program(case):
    """None when the broken program is built; otherwise what the compiler says."""
    return runner.build_target(case.checked(), case.program_target())


def right_program(case):
    return runner.BUILD / "bin" / case.chapter


def broken_program(case):
    return runner.BUILD / "tests" / "mend" / f"{case.chapter}.m{case.number}"


def check(what):
    """Says whether a case is mended; the exit codes are those of check."""
    case = find_case(what)
    print(f"{case.id}  {case.title}  {case.shown_file}")
    if not case.file.is_file():
        print(f"      not begun: ./workbook mend {case.id}")
        return 3
    exercise = case.checked()
    result = runner.build(exercise) or runner.run(exercise)
    if result.outcome == "passed":
        Progress().remember_mended(case)
        print(f"      mended ({result.detail}). The fault was: {case.fault.what}")
        return 0
    print(f"      {result.outcome.upper()}: not mended yet")
    if result.outcome not in ("failed", "skipped"):
        print("\n".join(f"      | {line}" for line in result.output.splitlines()[-20:]))
    print(f"      What the tests say: {result.log}    Hints: ./workbook hint {case.id}")
    return 1


def shows(options):
    """For the test suite: the broken program must show what its case promises."""
    case = find_case(options.what)
    fault = symptoms.missing(case, options.right, options.broken)
    print(symptoms.shown(case, options.right, options.broken))
    if fault:
        print(f"{case.id}: {fault}")
    return 1 if fault else 0
