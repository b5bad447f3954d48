"""Runs a chapter's executable and reads its metrics."""

import json
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .failures import TrainingFailed
from .cells.freshness import require_fresh_build
from .patience import patient
from .workspace import current_workspace, find_chapter

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class TrainingRun:
    """What one run of an executable said."""

    command: str
    steps: "pandas.DataFrame"
    """One row per optimizer step: step, loss, grad_norm, tokens_per_second, ..."""
    summary: dict
    """The last line of the metrics: configuration, losses, bytes and seconds per rank."""
    output: str = field(repr=False)
    """What it printed."""
    trace: dict | None = field(default=None, repr=False)
    """The Chrome trace, when it was asked for."""

    @property
    def spans(self) -> "pandas.DataFrame":
        """The trace's spans: rank, track, name, and begin and end in seconds; with trace=True."""
        import pandas

        if self.trace is None:
            raise TrainingFailed(f"{self.command}: has no trace; ask for it with trace=True")
        events = self.trace["traceEvents"]
        tracks = {
            (event["pid"], event["tid"]): event["args"]["name"]
            for event in events
            if event["name"] == "thread_name"
        }
        return pandas.DataFrame(
            {
                "rank": event["pid"],
                "track": tracks[event["pid"], event["tid"]],
                "name": event["name"],
                "begin": event["ts"] / 1e6,
                "end": (event["ts"] + event["dur"]) / 1e6,
            }
            for event in events
            if event["ph"] == "X"
        )

    def __repr__(self) -> str:
        return f"<{self.command}: {len(self.steps)} steps>"


class Executable:
    """A chapter's executable, or that of one of its folders ("03/parameter_server"), found to be as new as
    its sources once, for several runs."""

    def __init__(self, wanted: str):
        workspace = current_workspace()
        self.root, self.build_dir = workspace.root, workspace.build_dir
        chapter, _, room = wanted.partition("/")
        own = find_chapter(self.root, chapter).stem
        self.name = f"{own[:2]}_{room}" if room else own
        require_fresh_build(self.build_dir, f"{self.name}_main")

    def train(
        self, flags: str | Sequence[str] = "", *, trace: bool = False, timeout: float = 300
    ) -> TrainingRun:
        """A training with these flags; see workbook_run."""
        flags = _words(flags)
        command = shlex.join([self.name, *flags])
        with tempfile.TemporaryDirectory(prefix="ultra-run-") as folder:
            metrics, trace_file = Path(folder) / "metrics.jsonl", Path(folder) / "trace.json"
            flags += ["--metrics", str(metrics)]
            if trace:
                flags += ["--trace", str(trace_file)]
            output = self.run(flags, command, timeout)
            steps, summary = _read_metrics(metrics, command)
            events = json.loads(trace_file.read_text()) if trace else None
        return TrainingRun(command, steps, summary, output, events)

    def run(self, flags: list[str], command: str, timeout: float) -> str:
        """What it prints; `command` is its name in errors."""
        try:
            done = subprocess.run(
                [self.build_dir / "bin" / self.name, *flags],
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=patient(timeout),
            )
        except subprocess.TimeoutExpired:
            raise TrainingFailed(f"{command}: still running after {patient(timeout):g} s: stopped") from None
        if done.returncode != 0:
            raise TrainingFailed(f"{command}: exit code {done.returncode}\n{done.stderr.strip()}")
        return done.stdout


def workbook_run(
    chapter: str, flags: str | Sequence[str] = "", *, trace: bool = False, timeout: float = 300
) -> TrainingRun:
    """Runs the executable of a chapter, or "NN/FOLDER", with these flags, as `./workbook run NN flags` does.

    workbook_run("01", "--steps 4 --recompute full").summary["ranks"][0]["peak_bytes"]

    @raises TrainingFailed with what the executable wrote to stderr
    """
    return Executable(chapter).train(flags, trace=trace, timeout=timeout)


def workbook_json(chapter: str, flags: str | Sequence[str], *, timeout: float = 300):
    """What the executable of a chapter prints as JSON, for the flags that make it do so.

    workbook_json("02", "--simulate h100,nodes=4 --simulate-json")["runs"]

    @raises TrainingFailed with what the executable wrote to stderr, or when it printed no JSON
    """
    executable = Executable(chapter)
    flags = _words(flags)
    command = shlex.join([executable.name, *flags])
    output = executable.run(flags, command, timeout)
    try:
        return json.loads(output)
    except json.JSONDecodeError as error:
        raise TrainingFailed(f"{command}: printed no JSON ({error}): {output[:200]}") from None


def _words(flags: str | Sequence[str]) -> list[str]:
    return shlex.split(flags) if isinstance(flags, str) else list(flags)


def _read_metrics(path: Path, command: str) -> tuple["pandas.DataFrame", dict]:
    import pandas

    events = [json.loads(line) for line in path.read_text().splitlines()]
    steps = pandas.DataFrame([event for event in events if event["event"] == "step"])
    summaries = [event for event in events if event["event"] == "summary"]
    if len(summaries) != 1:
        raise TrainingFailed(f"{command}: wrote {len(summaries)} summaries to --metrics, not 1")
    return steps.drop(columns="event", errors="ignore"), summaries[0]
