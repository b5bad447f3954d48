"""Which figures compute, where they stand, and what is shown without scripts."""

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from articles import Article, Shelf
from wasm import MODULES


@dataclass(frozen=True)
class Figure:
    """A figure of docs/site/figures."""

    name: str
    module: str
    script: str
    chapter: str
    anchor: str
    """The section of the chapter at whose end it stands."""
    title: str
    about: str
    fallback: str
    alt: str


FIGURES = [
    Figure(
        "memory",
        "memory",
        "memory",
        "01_memory",
        "the-same-forms-for-models-that-do-not-fit-here",
        "The memory of a training step",
        "Chapter 1's closed forms, for any Llama-like or GPT-like model. `./workbook run 01 --on`"
        " holds them against a recorded step.",
        "chapters/01_memory/figures/memory_timeline.svg",
        "The memory of a step over time",
    ),
    Figure(
        "player",
        "collectives",
        "player",
        "02_collectives",
        "the-ring-step-by-step",
        "A collective, round by round",
        "Every operation and algorithm of chapter 2, on any number of ranks: the very step lists"
        " that the ranks carry out.",
        "chapters/02_collectives/figures/ring_steps.svg",
        "A ring all-reduce, step by step",
    ),
    Figure(
        "costs",
        "collectives",
        "costs",
        "02_collectives",
        "what-it-costs",
        "What a collective costs",
        "Chapter 2's simulator of links, as `./workbook run 02 --simulate` runs it: latency α, "
        "time"
        " per byte β, and whose messages share a link.",
        "chapters/02_collectives/figures/cost_by_size.svg",
        "Times of all-reduce algorithms by size",
    ),
    Figure(
        "prefetch",
        "zero",
        "zero",
        "04_zero",
        "prefetch",
        "Gathers behind the computation",
        "A rank and its link through one micro-batch of ZeRO-3: how many units ahead must it ask"
        " for?",
        "chapters/04_zero/figures/zero3_frames.svg",
        "A micro-batch of ZeRO-3 in frames",
    ),
    Figure(
        "stages",
        "zero",
        "zero",
        "04_zero",
        "what-it-saves",
        "What a rank keeps",
        "ZeRO's stages for any model and any number of ranks, by the formulas of exercise 04.6.",
        "chapters/04_zero/figures/memory_per_rank.svg",
        "Bytes per rank with each stage",
    ),
    Figure(
        "pipeline",
        "pipeline",
        "pipeline",
        "07_pipeline_parallel",
        "smaller-stages-interleaving",
        "A pipeline's schedule",
        "Every schedule of chapter 7, simulated as `./workbook run 07 --pp-table` does: passes,"
        " bubble, and the activations that are kept.",
        "chapters/07_pipeline_parallel/figures/one_forward_one_backward.svg",
        "A pipeline with 1F1B",
    ),
    Figure(
        "planner",
        "planner",
        "planner",
        "11_five_d",
        "the-planner",
        "The planner",
        "Chapter 11's search of all layouts of a model on a cluster, as `./workbook run 11 --plan`"
        " makes it: the ten fastest, what they keep, where their time goes, and why.",
        "chapters/11_five_d/figures/shares.svg",
        "Where the time of a step goes, for six layouts",
    ),
]
"""A figure whose module is not in wasm.MODULES, or whose chapter is not there, is left out."""


def figures_of(shelf: Shelf, chapter: str | None = None) -> list[Figure]:
    """The figures of a chapter, or all."""
    names = {page.name for page in shelf.book.chapters}
    there = [f for f in FIGURES if f.module in MODULES and f.chapter in names]
    return [figure for figure in there if chapter in (None, figure.chapter)]


def section_of(figure: Figure, shelf: Shelf, computes: bool) -> str:
    """The HTML that stands on the page, with a picture for those without scripts."""
    file = shelf.book.root / figure.fallback
    picture = (
        shelf.picture(file.read_bytes(), "svg+xml", figure.alt, "picture") if file.is_file() else ""
    )
    about = re.sub(r"`(.+?)`", r"<code>\1</code>", escape(figure.about))
    note = (
        ""
        if computes
        else "<p>Built without a compiler for WebAssembly: this figure does not compute.</p>"
    )
    data = f' data-figure="{figure.name}" data-module="{figure.module}"' if computes else ""
    return (
        f'<section class="figure" id="figure-{figure.name}"{data}'
        f' aria-labelledby="figure-{figure.name}-title"><h3'
        f' id="figure-{figure.name}-title">{escape(figure.title)}</h3><p'
        f' class="about">{about}</p><div class="fallback">{picture}{note}</div></section>'
    )


def with_figures(article: Article, figures: list[Figure], shelf: Shelf, computes: bool) -> str:
    """A chapter's HTML with its figures at the ends of their sections.

    @raises LookupError when a chapter has no such section any more
    """
    html = article.html
    for figure in figures:
        start = re.search(rf'<h([23]) id="{figure.anchor}">', html)
        if start is None:
            raise LookupError(
                f"tools/site/figures.py: {figure.chapter} has no section #{figure.anchor}"
            )
        behind = re.compile(rf'<h[2-{start[1]}] id="').search(html, start.end())
        place = behind.start() if behind else len(html)
        html = html[:place] + section_of(figure, shelf, computes) + "\n" + html[place:]
    return html


def scripts_of(figures: list[Figure]) -> list[str]:
    """The scripts that a page with these figures loads."""
    return list(dict.fromkeys(f"assets/figures/{figure.script}.js" for figure in figures))


def copy_scripts(docs: Path, output: Path) -> None:
    """Puts the figures' scripts beside the pages."""
    folder = output / "assets" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted((docs / "figures").glob("*.js")):
        (folder / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
