"""Builds one exercise's check and runs it; says what happened, prints nothing."""

import contextlib
import dataclasses
import os
import re
import signal
import subprocess

import assignment
from catalog import ROOT

BUILD = ROOT / "build" / "release"
LOGS = ROOT / "build" / "logs"

# The exit codes of a check (tests/support/exercise_main.cpp).
OUTCOMES = {0: "passed", 1: "failed", 3: "not written", 4: "nothing run", 5: "skipped"}


@dataclasses.dataclass
class Result:
    outcome: str  # one of OUTCOMES, or: does not compile, does not link, crashed, timed out
    output: str = ""  # what the compiler or the check printed
    log: str = ""  # where the whole output is, relative to the checkout
    detail: str = ""  # for the reader: how many tests, which test hung


@contextlib.contextmanager
def build_lock():
    """The front door's lock: one build at a time."""
    import fcntl
    BUILD.parent.mkdir(exist_ok=True)
    with open(BUILD.parent / ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_log(exercise, text):
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"check.{exercise.chapter}.{exercise.stem}.log"
    path.write_text(text, encoding="utf-8")
    return str(path.relative_to(ROOT))


def compiler_messages(ninja_output):
    """Ninja's output without its own lines: the progress and the long command lines."""
    noise = re.compile(r"^(\[\d+/\d+\]|ninja: |FAILED: |\S*/(ccache|cmake|c\+\+|g\+\+|nvcc) |: && )")
    lines = [line for line in ninja_output.splitlines() if not noise.match(line)]
    return "\n".join(lines).replace(f"{ROOT}/", "").strip("\n")


def build(exercise):
    """None when the learner's check is built; otherwise the Result that says why not.

    The front door has built the reference's check before, so what fails here is the learner's file.
    """
    return build_target(exercise, exercise.target("exercise"))


def build_target(exercise, target):
    """As build, for any target that compiles the learner's file of an exercise."""
    command = ["cmake", "--build", str(BUILD), "--target", target]
    with build_lock():
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              errors="replace", check=False)
    if done.returncode == 0:
        return None
    log = write_log(exercise, done.stdout)
    return Result(build_outcome(exercise, done.stdout), compiler_messages(done.stdout), log)


def build_outcome(exercise, ninja_output):
    failed = re.findall(r"^FAILED: (\S+)", ninja_output, re.MULTILINE)
    if any(f"/{exercise.chapter}.{exercise.stem}.exercise.dir/" in path for path in failed):
        return "does not compile"
    if f"tests/{exercise.target('exercise')}" in failed:
        return "does not link"
    return "cannot be built"


def running_case(output):
    """The GoogleTest case that was running when the output stops."""
    started = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    return started[-1] if started else "its start"


def count_cases(output):
    match = re.search(r"^\[==========\] (\d+) tests? from .* ran\. \((\d+) ms", output,
                      re.MULTILINE)
    if not match:
        return ""
    count = int(match.group(1))
    return f"{count} test{'s' if count != 1 else ''}, {int(match.group(2)) / 1000:.1f} s"


def run_with_timeout(command, timeout_s, settings=None):
    """(exit code or None on timeout, output); ends the whole process group on a timeout."""
    environment = dict(os.environ, GTEST_COLOR="no", **(settings or {}))
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout_s)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def seed_settings(seed):
    """The environment in which checks draw from a seed: the one asked for, or an assignment's."""
    if seed is None and not os.environ.get("ULTRA_TEST_SEED"):
        seed = assignment.read_record().get("seed")
    return {} if seed is None else {"ULTRA_TEST_SEED": str(seed)}


def run(exercise, seed=None):
    """Runs the learner's built check, with the draws of a seed if there is one."""
    executable = BUILD / "tests" / exercise.target("exercise")
    code, output = run_with_timeout([str(executable)], exercise.timeout_s, seed_settings(seed))
    log = write_log(exercise, output)
    if code is None:
        detail = f"in {running_case(output)}, after {exercise.timeout_s:g} s"
        return Result("timed out", output, log, detail)
    if code == 0 and not count_cases(output):
        cause = "the program ended itself before its tests did"
    elif code in OUTCOMES:
        return Result(OUTCOMES[code], output, log, count_cases(output))
    else:
        cause = signal.strsignal(-code) if code < 0 else f"exit code {code}"
    return Result("crashed", output, log, f"in {running_case(output)}: {cause}")
