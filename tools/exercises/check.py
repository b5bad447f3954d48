"""check: tests the learner's files and says of each, by its path, how it stands.

Exit code: 0 all passed; 1 something failed; 3 nothing failed, something is not written yet;
4 nothing could be tested here (every test was skipped).
"""

import contextlib
import io
import re
import sys
import time

import catalog
import grade
import mend
import mend_bug
import runner
from progress import Progress

SHOWN_LINES = 40  # of a compiler's or a check's messages; the log has all


def print_pending_targets(options):
    """The build targets of what `check` will have to build, for the front door's progress line."""
    refuse_what_does_not_fit(options)
    case = only_case(options)
    if case and mend_bug.is_case(case):
        print("\n".join(mend_bug.targets(case)))
        return 0
    if case:
        print(mend.find_case(case).exercise.target("solution"))
        return 0
    for exercise in pending(options, Progress()):
        # The reference's check: everything that the learner's check needs but the learner's file.
        print(exercise.target("solution"))
    return 0


def needs_run(exercise, options, progress):
    if not exercise.exists() or exercise.is_untouched():
        return False
    return options.again or not progress.passed_and_unchanged(exercise)


def pending(options, progress):
    return [exercise for exercise in chosen(options) if needs_run(exercise, options, progress)]


def chosen(options):
    """The exercises that are named, each once."""
    found = {e.id: e for what in options.what or [None] for e in catalog.select(what)}
    return list(found.values())


def only_case(options):
    """The broken trainer that is named, NN.mK or a bug's name, or None."""
    cases = [what for what in options.what if mend.is_case(what) or mend_bug.is_case(what)]
    if cases and (len(options.what) > 1 or options.format):
        raise catalog.UsageError(f"{cases[0]} is a trainer to mend: check it alone, without --format")
    return cases[0] if cases else None


def refuse_what_does_not_fit(options):
    """Before anything is built."""
    if options.format is None and (options.output or options.hidden_seed is not None):
        raise catalog.UsageError("--output and --hidden-seed need --format gradescope or --format junit")


def run(options):
    refuse_what_does_not_fit(options)
    case = only_case(options)
    if case:
        return mend_bug.check(case) if mend_bug.is_case(case) else mend.check(case)
    progress = Progress()
    graded = [graded_one(exercise, options, progress) for exercise in chosen(options)]
    outcomes = [one.outcome for one in graded]
    print_summary(outcomes)
    if options.format:
        grade.write(graded, options)
    return exit_code(outcomes)


class Both(io.StringIO):
    """Keeps what is printed, and prints it."""

    def __init__(self, terminal):
        super().__init__()
        self._terminal = terminal

    def write(self, text):
        self._terminal.write(text)
        return super().write(text)

    def flush(self):
        self._terminal.flush()


def graded_one(exercise, options, progress):
    start = time.monotonic()
    with contextlib.redirect_stdout(Both(sys.stdout)) as told:
        outcome = check_one(exercise, options, progress)
    hidden = None
    if outcome == "passed" and options.hidden_seed is not None:
        hidden = hidden_outcome(exercise, options.hidden_seed)
    return grade.Graded(exercise, outcome, told.getvalue(), time.monotonic() - start, hidden)


def hidden_outcome(exercise, seed):
    result = runner.build(exercise) or runner.run(exercise, seed)
    say(f"on the hidden seed: {result.outcome}")
    return result.outcome


def check_one(exercise, options, progress):
    print(f"{exercise.id}  {exercise.name}  {exercise.path}", flush=True)
    if not exercise.exists():
        say(f"MISSING: {exercise.absence()}")
        return "failed"
    if exercise.is_untouched():
        progress.forget(exercise)
        say("not written yet")
        print_task(exercise)
        return "not written"
    if not needs_run(exercise, options, progress):
        say("passed earlier, unchanged; --again to rerun")
        return "passed"
    result = runner.build(exercise) or runner.run(exercise)
    progress.remember(exercise, result.outcome)
    report(exercise, result)
    return result.outcome


def say(text):
    print(f"      {text}")


def print_task(exercise):
    say(f"Goal: {exercise.goal}")
    say(f"{exercise.lines} lines, {exercise.difficulty}; hints: ./workbook hint {exercise.id}")


