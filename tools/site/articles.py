"""Notebooks and Markdown as articles of the site: the notebooks' own page writer, with pictures in
files, links to the site's pages, and claims that link to the cells that assert them."""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path

from book import Book
from claims import Assertion, ClaimLinker, assertions_of, checked_by
from nbconvert.filters.markdown_mistune import MarkdownWithMath
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from small_svg import smaller_svg
from sources import SourcePages
from ultra_notebook.executed_code import RUN_METADATA
from ultra_notebook.pages.glossary import Glossary
from ultra_notebook.pages.page import ChapterRenderer, Heading, InlineParser, PageWriter
from ultra_notebook.pictures.picture import key_pictures
from ultra_notebook.workspace import is_notebook, notebook_name

SIZE = re.compile(
    r'<svg[^>]*?\bwidth="([\d.]+)(?:pt|px)?"[^>]*?\bheight="([\d.]+)(?:pt|px)?"', re.DOTALL
)
INCLUDE = re.compile(r"&quot;((?:chapters|common|kernels)/[\w/]+\.(?:hpp|cuh))&quot;")
HEADING = re.compile(r'<h([123]) id="([^"]+)">', re.DOTALL)


@dataclass
class Section:
    """What the search finds: a heading with the words below it."""

    anchor: str
    title: str
    text: str


@dataclass
class Article:
    """A page's content."""

    title: str
    html: str
    headings: list[Heading]
    sections: list[Section] = field(default_factory=list)
    assertions: int = 0


class Shelf:
    """What all articles share: the book, the files that pages link, the pictures."""

    def __init__(self, book: Book, output: Path, glossary: Glossary):
        self.book, self.output, self.glossary = book, output, glossary
        self.sources = SourcePages(book.root)

    def picture(self, data: bytes, kind: str, alt: str, name: str) -> str:
        """An <img> of a file of the site."""
        if kind == "svg+xml":
            text = smaller_svg(data.decode("utf-8"))
            size, data = SIZE.search(text), text.encode()
        else:
            size = None
        file = f"{hashlib.sha256(data).hexdigest()[:16]}.{kind.partition('+')[0]}"
        folder = self.output / "assets" / "pictures"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(data)
        measures = f' width="{float(size[1]):.0f}" height="{float(size[2]):.0f}"' if size else ""
        return (
            f'<div class="picture-frame"><img class="{name}" alt="{escape(alt)}"{measures}'
            f' loading="lazy" src="assets/pictures/{file}"></div>'
        )

    def link(self, folder: Path, url: str) -> str:
        """A link of a Markdown file in `folder`, as one of a page in the site's root."""
        if re.match(r"[a-z]+:|#", url):
            return url
        path, _, anchor = url.partition("#")
        target = (folder / path).resolve()
        if not target.exists():  # quotes of notebooks are relative to the folder of their pages
            target = (self.book.root / "build" / "notebooks" / path).resolve()
        page = self.book.page_of(target)
        if page is not None:
            href = page.href
        elif target == self.book.root / "README.md":
            href = "index.html"
        elif is_notebook(target):
            href = f"{notebook_name(target)}.html"
        else:
            return self.sources.href(target, anchor) or url
        return f"{href}#{anchor}" if anchor else href


class SiteRenderer(ChapterRenderer):
    """Markdown as HTML of the site."""

    def __init__(self, chapter_dir: Path, shelf: Shelf, linker):
        super().__init__(chapter_dir, shelf.output, linker)
        self._shelf = shelf

    def image(self, text: str, url: str, title: str | None = None) -> str:
        file = self._chapter_dir / url
        kind = {".svg": "svg+xml", ".png": "png"}.get(file.suffix)
        if kind and file.is_file():
            return self._shelf.picture(file.read_bytes(), kind, text, "picture")
        return super().image(text, url, title)

    def _from_page(self, url: str) -> str:
        return self._shelf.link(self._chapter_dir, url)


