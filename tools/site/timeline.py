"""Timelines of the site: every allocation of four training steps, from a run on this machine, which is the
front page's picture; and a step of 512 GPUs that nobody has, for a viewer of traces."""

import gzip
import json
import shlex
import subprocess
import tempfile
from pathlib import Path

KINDS = ["parameters", "gradients", "optimizer", "activations", "other"]
MOST = 3000
"""Moments that are kept: more cannot be told apart on a screen."""


STEP = (
    "--model llama-70b --tp 8 --sp on --pp 8 --dp 8 --zero 1 --recompute selective --seq 4096"
    " --global-batch 64 --micro-batch 1 --on dgx-h100:64"
)
"""As chapter 11 has it."""


def recorded_step(root: Path) -> bytes | None:
    """The timeline of STEP, compressed; None where chapter 11's program is not built."""
    program = root / "build" / "release" / "bin" / "11_five_d"
    if not program.is_file():
        return None
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "step.json"
        subprocess.run(
            [program, *shlex.split(STEP), "--trace", trace], check=True, capture_output=True
        )
        return gzip.compress(trace.read_bytes(), mtime=0)


def timeline_script(root: Path) -> str | None:
    """A script with the timeline; None where chapter 1's program is not built."""
    program = root / "build" / "release" / "bin" / "01_memory"
    if not program.is_file():
        return None
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        subprocess.run(
            [program, "--steps", "4", "--micro-batch", "16", "--trace", trace],
            check=True,
            capture_output=True,
        )
        events = json.loads(trace.read_text())["traceEvents"]
    memory = [event for event in events if event["ph"] == "C"]
    phases = sorted(
        (event for event in events if event["ph"] == "X" and event["tid"] == 2),
        key=lambda event: event["ts"],
    )
    steps = [
        [round(event["ts"] / 1e3, 3), event["name"]]
        for event in events
        if event["ph"] == "X" and event["name"].startswith("step ")
    ]
    data = {
        "kinds": KINDS,
        "moments": [
            [round(event["ts"] / 1e3, 3), *(int(event["args"][kind]) for kind in KINDS)]
            for event in thinned(memory)
        ],
        "phases": [
            [round(e["ts"] / 1e3, 3), round((e["ts"] + e["dur"]) / 1e3, 3), e["name"]]
            for e in phases
        ],
        "steps": steps,
    }
    return f"window.workbookTimeline = {json.dumps(data, separators=(',', ':'))};\n"


def thinned(memory: list[dict]) -> list[dict]:
    """At most MOST moments: of each stretch of time the highest and the last."""
    if len(memory) <= MOST:
        return memory
    begin, end = memory[0]["ts"], memory[-1]["ts"]
    stretches: dict[int, list[dict]] = {}
    for event in memory:
        place = int((event["ts"] - begin) / (end - begin) * (MOST // 2))
        stretches.setdefault(place, []).append(event)
    kept = []
    for stretch in stretches.values():
        highest = max(stretch, key=lambda event: sum(event["args"].values()))
        kept += sorted(
            {id(e): e for e in (highest, stretch[-1])}.values(), key=lambda event: event["ts"]
        )
    return kept