def report(exercise, result):
    if result.outcome == "passed":
        say(f"passed ({result.detail})")
    elif result.outcome == "skipped":
        say("SKIPPED, which is not passed: " + skip_reason(result.output))
    elif result.outcome == "not written":
        say("not written yet: it still throws NotWritten" + not_written_mark(result.output))
        print_task(exercise)
    elif result.outcome == "nothing run":
        say(f"FAILED: no test was run; {exercise.test_path} proves nothing")
    elif result.outcome == "failed":
        report_failure(exercise, result, failed_cases(result.output), failed_count(result.output))
    elif result.outcome in ("timed out", "crashed"):
        tail = result.output.splitlines()[-8:]
        report_failure(exercise, result, tail, f" {result.detail}")
    else:
        report_failure(exercise, result, result.output.splitlines(), "")


def report_failure(exercise, result, lines, detail):
    headline = {"failed": "FAILED", "timed out": "TIMED OUT", "crashed": "CRASHED",
                "does not compile": "DOES NOT COMPILE", "does not link": "DOES NOT LINK"}
    say(headline.get(result.outcome, result.outcome.upper()) + detail)
    for line in lines[:SHOWN_LINES]:
        print(f"      | {line}")
    if len(lines) > SHOWN_LINES:
        say(f"... and {len(lines) - SHOWN_LINES} lines more")
    say(f"All of it: {result.log}    Hints: ./workbook hint {exercise.id}")


def failed_count(output):
    failed = re.search(r"^ *(\d+) FAILED TESTS?", output, re.MULTILINE)
    total = re.search(r"^\[==========\] Running (\d+) tests?", output, re.MULTILINE)
    return f": {failed.group(1)} of {total.group(1)} tests" if failed and total else ""


def failed_cases(output):
    """The messages of the failed GoogleTest cases, without those that passed; each cause once."""
    shown, block, inside, told = [], [], False, set()
    for line in output.splitlines():
        if line.startswith("[ RUN      ]"):
            block, inside = [], True
        elif line.startswith("[  FAILED  ]") and inside:
            shown += [line.split("]", 1)[1].strip()] + told_once(block, told)
            inside = False
        elif line.startswith("["):
            inside = False
        elif inside:
            block.append(line.replace(f"{catalog.ROOT}/", ""))
    # A failure outside every case has no such block.
    return shown or output.splitlines()


def told_once(block, told):
    """The messages of a case, without those whose hint another case has given already."""
    starts = [i for i, line in enumerate(block) if re.match(r"\S+:\d+: (Failure|error)", line)]
    shown = block[:starts[0]] if starts else block
    for begin, end in zip(starts, starts[1:] + [len(block)]):
        message = block[begin:end]
        cause = cause_of(message)
        if cause and cause in told:
            shown = [*shown, f"{message[0]}: for the same reason as above"]
        else:
            shown = [*shown, *message]
        told.add(cause)
    return shown


def cause_of(message):
    """The hint of a message, whatever numbers it names; empty when it has none."""
    _, _, hint = " ".join(message).partition("Hint: ")
    return re.sub(r"\d+", "#", hint).strip()


def not_written_mark(output):
    match = re.search(r"not written: ([^\"\n]+)", output)
    return f" ({match.group(1).strip()})" if match else ""


def skip_reason(output):
    match = re.search(r"Skipped\n(.+)", output)
    return match.group(1).strip() if match else "see the log"


def print_summary(outcomes):
    passed = outcomes.count("passed")
    unwritten = outcomes.count("not written")
    skipped = outcomes.count("skipped")
    failed = len(outcomes) - passed - unwritten - skipped
    parts = [f"{passed} passed", f"{failed} failed", f"{unwritten} not written yet"]
    if skipped:
        parts.append(f"{skipped} skipped")
    print("\n" + ", ".join(parts) + (": all passed" if passed == len(outcomes) else ""))


def exit_code(outcomes):
    if all(outcome == "passed" for outcome in outcomes):
        return 0
    if any(outcome not in ("passed", "not written", "skipped") for outcome in outcomes):
        return 1
    if "not written" in outcomes:
        return 3
    return 0 if "passed" in outcomes else 4