class SiteWriter(PageWriter):
    """Cells as HTML of the site; counts the assertions, and gives the cells their anchors."""

    def __init__(self, chapter_dir: Path, shelf: Shelf, keys: set[str]):
        super().__init__(chapter_dir, shelf.output, keys, shelf.glossary)
        self._shelf = shelf
        self.renderer = SiteRenderer(chapter_dir, shelf, self._linker)
        self._markdown = MarkdownWithMath(renderer=self.renderer, inline=InlineParser())

    def _data(self, data: NotebookNode, alt: str | None) -> str:
        if "image/svg+xml" in data:
            name = "picture" if alt else ""
            return self._shelf.picture(
                data["image/svg+xml"].encode(), "svg+xml", alt or "Figure", name
            )
        if "image/png" in data:
            return self._shelf.picture(
                base64.b64decode(data["image/png"]), "png", alt or "Figure", ""
            )
        return super()._data(data, alt)

    def code_cell(self, cell: NotebookNode, anchor: str, assertions: list[Assertion]) -> str:
        """A cell with its anchor, and a mark that says how many claims it checks."""
        html = self.cell(cell)
        if not html:
            return ""
        mark = ""
        if assertions:
            count = len(assertions)
            claims = f"{count} claim{'s' if count > 1 else ''}"
            mark = (
                f'<a class="checks" href="#{anchor}" title="This cell fails when what it asserts is'
                f' wrong">checks {claims}</a>'
            )
        html = INCLUDE.sub(_include_link, html)
        return html.replace('<div class="cell">', f'<div class="cell" id="{anchor}">{mark}', 1)


def _include_link(match: re.Match) -> str:
    """A header's path in a cell, as a link to its declarations."""
    href = reference_of(match[1])
    return f'&quot;<a class="include" href="{href}" title="Its declarations">{match[1]}</a>&quot;'


def reference_of(path: str) -> str:
    """Where the reference has a header: a page for each chapter, module, family of kernels."""
    area, part = path.split("/")[:2]
    group = part if area == "chapters" else f"{area}_{part.partition('.')[0]}"
    return f"reference_{group}.html#{re.sub(r'[^0-9A-Za-z_]+', '-', path)}"


def article_of_notebook(notebook: NotebookNode, folder: Path, shelf: Shelf) -> Article:
    """An executed notebook as an article."""
    keys = {picture.key for picture in key_pictures(notebook)}
    writer = SiteWriter(folder, shelf, keys)
    pieces: list[tuple[str, bool]] = []  # HTML, and whether it is prose
    found: list[list[Assertion]] = []
    number = 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            pieces.append((writer.cell(cell), True))
            found.append([])
            continue
        number += 1
        anchor = f"cell-{number}"
        assertions = assertions_of(cell, anchor)
        pieces.append((writer.code_cell(cell, anchor, assertions), False))
        found.append(assertions)
    html = _with_claims(pieces, found)
    headings = writer.renderer.headings
    title = next((h.html for h in headings if h.level == 1), "Page")
    count = sum(map(len, found))
    run = notebook.metadata.get(RUN_METADATA)
    if run:
        html += f'<p class="place">Executed on {escape(run["day"])}: {escape(run["machine"])}.</p>'
    return Article(plain(title), html, headings, sections_of(html), count)


def article_of_markdown(text: str, folder: Path, shelf: Shelf) -> Article:
    """A Markdown text as an article."""
    return article_of_notebook(new_notebook(cells=[new_markdown_cell(text)]), folder, shelf)


def plain(html: str) -> str:
    """The words of a piece of HTML."""
    without = re.sub(r"<(annotation|style|script|title)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", without)).split())


def sections_of(html: str) -> list[Section]:
    """The sections of a page, for the search."""
    places = list(HEADING.finditer(html))
    sections = []
    for place, behind in zip(places, [*places[1:], None]):
        body = html[place.end() : behind.start() if behind else len(html)]
        head, _, rest = body.partition("</h")
        rest = re.sub(r'<div class="highlight">.*?</div>', " ", rest, flags=re.DOTALL)
        rest = re.sub(r"<pre.*?</pre>", " ", rest, flags=re.DOTALL)
        sections.append(Section(place[2], plain(head), plain(rest.partition(">")[2])))
    return sections


def _with_claims(pieces: list[tuple[str, bool]], found: list[list[Assertion]]) -> str:
    """Prose with links to the assertions of its section: up to the next heading of level 2."""
    bounds = [0]
    for index, (html, is_prose) in enumerate(pieces):
        if is_prose and "<h2 " in html and index:
            bounds.append(index)
    bounds.append(len(pieces))
    out = []
    for begin, end in zip(bounds, bounds[1:]):
        assertions = [one for cell in found[begin:end] for one in cell]
        linker = ClaimLinker(assertions)
        for index, (html, is_prose) in enumerate(pieces[begin:end]):
            linked = linker.link(html) if is_prose else html
            if index == 0:
                head, end_tag, rest = linked.rpartition("</h2>")
                linked = f"{head}{end_tag}{checked_by(assertions)}{rest}" if end_tag else linked
            out.append(linked)
    return "\n".join(out)
