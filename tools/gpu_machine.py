"""A machine with a GPU, for measure_gpu.py: processes with limits, and a report that grows with each."""

import concurrent.futures
import csv
import io
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

PROGRAM = "09_kernels"
CLOCK_FIELDS = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu",
                "clocks_event_reasons.active")
# Source: NVML, nvmlClocksEventReasons. Idle (bit 0) and what a user has set (bit 1) are not told.
REASONS = {0x4: "power cap", 0x8: "hardware", 0x20: "temperature", 0x40: "temperature",
           0x80: "power brake"}
SKIPPED = 77
LIMIT = 90.0  # seconds of a process


def read_events(path):
    """The lines of JSON that a program has written."""
    lines = path.read_text(encoding="utf-8").splitlines() if path and path.is_file() else []
    return [json.loads(line) for line in lines]


class BudgetEnded(Exception):
    """No other process may begin."""


def cublas_folders():
    """Where cuBLAS may be: the toolkit's folders, and those of Python's packages."""
    patterns = ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib"]
    patterns += [f"{path}/nvidia/*/lib" for path in sys.path if path.endswith("-packages")]
    found = []
    for pattern in patterns:
        found += [str(path.parent)
                  for path in pathlib.Path("/").glob(f"{pattern[1:]}/libcublas.so.*")]
    return list(dict.fromkeys(found))


def rows_of_csv(text):
    """What ncu lists, a metric of a launch each; other lines are the program's own."""
    rows = [line for line in text.splitlines() if line.startswith('"')]
    return csv.DictReader(io.StringIO("\n".join(rows)))


def sums_of_csv(text):
    """Metric -> its sum over the launches that ncu lists."""
    sums = {}
    for row in rows_of_csv(text):
        value = float(row["Metric Value"].replace(",", "")) if row["Metric Value"] else 0.0
        sums[row["Metric Name"]] = sums.get(row["Metric Name"], 0.0) + value
    return sums


def file_name(unit):
    """What the files of a process are called."""
    return re.sub(r"[^\w.]+", "_", unit)


@dataclass
class Rung:
    """A rung of a ladder, as the program lists it."""

    number: int
    is_chosen: bool = False  # the ladder's last one, or for Hopper


def ladders_of(listed):
    """Name -> rungs, from what the program lists."""
    found = {}
    for line in listed.splitlines():
        if ladder := re.match(r"(\w+): ", line):
            rungs = found.setdefault(ladder.group(1), [])
        elif rung := re.match(r" {1,4}(\d+) +\w", line):
            rungs.append(Rung(int(rung.group(1))))
        elif "/hopper/" in line and rungs:
            rungs[-1].is_chosen = True
    for rungs in found.values():
        rungs[-1].is_chosen = True
    return found


class Clocks:
    """The GPU's clocks, power and what holds them down, while a process runs; none without a log."""

    def __init__(self, log):
        self.log, self.samples, self.process = log, [], None

    def __enter__(self):
        if self.log is None:
            return self
        with open(self.log, "w", encoding="utf-8") as log:
            try:
                self.process = subprocess.Popen(
                    ["nvidia-smi", f"--query-gpu={','.join(CLOCK_FIELDS)}", "--loop-ms=100",
                     "--format=csv,noheader,nounits"], stdout=log, stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL)
            except OSError:
                pass  # without it, no clocks are told
        return self

    def __exit__(self, *_):
        if self.process is None:
            return
        self.process.terminate()
        self.process.wait()
        rows = (line.split(", ") for line in self.log.read_text(encoding="utf-8").splitlines())
        self.samples = [dict(zip(CLOCK_FIELDS, row)) for row in rows
                        if len(row) == len(CLOCK_FIELDS)]

    def values_of(self, field):
        found = []
        for sample in self.samples:
            try:
                found.append(float(sample[field]))
            except ValueError:
                pass  # "[N/A]"
        return found

    def median_of(self, field):
        """None where it is not told."""
        values = self.values_of(field)
        return statistics.median(values) if values else None

    def reasons(self):
        """What has slowed the GPU down at any time."""
        bits = 0
        for sample in self.samples:
            if re.fullmatch(r"0x[0-9a-fA-F]+", sample[CLOCK_FIELDS[-1]]):
                bits |= int(sample[CLOCK_FIELDS[-1]], 16)
        return ", ".join(dict.fromkeys(name for bit, name in REASONS.items() if bits & bit)) or "-"


