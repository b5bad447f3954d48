"""What a broken trainer does, beside what the right one does."""

import json
import math
import pathlib
import re
import shlex
import subprocess
import tempfile

import catalog

SHOWN_LINES = 30
SECONDS = 300


def run_program(program, flags, with_metrics):
    """(exit code, output, metrics of the steps) of a program; what hangs is stopped."""
    with tempfile.TemporaryDirectory(prefix="ultra-mend-") as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        command = [str(program), *shlex.split(flags)]
        command += ["--metrics", str(metrics)] if with_metrics else []
        try:
            done = subprocess.run(command, cwd=catalog.ROOT, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                                  timeout=SECONDS, check=False)
            code, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as stopped:
            code, output = None, f"{(stopped.stdout or b'').decode()}\n(stopped after {SECONDS} s)"
        lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else []
    events = [json.loads(line) for line in lines]
    return code, output, [event for event in events if event.get("event") == "step"]


def both(case, right, broken):
    with_metrics = case.show != "output"
    return run_program(right, case.right, with_metrics), run_program(broken, case.broken, with_metrics)


def shown(case, right, broken):
    """Both runs, for a reader."""
    good, bad = both(case, right, broken)
    parts = [f"right:  {case.chapter} {case.right}", f"broken: {case.chapter} {case.broken}", ""]
    if case.show == "output":
        parts += ["--- right", *tail(good[1]), "--- broken", *tail(bad[1])]
    else:
        parts += table(case.show, good[2], bad[2])
    if bad[0] != 0:
        parts += ["", f"The broken program ended with exit code {bad[0]}"]
        parts += [] if case.show == "output" else tail(bad[1])
    return "\n".join(parts)


def tail(output):
    return output.rstrip().splitlines()[-SHOWN_LINES:]


def table(columns, good, bad):
    """The columns of both runs, step by step."""
    head = "  step" + "".join(f"{name:>18}{'broken':>18}" for name in columns)
    lines = [head]
    for step in range(max(len(good), len(bad))):
        cells = [f"{step + 1:>6}"]
        for name in columns:
            cells += [f"{cell(events, step, name):>18}" for events in (good, bad)]
        lines.append("".join(cells))
    return lines


def cell(events, step, name):
    if step >= len(events):
        return "-"
    value = events[step].get(name)
    return f"{value:.8g}" if isinstance(value, (int, float)) else str(value)


def missing(case, right, broken):
    """What of its symptom a case does not show; empty when it shows it."""
    good, bad = both(case, right, broken)
    if good[0] != 0:
        return f"the program without a fault ended with exit code {good[0]}:\n{good[1]}"
    if case.symptom != "differs":
        if not re.search(case.symptom, bad[1]):
            return f"the broken program does not say '{case.symptom}'"
        return "" if not re.search(case.symptom, good[1]) else "the right program says it too"
    if case.show == "output":
        return "" if good[1] != bad[1] else "both print the same"
    return "" if differs(case.show, good[2], bad[2]) else f"{', '.join(case.show)} do not differ"


def differs(columns, good, bad):
    """Whether a reader of the table sees a difference, beyond the last digits."""
    if len(good) != len(bad):
        return True
    pairs = [(a.get(name), b.get(name)) for a, b in zip(good, bad) for name in columns]
    return any(not math.isclose(a, b, rel_tol=1e-4) if None not in (a, b) else a != b for a, b in pairs)
