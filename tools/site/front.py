"""The front page: a picture that moves, one sentence, four doors, the map of the chapters."""

import re
from html import escape

from articles import Shelf
from book import Book, Page
from jinja2 import Template

SENTENCE = (
    "Learn how large language models are trained on GPU clusters by building every technique"
    " yourself, in C++20 and CUDA, and proving that each one is the same computation as training on"
    " one device: the same numbers, to rounding."
)
MEASURED = {
    "01": "two_core_cpu#a-training-step",
    "02": "two_core_cpu#all-reduce-ours-against-mpis-and-against-memory",
    "03": "two_core_cpu#weak-scaling-of-data-parallelism",
    "04": "two_core_cpu#speed-of-zeros-stages",
    "05": "two_core_cpu#tensor-parallelism",
    "07": "two_core_cpu#pipelines",
    "08": "two_core_cpu#grouped-products-of-experts",
    "10": "two_core_cpu#numbers-of-two-bytes",
}
"""Where a chapter's measured times stand."""


def front_page(
    template: Template, book: Book, shelf: Shelf, assertions: dict[str, int], alive: bool
) -> str:
    """The body of the front page."""
    svg = (book.root / "docs/figures/memory_timeline.svg").read_bytes()
    alt = (
        "Memory of four training steps: activations rise and fall, gradients take their place,"
        " optimizer states arrive in step 1"
    )
    picture = shelf.picture(svg, "svg+xml", alt, "picture")
    rows = "".join(_row(page, assertions.get(page.name, 0)) for page in book.chapters)
    first = book.chapters[0].href if book.chapters else "#"
    return template.render(
        sentence=SENTENCE, first=first, rows=rows, picture=picture, alive=alive
    )


def _row(page: Page, assertions: int) -> str:
    row = page.row
    number = page.name[:2].lstrip("0")
    title = re.sub(r"^\d+\. ", "", page.title)
    facts = []
    if row:
        facts += [f"<div>Needs {escape(row.needs)}</div>", f"<div>{_hours(row.times)}</div>"]
    facts.append(f"<div>{assertions} claims asserted by its cells</div>")
    facts.append(f"<div>{_measured(page.name[:2])}</div>")
    rooms = " · ".join(f'<a href="{room.href}">{escape(room.title)}</a>' for room in page.rooms)
    builds = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", row.builds) if row else ""
    builds = builds[:1].upper() + builds[1:]
    more = f'<p class="rooms">{rooms}</p>' if rooms else ""
    return (
        f'<li><div class="number">{number}</div><div><h3><a'
        f' href="{page.href}">{escape(title)}</a></h3><p>{escape(builds)}</p>{more}</div><div'
        f' class="facts">{"".join(facts)}</div></li>\n'
    )


def _hours(times: str) -> str:
    reading, _, exercises = times.partition(";")
    return escape(f"Reading {reading.strip()}, exercises {exercises.strip()}")


def _measured(number: str) -> str:
    if number == "09":
        return 'Counted in an emulator; <a href="kernels_on_a_gpu.html">some timed on an H200</a>'
    if number in MEASURED:
        page, _, anchor = MEASURED[number].partition("#")
        return f'<a href="{page}.html#{anchor}">Measured on two CPU cores</a>'
    return "Run and asserted on CPU ranks"
