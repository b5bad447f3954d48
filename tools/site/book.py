"""The book's pages in their order: chapters with their rooms, appendices, and what each needs."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import tables
from ultra_notebook.workspace import find_chapters, find_rooms, notebook_name

TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
README_ROW = re.compile(
    r"^\| (\d\d) \| \[(.+?)\]\((.+?)\) \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE
)

APPENDICES = {
    "glossary": "docs/glossary.md",
    "words": "docs/words.md",
    "machines": "docs/machines.md",
    "bugs_that_shipped": "docs/bugs_that_shipped.md",
    "devices": "docs/devices.md",
    "clusters": "docs/clusters.md",
    "extending": "docs/extending.md",
    "hardware": "docs/appendices/hardware.md",
    "from_your_framework": "docs/appendices/from_your_framework.md",
    "errata": "docs/appendices/errata.md",
    "course": "docs/teaching/course.md",
    "grading": "docs/teaching/grading.md",
    "assistants": "docs/teaching/assistants.md",
    "cs336": "docs/teaching/cs336.md",
    "negative_results": "docs/negative_results.md",
    "two_core_cpu": "docs/measurements/two_core_cpu.md",
    "kernels_on_a_gpu": "docs/measurements/kernels.md",
    "training_on_a_gpu": "docs/measurements/training_on_gpus.md",
    "planner_and_published": "docs/measurements/planner_published.md",
    "planner_exam": "docs/measurements/planner_exam.md",
    "plans_and_runs": "docs/measurements/plans_run_here.md",
    "soak": "docs/measurements/soak.md",
    "how_the_site_works": "docs/site/README.md",
}
"""Pages that are written as Markdown; the made ones join them in appendices.py."""


@dataclass
class Page:
    """A page of the book."""

    name: str
    title: str
    file: Path | None = None
    rooms: list["Page"] = field(default_factory=list)
    row: "ChapterRow | None" = None

    @property
    def href(self) -> str:
        return f"{self.name}.html"


@dataclass(frozen=True)
class ChapterRow:
    """What the README's table says of a chapter."""

    number: str
    builds: str
    needs: str
    times: str


@dataclass
class Book:
    """All pages."""

    root: Path
    chapters: list[Page]
    appendices: list[Page]

    def in_order(self) -> list[Page]:
        """Chapters and rooms as one reads them, then the appendices."""
        pages = [page for chapter in self.chapters for page in (chapter, *chapter.rooms)]
        return pages + self.appendices

    def page_of(self, file: Path) -> Page | None:
        """The page of a Markdown file."""
        return next((page for page in self.in_order() if page.file == file), None)


def plain_title(text: str) -> str:
    """A heading without its Markdown."""
    return re.sub(r"[`*$]", "", text).strip()


def title_of(file: Path) -> str:
    """The first heading of a Markdown file."""
    found = TITLE.search(file.read_text(encoding="utf-8"))
    return plain_title(found[1]) if found else file.stem


def read_book(root: Path) -> Book:
    """The book of a checkout."""
    rows = _rows(root)
    chapters = []
    for file in find_chapters(root):
        rooms = [Page(notebook_name(room), title_of(room), room) for room in find_rooms(file)]
        chapters.append(Page(file.stem, title_of(file), file, rooms, rows.get(file.stem[:2])))
    appendices = [
        Page(name, title_of(root / path), root / path)
        for name, path in APPENDICES.items()
        if (root / path).is_file()
    ]
    return Book(root, chapters, appendices)


def _rows(root: Path) -> dict[str, ChapterRow]:
    text = tables.with_times((root / "README.md").read_text(encoding="utf-8"))
    return {
        number: ChapterRow(number, builds, needs, times)
        for number, _, _, builds, needs, times in README_ROW.findall(text)
    }
