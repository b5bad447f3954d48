"""Draws what the ranks of a pipeline do in a step, in the same colours in every figure.

    from ultra_notebook.gantt import draw_schedule, schedule_legend

A chart is what 07_pipeline_parallel writes with --executed-gantt and --pp-table-gantt: a dictionary
with "stages" and "actions", each of which has "stage", "action" ("F0", "BW3.1"), "begin" and "end".
"""

from typing import Any

from .pictures.picture_svg import ON_COLOUR
from .plotting import COLORS

KINDS = {
    "F": ("forward", "#0072B2"),
    "BW": ("backward, whole", "#D55E00"),
    "B": ("backward, inputs", "#E69F00"),
    "W": ("backward, weights", "#009E73"),
    "U": ("update", "#CC79A7"),
}
"""What each kind of action is called, and its colour."""

WIDTH_OF_DIGIT = 0.0095
"""Share of the picture's width that an action needs for each digit of its number."""


def shade(color: str, chunk: int) -> tuple[float, float, float]:
    """The colour of a chunk: those behind the first are paler."""
    from matplotlib.colors import to_rgb

    rest = 0.6**chunk
    return tuple(rest * each + (1 - rest) for each in to_rgb(color))


def split_name(action: str) -> tuple[str, int, int]:
    """Kind, micro-batch and chunk of an action: "BW12.1" is ("BW", 12, 1)."""
    passed, _, chunk = action.partition(".")
    kind = passed.rstrip("0123456789")
    return kind, int(passed[len(kind) :]), int(chunk or 0)


def draw_schedule(axes: Any, chart: dict, *, end: float = 0, scale: float = 1, numbers: bool = True):
    """Draws a row for each stage, the first on top; what is hatched is idle.

    @param end      the time at which the picture ends, in the chart's unit; 0: with the step
    @param scale    what a time of the chart is multiplied by: 1e3 draws milliseconds
    @param numbers  whether actions have the numbers of their micro-batches
    """
    actions = chart["actions"]
    seconds = max(action["end"] for action in actions)
    width = max(end, seconds)
    stages = range(chart["stages"])
    idle = {"color": COLORS["idle"], "edgecolor": "white", "hatch": "////", "linewidth": 0}
    for stage in stages:
        axes.barh(stage, scale * seconds, height=0.84, zorder=1, **idle)
    spans = [(action["stage"], action["begin"], action["end"]) for action in actions]
    for action, span in zip(actions, spans):
        kind, micro_batch, chunk = split_name(action["action"])
        begin, length = scale * action["begin"], scale * (action["end"] - action["begin"])
        half = 0 if spans.count(span) == 1 else (-0.21 if kind == "F" else 0.21)
        height = 0.84 if half == 0 else 0.42
        axes.barh(
            action["stage"] + half,
            length,
            left=begin,
            height=height,
            color=shade(KINDS[kind][1], chunk),
            edgecolor="white",
            linewidth=0.5,
            zorder=2,
        )
        digits = len(str(micro_batch))
        if numbers and length >= digits * WIDTH_OF_DIGIT * scale * width:
            ink = "white" if chunk == 0 else "black"
            place = (begin + length / 2, action["stage"] + half)
            number = axes.text(*place, micro_batch, ha="center", va="center", fontsize=7, color=ink)
            number.set(gid=ON_COLOUR, zorder=3)
    axes.set(xlim=(0, scale * width), ylim=(chart["stages"] - 0.5, -0.5), yticks=stages)
    axes.set_yticklabels([f"stage {stage}" for stage in stages], fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(False)


def schedule_legend(figure: Any, kinds: str = "F BW", *, chunks: int = 1, **where: Any):
    """The legend of draw_schedule() for these kinds, above the figure unless told otherwise."""
    from matplotlib.patches import Patch

    handles = []
    for kind in kinds.split():
        name, color = KINDS[kind]
        for chunk in range(chunks if kind != "U" else 1):
            of_chunk = chunks > 1 and kind != "U"
            label = f"{name}, chunk {chunk}" if of_chunk else name
            handles.append(Patch(color=shade(color, chunk), label=label))
    idle = Patch(facecolor=COLORS["idle"], edgecolor="white", hatch="////", label="idle")
    where = {"loc": "outside upper center", "ncols": 4, "fontsize": 8, **where}
    return figure.legend(handles=[*handles, idle], **where)
