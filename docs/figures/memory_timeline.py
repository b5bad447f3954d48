"""Draws the README's picture: trains four steps with bin/01_memory and plots every allocation.

Run from the root of the checkout: build/venv/bin/python docs/figures/memory_timeline.py
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import matplotlib
import matplotlib.pyplot as plt

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/notebook"))
from ultra_notebook.plotting import COLORS  # noqa: E402  (after the path)

VISIBLE_BYTES = 100_000  # smaller changes are thinner than the picture's lines
KINDS = ["parameters", "gradients", "optimizer", "activations", "other"]
PICTURE = ROOT / "docs/figures/memory_timeline.svg"


def trace_of_four_steps():
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.json"
        program = ROOT / "build/release/bin/01_memory"
        subprocess.run([program, "--steps", "4", "--micro-batch", "16", "--trace", trace],
                       check=True, stdout=subprocess.DEVNULL)
        return json.loads(trace.read_text())["traceEvents"]


def visible_changes(events):
    """The memory counters without those that differ too little from the one before."""
    shown = []
    for event in (event for event in events if event["ph"] == "C"):
        levels = event["args"]
        if not shown or any(abs(levels[kind] - shown[-1]["args"][kind]) > VISIBLE_BYTES
                            for kind in KINDS):
            shown.append(event)
    return shown


def draw(events):
    memory = visible_changes(events)
    steps = [event for event in events if event["name"].startswith("step ")]
    time = [event["ts"] / 1e3 for event in memory]
    levels = [[event["args"][kind] / 1e6 for event in memory] for kind in KINDS]
    figure, axes = plt.subplots(figsize=(10, 3.4))
    axes.stackplot(time, levels, labels=KINDS, colors=[COLORS[kind] for kind in KINDS])
    top = max(map(sum, zip(*levels))) * 1.12
    for step in steps:
        axes.axvline(step["ts"] / 1e3, color="#444444", linewidth=0.8, linestyle=":")
        axes.text(step["ts"] / 1e3, top * 0.98, f" {step['name']}", va="top", fontsize=9)
    axes.set(xlabel="time (ms)", ylabel="memory in use (MB)", ylim=(0, top), xlim=(0, time[-1]))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    figure.patch.set_facecolor("white")
    figure.savefig(PICTURE, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    matplotlib.use("svg")
    matplotlib.rc_file(ROOT / "tools/notebook/matplotlibrc")
    draw(trace_of_four_steps())
    print(f"wrote {PICTURE.relative_to(ROOT)}")
