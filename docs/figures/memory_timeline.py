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
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/notebook"))
from ultra_notebook.pictures.picture_svg import svg_of  # noqa: E402  (after the path)
from ultra_notebook.plotting import COLORS  # noqa: E402

VISIBLE_POINTS = 0.5  # in 1/72 inch: less is not seen
KINDS = ["parameters", "gradients", "optimizer", "activations", "other"]
ALT = ("Memory of four training steps: activations rise and fall, gradients take their place, optimizer states arrive "
       "in step 1")
PICTURE = ROOT / "docs/figures/memory_timeline.svg"


def trace_of_four_steps():
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.json"
        program = ROOT / "build/release/bin/01_memory"
        subprocess.run([program, "--steps", "4", "--micro-batch", "16", "--trace", trace],
                       check=True, stdout=subprocess.DEVNULL)
        return json.loads(trace.read_text())["traceEvents"]


def visible_points(x, y):
    """Which points of a curve to draw, so that it looks as if all were (Ramer, Douglas, Peucker).

    x, y: in 1/72 inch. The curve through the chosen points misses none by VISIBLE_POINTS.
    """
    chosen = {0, len(x) - 1}
    waiting = [(0, len(x) - 1)]
    while waiting:
        first, last = waiting.pop()
        if last - first < 2:
            continue
        way = complex(x[last] - x[first], y[last] - y[first])
        to = (x[first + 1:last] - x[first]) + 1j * (y[first + 1:last] - y[first])
        along = (to * way.conjugate()).real / max(abs(way) ** 2, 1e-12)
        missed = numpy.abs(to - along.clip(0, 1) * way)
        if missed.max() >= VISIBLE_POINTS:
            middle = first + 1 + int(missed.argmax())
            chosen.add(middle)
            waiting += [(first, middle), (middle, last)]
    return sorted(chosen)


def draw_stack(axes, time, levels, top):
    """As axes.stackplot, of few points: each kind reaches down to 0, with those below it over it."""
    width, height = axes.get_window_extent().size * 72 / axes.figure.dpi
    boundaries = numpy.cumsum(levels, axis=0)
    for i in reversed(range(len(KINDS))):
        shown = visible_points(time / time[-1] * width, boundaries[i] / top * height)
        axes.fill_between(time[shown], boundaries[i][shown], color=COLORS[KINDS[i]], linewidth=0,
                          label=KINDS[i])


def draw(events):
    memory = [event for event in events if event["ph"] == "C"]
    steps = [event for event in events if event["name"].startswith("step ")]
    time = numpy.array([event["ts"] / 1e3 for event in memory])
    levels = numpy.array([[event["args"][kind] / 1e6 for event in memory] for kind in KINDS])
    figure, axes = plt.subplots(figsize=(10, 3.4))
    top = levels.sum(axis=0).max() * 1.12
    draw_stack(axes, time, levels, top)
    for step in steps:
        axes.axvline(step["ts"] / 1e3, color="#444444", linewidth=0.8, linestyle=":")
        axes.text(step["ts"] / 1e3, top * 0.98, f" {step['name']}", va="top", fontsize=9)
    axes.set(xlabel="time (ms)", ylabel="memory in use (MB)", ylim=(0, top), xlim=(0, time[-1]))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, reverse=True)
    PICTURE.write_text(svg_of(figure, ALT, data=""), encoding="utf-8")


if __name__ == "__main__":
    matplotlib.use("svg")
    matplotlib.rc_file(ROOT / "tools/notebook/matplotlibrc")
    draw(trace_of_four_steps())
    print(f"wrote {PICTURE.relative_to(ROOT)}")