class Done:
    """What became of a process."""

    def __init__(self, code, text, seconds, clocks, events):
        self.code, self.text, self.seconds = code, text, seconds
        self.clocks, self.events = clocks, events

    def verdict(self):
        if self.code is None:
            return "KILLED: it took longer than its limit"
        some = "[       OK ]" in self.text
        if self.code == SKIPPED or "[  SKIPPED ]" in self.text and not some:
            return "skipped"
        if self.code != 0:
            return f"FAILED: exit code {self.code}"
        skipped = re.search(r"^\[  SKIPPED \] (\d+) tests?,", self.text, re.M)
        return f"right, {skipped.group(1)} skipped" if skipped else "right"

    def event(self):
        """The first line of JSON that it has written, if it has."""
        return next(iter(read_events(self.events)), None)


class Machine:
    """Runs processes, each once, and writes down what they say as soon as they have said it."""

    def __init__(self, arguments):
        self.folder, self.output = arguments.folder.resolve(), arguments.output
        self.limit, self.only, self.first = LIMIT, arguments.only, ""
        self.jobs, self.lock = arguments.jobs, threading.RLock()
        self.end = time.monotonic() + arguments.budget
        self.failures = []
        self.output.mkdir(parents=True, exist_ok=True)
        self.state = self.output / "done.jsonl"
        if arguments.again:
            self.state.unlink(missing_ok=True)
        self.done = self.read_state()
        # For our own programs; the vendor's find their libraries themselves. Tests of operations run
        # on whatever device this variable names.
        self.environment = {**os.environ, "ULTRA_TEST_DEVICE": "cuda", "LD_LIBRARY_PATH": ":".join(
            [*cublas_folders(), os.environ.get("LD_LIBRARY_PATH", "")])}
        if not (self.output / "report.md").is_file():
            device = self.text_of("nvidia-smi", "--format=csv,noheader", "--query-gpu=name,"
                                  "driver_version,memory.total,clocks.max.sm,power.limit")
            self.say(f"# Measured on {device.strip()}")

    def read_state(self):
        if not self.state.is_file():
            return {}
        entries = map(json.loads, self.state.read_text(encoding="utf-8").splitlines())
        return {entry["unit"]: entry for entry in entries}

    def begin(self, first, limit):
        """A part begins: it takes what matches `first`, too, and a process may take so long."""
        self.first, self.limit = first, limit

    # What is told ------------------------------------------------------------------------------

    def say_on_screen(self, text):
        print(text, flush=True)

    def say(self, *lines):
        with self.lock, open(self.output / "report.md", "a", encoding="utf-8") as report:
            report.write("\n".join(lines) + "\n")

    def keep(self, name, event):
        """Adds a line of JSON to a file of results."""
        with self.lock, open(self.output / name, "a", encoding="utf-8") as kept:
            kept.write(json.dumps(event) + "\n")

    def section(self, title, *lines):
        self.say("", f"## {title}", "", *lines)

    def row(self, *cells):
        self.say(f"| {' | '.join(str(cell) for cell in cells)} |")

    def block(self, title, text):
        self.say("", f"### {title}", "", "```text", text.strip(), "```")

    def finish(self):
        """All failures of all parts so far; those of earlier calls, too."""
        self.section("What failed", *(f"- {failure}" for failure in self.failures or ["nothing"]))
        self.say_on_screen(f"{self.output / 'report.md'}: {len(self.failures)} failures")

    def events_of(self, unit):
        """Where a process of our program writes its line of JSON."""
        return self.output / f"{file_name(unit)}.jsonl"

    # Processes -----------------------------------------------------------------------------------

    def run_limited(self, words, environment, limit):
        """The exit code, None when it was killed, and the output so far."""
        try:
            process = subprocess.Popen(
                [str(word) for word in words], text=True, errors="replace", env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True)
        except OSError as error:
            return error.errno, str(error)
        try:
            text = process.communicate(timeout=limit)[0]
            return process.returncode, text
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]

    def together(self, processes):
        """Runs processes whose times do not matter, `jobs` at a time: each is a pair of arguments
        for once()."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for begun in [pool.submit(self.once, *words, **named) for words, named in processes]:
                begun.result()

    def once(self, unit, *words, then=None, is_ours=True, writes_events=False, is_timed=False):
        """Runs a process unless it is done already; None when it is, or nobody wants it.

        `unit` is its name. Of our own programs the first word is the name in the folder. The clocks
        are read beside what is timed."""
        if not re.search(self.only, unit) or not re.search(self.first, unit):
            return None
        if unit in self.done:
            failure = self.done[unit]["failure"]
            if failure and failure not in self.failures:
                self.failures.append(failure)
            return None
        if time.monotonic() >= self.end:
            raise BudgetEnded
        name = file_name(unit)
        events = self.events_of(unit) if writes_events else None
        program = self.folder / words[0] if (self.folder / str(words[0])).is_file() else words[0]
        command = [program, *words[1:], *(["--metrics", events] if events else [])]
        begin = time.monotonic()
        with Clocks(self.output / f"{name}.clocks.csv" if is_timed else None) as clocks:
            code, text = self.run_limited(command, self.environment if is_ours else None,
                                          min(self.limit, self.end - begin))
        done = Done(code, text, time.monotonic() - begin, clocks, events)
        if code is None and done.seconds < self.limit:
            raise BudgetEnded  # it begins again in the next call
        (self.output / f"{name}.txt").write_text(text, encoding="utf-8")
        with self.lock:
            self.note(unit, done)
            if then is not None:
                then(done)
        return done

    def note(self, unit, done):
        failure = ""
        if done.code not in (0, SKIPPED):
            last = done.text.strip().splitlines()[-1:]
            failure = f"{unit}: {done.verdict()}: {''.join(last)}"
            self.failures.append(failure)
        entry = {"unit": unit, "code": done.code, "seconds": done.seconds, "failure": failure}
        self.done[unit] = entry
        with open(self.state, "a", encoding="utf-8") as state:
            state.write(json.dumps(entry) + "\n")
        self.say_on_screen(f"{done.verdict()}: {unit} ({done.seconds:.1f} s)")

    def text_of(self, *words):
        """What a process prints that is no measurement."""
        program = self.folder / words[0] if (self.folder / words[0]).is_file() else words[0]
        return self.run_limited([program, *words[1:]], self.environment, LIMIT)[1]

    # What there is -------------------------------------------------------------------------------

    def ladders(self, wanted):
        """Name -> its rungs, of all ladders or the one wanted."""
        return {name: rungs for name, rungs in ladders_of(self.text_of(PROGRAM, "--list")).items()
                if wanted in ("", name)}

    def chosen(self, rungs):
        """Of what takes long: all rungs where --only says which, else those that matter most."""
        return [rung for rung in rungs if rung.is_chosen or self.only]

    def tests_of(self, program):
        """The full names of a test program's tests."""
        names, suite = [], ""
        for line in self.text_of(program, "--gtest_list_tests").splitlines():
            text = line.split("#")[0].rstrip()
            if re.fullmatch(r"\S+\.", text):
                suite = text
            elif suite and text.startswith("  "):
                names.append(suite + text.strip())
        return names
