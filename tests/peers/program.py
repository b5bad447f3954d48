"""Runs the workbook's program, as a user does, and reads what it has written."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The newest one that trains: it has the flags of those before.
PROGRAM = max(path.parent.name for path in ROOT.glob("chapters/*/compare.json"))


def executable():
    path = ROOT / os.environ.get("ULTRA_BUILD_DIR", "build/release") / "bin" / PROGRAM
    if not path.exists():
        sys.exit(f"FAILED: {path} is not built")
    return path


def train(folder, *flags):
    """A training with metrics and checkpoints in a folder: its events."""
    folder = Path(folder)
    metrics = folder / "metrics.jsonl"
    done = subprocess.run([executable(), *map(str, flags), "--metrics", metrics,
                           "--checkpoint", folder / "saved"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(map(str, flags))}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def losses(events):
    return events[-1]["losses"]
