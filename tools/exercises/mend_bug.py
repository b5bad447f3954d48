"""mend NAME: a bug that shipped (bug.py), in the learner's hands.

The sources with the fault become the learner's: .workbook/mend/NAME/, each at its place. The bug's program and
the tests that find it are built with them (cmake/UltraBug.cmake).
"""

import re
import shutil
import time

import bug
import catalog
import runner
from progress import Progress


class Case:
    """What the learner has of a bug; an exercise to the runner, which builds it and keeps its log."""

    chapter = "bug"

    def __init__(self, name):
        self.bug = bug.find_bug(name)
        self.id = self.stem = self.bug.name
        self.folder = catalog.STATE / "mend" / self.id

    def files(self):
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def shown_files(self):
        return ", ".join(str(path.relative_to(catalog.ROOT)) for path in self.files())

    def target(self, kind):
        """What is built with the learner's files: the check, unless another `kind` is said."""
        return f"bug.{self.id}.mine{'' if kind == 'program' else '.check'}"


def is_case(text):
    """Whether a bug may be meant: no exercise and no chapter is called so."""
    return bool(text and re.fullmatch(r"[\w.-]+-\d+", text))


def targets(what):
    """What the front door builds first: what needs no file of the learner's."""
    known = bug.find_bug(what)
    return [f"{known.one('Program')}_main", f"bug.{known.name}", f"bug.{known.name}.check"]


def run(options):
    case = Case(options.what)
    if options.again and case.folder.is_dir():
        keep_copy(case)
    begin(case)
    print(f"{case.id}  {case.bug.title}\n")
    result = runner.build_target(case, case.target("program"))
    if result:
        print(f"{result.outcome.upper()}\n{result.output}\n")
        return 1
    program, mine, _ = bug.executables(case.bug, ".mine")
    print("\n".join(bug.table(case.bug, bug.measure(case.bug, program, mine), "yours")))
    print(f"\nThe fault is in {case.shown_files()}. Mend it there.\n"
          f"Train again: ./workbook mend {case.id}    Is it mended? ./workbook check {case.id}    "
          f"The fault and its story: {bug.PAGE.relative_to(catalog.ROOT)}")
    return 0


def begin(case):
    if not case.folder.is_dir():
        for path, text in bug.faulty_sources(case.bug.patch):
            bug.write(case.folder / path, text)


def keep_copy(case):
    kept = catalog.STATE / "backup" / case.id / time.strftime("%Y%m%d-%H%M%S")
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(case.folder, kept)
    print(f"Your version is kept: {kept.relative_to(catalog.ROOT)}")


def check(what):
    """Says whether a bug is mended; the exit codes are those of check."""
    case = Case(what)
    print(f"{case.id}  {case.bug.title}  {case.shown_files()}")
    if not case.folder.is_dir():
        print(f"      not begun: ./workbook mend {case.id}")
        return 3
    result = runner.build_target(case, case.target("check"))
    if result:
        print(f"      {result.outcome.upper()}: not mended yet\n      | "
              + "\n      | ".join(result.output.splitlines()[-20:]))
        return 1
    code, output = bug.run_check(case.bug, bug.executables(case.bug, ".mine")[2])
    if code == 0 and runner.count_cases(output):
        Progress().remember_mended(case)
        print(f"      mended ({runner.count_cases(output)}). How the reference has it: "
              f"{bug.PAGE.relative_to(catalog.ROOT)}")
        return 0
    print("      FAILED: not mended yet\n      | " + "\n      | ".join(bug.failures(output)[:8])
          + f"\n      What the tests say: {runner.write_log(case, output)}")
    return 1
