"""Compares every technique with plain training: the table at the end of `./workbook run`.

    compare.py BIN_FOLDER

Each chapters/NN_name/compare.json names a baseline and rows:
    {"common_flags": "--steps 6",
     "baseline": {"label": "plain", "flags": ""},
     "rows": [{"label": "recompute full", "flags": "--recompute full", "promise": "bitwise"}]}
A promise is "bitwise" or the largest relative difference of the losses, such as "1e-10". Each row
is one short run with --metrics of the chapter's executable, or of another that it names as its "program".
Exit code 1 when a promise is broken.
"""

import dataclasses
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEFAULT_COMMON_FLAGS = "--steps 6"
CATEGORIES = ("parameters", "gradients", "optimizer", "activations")


@dataclasses.dataclass
class Run:
    """What one run of a chapter's executable measured."""

    losses: list
    peak_bytes: dict  # per category, of the rank with the largest total; with other and total
    sent_bytes: float  # in a step, of the rank that sends most
    tokens_per_second: float


class RunFailed(Exception):
    """The executable stopped with an error; the message is what it printed last."""


def run_program(program, flags):
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        command = [str(program), *flags, "--metrics", str(metrics)]
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
                              errors="replace", capture_output=True, check=False)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise RunFailed(f"exit code {done.returncode}: {lines[-1] if lines else 'no message'}")
        return read_metrics(metrics.read_text(encoding="utf-8"))


def read_metrics(text):
    events = [json.loads(line) for line in text.splitlines() if line.strip()]
    summary = events[-1]
    speeds = [event["tokens_per_second"] for event in events if event["event"] == "step"]
    # The first step also allocates and warms up.
    speed = statistics.median(speeds[1:] or speeds)
    peak = max((rank["peak_bytes"] for rank in summary["ranks"]), key=lambda p: p["total"])
    sent = max(sum(rank["sent_bytes"].values()) for rank in summary["ranks"])
    return Run(summary["losses"], with_other(peak), sent / max(len(speeds), 1), speed)


def with_other(peak):
    """Adds up all categories that have no column of their own."""
    named = {name: peak.get(name, 0) for name in CATEGORIES}
    rest = sum(value for name, value in peak.items() if name not in (*CATEGORIES, "total"))
    return {**named, "other": rest, "total": peak["total"]}


def largest_difference(losses, baseline):
    """The largest relative difference of two loss curves; infinite when they cannot be compared."""
    if len(losses) != len(baseline) or not losses:
        return float("inf")
    differences = [abs(a - b) / max(abs(b), 1e-300) for a, b in zip(losses, baseline)]
    return max(d if d == d else float("inf") for d in differences)


def keeps_promise(promise, run, baseline):
    if promise == "bitwise":
        return run.losses == baseline.losses and bool(run.losses)
    return largest_difference(run.losses, baseline.losses) <= float(promise)


def megabytes(count):
    return f"{count / 1e6:,.1f}"


def measured_cells(run):
    return [*(megabytes(run.peak_bytes[name]) for name in (*CATEGORIES, "other", "total")),
            megabytes(run.sent_bytes), f"{run.tokens_per_second:,.0f}"]


def row_cells(row, run, baseline):
    difference = largest_difference(run.losses, baseline.losses)
    kept = keeps_promise(row["promise"], run, baseline)
    shown = "0" if difference == 0 else f"{difference:.1e}"
    promise = "bitwise" if row["promise"] == "bitwise" else f"<= {row['promise']}"
    return [row["label"], shown, f"{promise} {'✓' if kept else '✗ BROKEN'}",
            *measured_cells(run)], kept


def print_table(header, rows):
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        cells = [cell.ljust(width) if i in (0, 2) else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def flags_of(comparison, row):
    return shlex.split(comparison.get("common_flags", DEFAULT_COMMON_FLAGS)) + \
        shlex.split(row["flags"])


def show_progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def program_of(chapter, row):
    return row.get("program", chapter)


def compare_chapter(chapter, comparison, folder):
    """Prints the chapter's table; returns the labels of the rows that broke their promise."""
    baseline_row = comparison["baseline"]
    show_progress(f"{chapter}: {baseline_row['label']}")
    baseline = run_program(folder / chapter, flags_of(comparison, baseline_row))
    table = [[baseline_row["label"], "-", "-", *measured_cells(baseline)]]
    broken = []
    for row in comparison["rows"]:
        show_progress(f"{chapter}: {row['label']}")
        try:
            run = run_program(folder / program_of(chapter, row), flags_of(comparison, row))
            cells, kept = row_cells(row, run, baseline)
        except RunFailed as error:
            cells, kept = [row["label"], "-", f"✗ {error}", *["-"] * 8], False
        table.append(cells)
        if not kept:
            broken.append(row["label"])
    show_progress("")
    flags = " ".join(flags_of(comparison, {"flags": ""}))
    print(f"\n{chapter}: every technique against plain training ({flags})")
    print("Memory in MB, of the rank that needs most; MB sent in a step, by the one that sends most.")
    header = ["technique", "loss difference", "promise", *CATEGORIES, "other", "peak MB",
              "sent MB", "tokens/s"]
    print_table(header, table)
    return broken


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    broken = []
    for path in sorted(ROOT.glob("chapters/[0-9][0-9]_*/compare.json")):
        chapter = path.parent.name
        try:
            comparison = json.loads(path.read_text(encoding="utf-8"))
            broken += compare_chapter(chapter, comparison, pathlib.Path(sys.argv[1]))
        except RunFailed as error:
            sys.exit(f"{chapter}: the baseline did not run: {error}")
        except (json.JSONDecodeError, KeyError) as error:
            sys.exit(f"{path.relative_to(ROOT)}: cannot be used: {error!r}")
    if broken:
        sys.exit(f"Broken promises: {', '.join(broken)}")


if __name__ == "__main__":
    main()
