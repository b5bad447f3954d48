"""status: of every chapter, how each exercise stands, and what the last test run said."""

import re
import time

import catalog
import runner
from progress import Progress

TEST_LOG = runner.BUILD / "Testing" / "Temporary" / "LastTest.log"


def run(_options):
    progress = Progress()
    tests = last_test_run()
    for chapter in catalog.chapters():
        print(chapter)
        for exercise in catalog.read_manifest(chapter):
            print(f"  {exercise.id}  {exercise.name:<28} {state_of(exercise, progress)}")
        print_tests(chapter, tests)
    exercises = catalog.all_exercises()
    passed = sum(progress.passed_and_unchanged(exercise) for exercise in exercises)
    print(f"\n{passed} of {len(exercises)} exercises passed")
    if tests:
        print(f"Tests: as of {time.strftime('%Y-%m-%d %H:%M', time.localtime(tests_time()))}")
    return 0


def state_of(exercise, progress):
    if not exercise.exists():
        return f"missing (./workbook reset {exercise.id})"
    if exercise.is_untouched():
        return "not written yet"
    outcome, current = progress.outcome(exercise)
    if outcome is None:
        return f"written, not checked yet (./workbook check {exercise.id})"
    if not current:
        return f"changed since its last check: {outcome} then (./workbook check {exercise.id})"
    return outcome if outcome in ("passed", "skipped") else f"written, but: {outcome}"


def tests_time():
    return TEST_LOG.stat().st_mtime


def last_test_run():
    """{test name: passed} of the last ctest run; empty before the first."""
    if not TEST_LOG.is_file():
        return {}
    log = TEST_LOG.read_text(errors="replace")
    blocks = re.split(r"^\d+/\d+ Testing: ", log, flags=re.MULTILINE)[1:]
    return {block.split("\n", 1)[0].strip(): "\nTest Passed." in block for block in blocks}


def print_tests(chapter, tests):
    """How many of the chapter's own tests passed: those with its name in theirs."""
    mine = [passed for name, passed in tests.items() if chapter in name]
    if mine:
        print(f"  tests: {sum(mine)} of {len(mine)} passed")
    else:
        print("  tests: not run yet (./workbook test)")
