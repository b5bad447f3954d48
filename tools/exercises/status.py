"""status: of every chapter, how each exercise stands, and what the last test run said."""

import time
import xml.etree.ElementTree as xml

import catalog
import certificate
import mend
import problems
import runner
from progress import Progress

# What `./workbook test` leaves (tools/front/commands.sh). Not ctest's own LastTest.log, which any other
# use of ctest replaces, a listing too.
TEST_REPORT = runner.BUILD / "tests.xml"


def run(options):
    progress = Progress()
    if options.certificate:
        return certificate.write(catalog.all_exercises(), progress, options)
    tests = last_test_run()
    for chapter in catalog.chapters():
        print(chapter)
        for exercise in catalog.read_manifest(chapter):
            print(f"  {exercise.id}  {exercise.name:<28} {state_of(exercise, progress)}")
        print_other_work(chapter, progress)
        print_tests(chapter, tests)
    exercises = catalog.all_exercises()
    passed = sum(progress.passed_and_unchanged(exercise) for exercise in exercises)
    print(f"\n{passed} of {len(exercises)} exercises passed")
    if tests:
        print(f"Tests: as of {tests_time()}")
    return 0


def state_of(exercise, progress):
    if not exercise.exists():
        return f"missing: {exercise.absence()}"
    if exercise.is_untouched():
        return "not written yet"
    outcome, current = progress.outcome(exercise)
    if outcome is None:
        return f"written, not checked yet (./workbook check {exercise.id})"
    if not current:
        return f"changed since its last check: {outcome} then (./workbook check {exercise.id})"
    return outcome if outcome in ("passed", "skipped") else f"written, but: {outcome}"


def print_other_work(chapter, progress):
    """How many problems and broken trainers of a chapter are done."""
    found = [problem for problem in problems.read_problems(chapter) if problem.kind != "explain"]
    if found:
        right = sum(progress.problem(problem) is True for problem in found)
        print(f"  problems: {right} of {len(found)} right (./workbook answer {chapter[:2]})")
    cases = mend.read_cases(chapter)
    if cases:
        print(f"  broken trainers: {sum(map(progress.mended, cases))} of {len(cases)} mended "
              f"(./workbook mend {chapter[:2]})")


def tests_time():
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(TEST_REPORT.stat().st_mtime))


def last_test_run():
    """{test name: outcome} of the last ./workbook test; empty before the first.

    Outcomes are ctest's: run (it passed), fail, notrun (skipped), disabled.
    """
    try:
        cases = xml.parse(TEST_REPORT).iter("testcase")
    except (FileNotFoundError, xml.ParseError):
        return {}
    return {case.get("name"): case.get("status") for case in cases}


def print_tests(chapter, tests):
    """How the chapter's own tests went: those with its name in theirs."""
    mine = [outcome for name, outcome in tests.items() if chapter in name]
    if mine:
        skipped = sum(outcome not in ("run", "fail") for outcome in mine)
        print(f"  tests: {mine.count('run')} of {len(mine)} passed"
              + (f", {skipped} skipped" if skipped else ""))
    elif tests:
        print("  tests: none in the last run (./workbook test runs all)")
    else:
        print("  tests: not run yet (./workbook test)")
