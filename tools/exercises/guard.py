"""What the test suite asks about the shipped exercises: that each reports itself as unwritten."""

import catalog
import runner

SKIPPED = 77  # what ctest knows as "skipped" (SKIP_RETURN_CODE)
NOT_WRITTEN = 3


def must_be_untouched(exercise):
    """The project's CI holds the shipped form itself; a learner's clone may have changed it."""
    return catalog.in_ci() or exercise.is_untouched()


def print_untouched_targets(_options):
    """Build targets of the stubs that will be tested, and of wholly untouched chapters."""
    for chapter in catalog.chapters():
        exercises = catalog.read_manifest(chapter)
        untouched = [e for e in exercises if e.exists() and must_be_untouched(e)]
        for exercise in untouched:
            if (catalog.ROOT / exercise.test_path).is_file():
                print(exercise.target("exercise"))
        has_program = (catalog.ROOT / "chapters" / chapter / "main.cpp").is_file()
        if has_program and exercises and untouched == exercises:
            print(f"{chapter}_main_mine")
    return 0


def find(chapter, stem):
    for exercise in catalog.read_manifest(chapter):
        if exercise.stem == stem:
            return exercise
    raise catalog.UsageError(f"{catalog.manifest_path(chapter)} lists no file {stem}.*")


def run(options):
    exercise = find(options.chapter, options.stem)
    if not must_be_untouched(exercise):
        print(f"Skipped: {exercise.path} is not as shipped (its learner has changed it)")
        return SKIPPED
    try:
        # ctest ends what hangs.
        code, output = runner.run_with_timeout([options.executable], timeout_s=None)
    except FileNotFoundError:
        print(f"{options.executable} is not built; ./workbook test builds it")
        return 1
    print(output)
    if code != NOT_WRITTEN:
        print(f"{exercise.path}: expected exit code {NOT_WRITTEN} (not written), found {code}")
        return 1
    mark = f"not written: {exercise.id} "
    if mark not in output:
        print(f"{exercise.path}: expected '{mark}...' in the output above")
        return 1
    return 0
