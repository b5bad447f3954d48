"""Appendices that are made from the chapters: formulas, misconceptions, deviations."""

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from articles import Article, Shelf, article_of_markdown
from book import Book, Page, plain_title
from source_files import CPP_SUFFIXES, repository_files

WRONG = re.compile(
    r"^#{2,3} (?:Said often, and wrong|Often said, and wrong|Mistakes people make)\n(.*?)(?=^#{1,3}"
    r" |\Z)",
    re.MULTILINE | re.DOTALL,
)
FENCE = re.compile(r"^```.*?^```\n?", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"^\$\$(.+?)\$\$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#{2,3}) (.+)$", re.MULTILINE)
COMMENT = re.compile(r"(?:^[ \t]*///? ?.*\n)+", re.MULTILINE)
DEVIATION = re.compile(r"Deviation(?: from [^:]*)?: (.*?)(?=\n\s*\n|\bSource: |@|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Made:
    """An appendix that is made."""

    page: Page
    markdown: str
    folder: Path


def made_appendices(book: Book) -> list[Made]:
    """All of them."""
    docs = book.root / "docs"
    return [
        Made(Page("formulas", "Formula sheet"), formula_sheet(book), docs),
        Made(Page("misconceptions", "Said often, and wrong"), misconceptions(book), docs),
        Made(Page("deviations", "Where the code deviates from the papers"), deviations(book), docs),
    ]


def formula_sheet(book: Book) -> str:
    """Every displayed formula, by chapter, with the section that derives it."""
    text = [
        "# Formula sheet\n",
        (
            "Every displayed formula of the chapters, with the section that derives it and the"
            " cells that check it. The symbols are in the [glossary](glossary.md#symbols).\n"
        ),
    ]
    for page in _texts(book):
        source = FENCE.sub("", page.file.read_text(encoding="utf-8"))
        formulas = list(FORMULA.finditer(source))
        if not formulas:
            continue
        text.append(f"## {page.title}\n")
        last = None
        for formula in formulas:
            before = [h for h in HEADING.finditer(source) if h.start() < formula.start()]
            heading = plain_title(before[-1][2]) if before else page.title
            if heading != last:
                anchor = _anchor(before[-1][2]) if before else ""
                text.append(f"[{heading}]({_relative(book, page)}#{anchor})\n")
            last = heading
            shown = f"$${formula[1]}$$\n"
            if is_folded(source, formula.start()):
                shown = f"<details>\n<summary>After your own try</summary>\n\n{shown}\n</details>\n"
            text.append(shown)
    return "\n".join(text)


def is_folded(source: str, place: int) -> bool:
    """Whether the chapter shows this place on a click only."""
    before = source[:place]
    return before.count("<details") > before.count("</details")


def misconceptions(book: Book) -> str:
    """What the chapters set right."""
    text = [
        "# Said often, and wrong\n",
        (
            "What one reads and hears about training at scale that is not so, from all chapters. "
            "The chapters hold the runs and the arguments.\n"
        ),
    ]
    for page in _texts(book):
        source = page.file.read_text(encoding="utf-8")
        for found in WRONG.finditer(source):
            text += [
                f"## {page.title}\n",
                f"From [{plain_title(page.title)}]({_relative(book, page)}).\n",
                _relinked(FENCE.sub("", found[1]), book, page),
            ]
    return "\n".join(text)


def deviations(book: Book) -> str:
    """The `Deviation:` notes of the headers: where the code does other than its source, and why."""
    text = [
        "# Where the code deviates from the papers\n",
        (
            "Every declaration names its source. Where the code does something else than that"
            " source on purpose, its comment says what and why; here are all of them.\n"
        ),
    ]
    for folder in ("common", "chapters", "kernels"):
        for file in repository_files(book.root, folder):
            if file.suffix not in CPP_SUFFIXES:
                continue
            notes = []
            for comment in COMMENT.findall((book.root / file).read_text(encoding="utf-8")):
                words = re.sub(r"^[ \t]*///? ?", "", comment, flags=re.MULTILINE)
                notes += [" ".join(note.split()) for note in DEVIATION.findall(words)]
            if notes:
                text.append(f"[`{file}`](../{file})\n")
                text += [f"- {_escaped(note)}" for note in notes] + [""]
    return "\n".join(text)


def article_of(made: Made, shelf: Shelf) -> Article:
    """A made appendix as an article."""
    return article_of_markdown(made.markdown, made.folder, shelf)


def cards(pages: list[tuple[Page, str]]) -> str:
    """Links to pages, each with a sentence."""
    items = [
        '<a class="card"'
        f' href="{page.href}"><h3>{escape(page.title)}</h3><p>{escape(about)}</p></a>'
        for page, about in pages
    ]
    return f'<div class="cards">{"".join(items)}</div>'


def _texts(book: Book) -> list[Page]:
    return [page for chapter in book.chapters for page in (chapter, *chapter.rooms)]


def _relative(book: Book, page: Page) -> str:
    return f"../{page.file.relative_to(book.root)}"


def _relinked(text: str, book: Book, page: Page) -> str:
    """Links of a chapter, as seen from docs/."""

    def link(match: re.Match) -> str:
        url = match[1]
        if re.match(r"[a-z]+:", url):
            return match[0]
        if url.startswith("#"):
            return f"]({_relative(book, page)}{url})"
        target = (page.file.parent / url.partition("#")[0]).resolve()
        anchor = f"#{url.partition('#')[2]}" if "#" in url else ""
        return f"](../{target.relative_to(book.root)}{anchor})"

    return re.sub(r"\]\(([^)]+)\)", link, text)


def _anchor(heading: str) -> str:
    return "-".join(re.sub(r"<[^>]*>|[^\w\s-]", "", heading.replace("`", "")).lower().split())


def _escaped(text: str) -> str:
    return re.sub(r"([<>*_$\[\]])", r"\\\1", text)
