"""Draws the pictures of docs/machines.md: a GPU, and a cluster.

Run from the root of the checkout: build/venv/bin/python docs/figures/machines.py
"""

import json
import pathlib
import sys

import matplotlib
import matplotlib.pyplot as plt

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/notebook"))
from ultra_notebook.pictures.picture_data import data_of  # noqa: E402  (after the path)
from ultra_notebook.pictures.picture_svg import ON_COLOUR, svg_of  # noqa: E402
from ultra_notebook.plotting import COLORS  # noqa: E402

COMPUTE, LINK = COLORS["compute"], COLORS["communication"]
MEMORY, LINE = "#D9D9D9", "#8C8C8C"
ALT = {
    "gpu": "A GPU has 132 multiprocessors around a second-level cache, and memory beside it. A multiprocessor has four "
           "parts, each with a scheduler, registers, 32 lanes and a tensor core, and shared memory for all four. Software "
           "mirrors that: a grid of thread blocks, a block of warps, a warp of 32 threads.",
    "cluster": "Two nodes of eight GPUs. Inside a node all GPUs are joined by NVLink switches; each GPU has a network card, "
               "which leads to a leaf switch, and spine switches join the leaves. Host processors, their memory and disks "
               "hang on each node.",
}


def box(axes, left, bottom, width, height, words="", colour="none", edge=LINE, size=8, **text):
    """A rectangle with words in its middle."""
    axes.add_patch(plt.Rectangle((left, bottom), width, height, facecolor=colour, edgecolor=edge, linewidth=0.9))
    if words:
        on_colour = {"gid": ON_COLOUR} if colour in (COMPUTE, LINK) else {}
        style = {"color": "white" if colour == COMPUTE else "black", "ha": "center", "va": "center", **text}
        axes.text(left + width / 2, bottom + height / 2, words, fontsize=size, **on_colour, **style)


def blank(width, height, xlim, ylim):
    figure, axes = plt.subplots(figsize=(width, height))
    axes.set(xlim=xlim, ylim=ylim)
    axes.axis("off")
    return figure, axes


def draw_chip(axes):
    """The whole GPU: 132 multiprocessors in two halves, cache between them, memory on both sides."""
    axes.text(2.9, 8.75, "a GPU (H100)", ha="center", fontweight="bold", fontsize=10)
    box(axes, 0.55, 1.2, 4.7, 7.2)
    for row in range(12):
        for column in range(11):
            bottom = 5.15 + row % 6 * 0.5 if row < 6 else 1.4 + row % 6 * 0.5
            axes.add_patch(plt.Rectangle((0.75 + column * 0.4, bottom), 0.32, 0.4, facecolor=COMPUTE, linewidth=0))
    box(axes, 0.75, 4.45, 4.32, 0.6, "second-level cache, 50 MB", MEMORY)
    for left, text in ((0, "memory (HBM): 80 GB on both sides"), (5.35, "3.35 TB/s together")):
        box(axes, left, 1.2, 0.45, 7.2, text, MEMORY, rotation=90)
    axes.text(2.9, 0.75, "132 multiprocessors", ha="center", fontsize=9)


def draw_multiprocessor(axes):
    """One multiprocessor, enlarged."""
    axes.text(9.0, 8.75, "a multiprocessor", ha="center", fontweight="bold", fontsize=10)
    for begin, end in ((8.05, 8.4), (7.65, 1.2)):
        axes.plot([5.07, 6.6], [begin, end], color=LINE, linewidth=0.8, zorder=0)
    box(axes, 6.6, 1.2, 4.8, 7.2)
    for part in range(4):
        left, bottom = 6.75 + part % 2 * 2.3, 5.55 - part // 2 * 2.85
        box(axes, left, bottom, 2.2, 2.7)
        box(axes, left + 0.1, bottom + 2.15, 2.0, 0.45, "scheduler: a warp at a time", size=6.5)
        box(axes, left + 0.1, bottom + 1.55, 2.0, 0.5, "registers, 64 KiB", MEMORY, size=7)
        for lane in range(32):
            axes.add_patch(plt.Rectangle((left + 0.1 + lane * 0.063, bottom + 0.95), 0.045, 0.5, facecolor=COMPUTE, linewidth=0))
        box(axes, left + 0.1, bottom + 0.1, 2.0, 0.75, "tensor core", COMPUTE, size=7.5)
    box(axes, 6.75, 1.3, 4.5, 1.2, "shared memory (up to 228 KiB)\nand first-level cache, 256 KiB together", MEMORY)
    axes.text(9.0, 0.75, "four parts of 32 lanes", ha="center", fontsize=9)


def draw_software(axes):
    """The hierarchy of threads, beside what runs each."""
    axes.text(14.35, 8.75, "what runs on it", ha="center", fontweight="bold", fontsize=10)
    rows = [("grid", "all thread blocks of a kernel:\nthe whole GPU", 7.1),
            ("thread block", "up to 1024 threads that share\nshared memory: one multiprocessor,\nwhich holds several blocks", 5.15),
            ("warp", "32 threads, one instruction\nat a time: one part", 3.2),
            ("thread", "registers of its own: one lane", 1.6)]
    for name, words, bottom in rows:
        axes.text(12.0, bottom + 0.75, name, fontsize=9, fontweight="bold", va="center")
        axes.text(12.0, bottom + 0.5, words, fontsize=8, va="top", linespacing=1.35)


def draw_gpu():
    figure, axes = blank(11, 5.4, (-0.1, 16.6), (0.4, 9.1))
    draw_chip(axes)
    draw_multiprocessor(axes)
    draw_software(axes)
    return figure


def draw_node(axes, left):
    """Eight GPUs, what joins them, their cards, and the host."""
    box(axes, left, 0.1, 8.6, 4.55)
    box(axes, left + 0.2, 0.3, 8.2, 0.7, "2 processors, host memory, disks", MEMORY)
    box(axes, left + 0.2, 1.45, 8.2, 0.5, "NVLink switches: 450 GB/s per GPU and direction", LINK)
    for gpu in range(8):
        x = left + 0.25 + gpu * 1.03
        box(axes, x, 2.35, 0.88, 0.85, f"GPU {gpu}", COMPUTE, size=7)
        box(axes, x + 0.14, 3.75, 0.6, 0.6, "card", MEMORY, size=6.5)
        axes.plot([x + 0.44] * 2, [1.95, 2.35], color=LINK, linewidth=2.5)
        axes.plot([x + 0.44] * 2, [3.2, 3.75], color=LINE, linewidth=1.2)
        axes.plot([x + 0.2] * 2, [1.0, 2.35], color=LINE, linewidth=1.0, linestyle=":", zorder=0)


def draw_cluster():
    figure, axes = blank(11, 5.2, (-0.2, 18.4), (-0.5, 9.0))
    leaves = [2.2 + leaf * 4.0 for leaf in range(4)]
    for node, left in enumerate((0, 9.4)):
        draw_node(axes, left)
        axes.text(left + 4.3, -0.3, f"node {node}", fontsize=9, fontweight="bold", ha="center")
        for gpu in range(8):
            card = left + 0.25 + gpu * 1.03 + 0.44
            axes.plot([card, leaves[gpu // 2] + 1.0], [4.35, 6.2], color=LINK, linewidth=0.9)
    for leaf in leaves:
        box(axes, leaf, 6.2, 2.0, 0.6, "leaf switch", MEMORY)
        for spine in (5.2, 11.0):
            axes.plot([leaf + 1.0, spine + 1.0], [6.8, 8.2], color=LINK, linewidth=1.6)
    for spine in (5.2, 11.0):
        box(axes, spine, 8.2, 2.0, 0.6, "spine switch", MEMORY)
    axes.text(18.2, 5.2, "50 GB/s per card\nand direction", fontsize=8, ha="right", va="center")
    return figure


PICTURES = {"gpu": draw_gpu, "cluster": draw_cluster}


def set_style():
    matplotlib.use("svg")
    matplotlib.rc_file(ROOT / "tools/notebook/matplotlibrc")


if __name__ == "__main__":
    set_style()
    for name, draw in PICTURES.items():
        picture = draw()
        file = ROOT / "docs/figures" / f"{name}.svg"
        file.write_text(svg_of(picture, ALT[name], json.dumps(data_of(picture, measured=False))), encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}")
