"""An executed chapter as one HTML page that needs no network and no JavaScript.

Formulas become MathML, which browsers draw themselves; code is coloured by Pygments; figures are
embedded.
"""

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from latex2mathml.converter import convert as latex_to_mathml
from nbconvert.filters.ansi import ansi2html
from nbconvert.filters.markdown_mistune import (
    IPythonRenderer,
    MarkdownWithMath,
    MathInlineParser,
)
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from ..cell_lines import split_magic
from .glossary import PAGE as GLOSSARY_PAGE
from .glossary import Glossary, TermLinker, glossary_file
from .math_font import math_font_css
from ..pictures.picture import IMAGE, key_pictures, settings_of
from ..workspace import TOOLS, find_notebooks, is_notebook, notebook_name

LIGHT_STYLE, DARK_STYLE = "xcode", "github-dark"
LANGUAGES = {"c++": "C++", "python": "Python", "bash": "Shell"}
FOLDED = "folded"
"""The tag of a cell whose code is shown on a click only; its outputs always are."""


class PageError(Exception):
    """A chapter that cannot be shown."""


@dataclass(frozen=True)
class Neighbour:
    """A link to the page before, or to the one behind."""

    rel: str
    href: str
    text: str


@dataclass(frozen=True)
class Heading:
    """An entry of the table of contents."""

    level: int
    anchor: str
    html: str


class InlineParser(MathInlineParser):
    """Inline Markdown; `$5 and $6` are prices, by the rule of the code hosts: a formula has no
    space inside its dollars and no digit behind them."""

    INLINE_MATH_TEX = r"(?s:(?<![$\\])\$(?=\S)(?P<math_inline_tex>.+?)(?<![$\\\s])\$(?!\d))"
    SPECIFICATION = {**MathInlineParser.SPECIFICATION, "inline_math_tex": INLINE_MATH_TEX}


class ChapterRenderer(IPythonRenderer):
    """Markdown of a chapter as HTML; collects the headings."""

    def __init__(self, chapter_dir: Path, output: Path, linker: TermLinker):
        super().__init__(escape=False)
        self.headings: list[Heading] = []
        self._linker = linker
        self._chapter_dir, self._output = chapter_dir, output

    def heading(self, text: str, level: int, **attributes) -> str:
        words = re.sub(r"<[^>]*>|[^\w\s-]", "", text).lower().split()
        anchor = "-".join(words) or "section"
        used = sum(heading.anchor.rstrip("0123456789-") == anchor for heading in self.headings)
        anchor = f"{anchor}-{used + 1}" if used else anchor
        self.headings.append(Heading(level, anchor, text))
        return f'<h{level} id="{anchor}"><a href="#{anchor}">{text}</a></h{level}>\n'

    def block_math(self, body: str) -> str:
        return f'<div class="math">{_formula(body, "block")}</div>'

    def inline_math(self, body: str) -> str:
        return self._linker.link_symbol(body, _formula(body, "inline"))

    def latex_environment(self, name: str, body: str) -> str:
        return self.block_math(f"\\begin{{{name}}}{body}\\end{{{name}}}")

    def codespan(self, text: str) -> str:
        """A flag stays on one line: browsers may break lines after its hyphens."""
        flag = r"(?<![\w-])--?[a-z][\w-]*"
        return re.sub(flag, r'<span class="flag">\g<0></span>', super().codespan(text))

    def table(self, text: str) -> str:
        return f'<div class="wide"><table>{text}</table></div>'

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """Pictures of the repository become part of the page."""
        file = self._chapter_dir / url
        kind = {".svg": "svg+xml", ".png": "png"}.get(file.suffix)
        if kind and not re.match(r"[a-z]+:", url) and file.is_file():
            return _image(kind, base64.b64encode(file.read_bytes()).decode(), text, "picture")
        return f'<img src="{escape(url)}" alt="{escape(text)}">'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return super().link(text, self._from_page(url), title)

    def _from_page(self, url: str) -> str:
        """A link of the chapter as a link of the page: other notebooks are pages too."""
        if re.match(r"[a-z]+:|#|/", url):
            return url
        path, _, anchor = url.partition("#")
        target = (self._chapter_dir / path).resolve()
        if target.parts[-2:] == ("docs", "glossary.md"):
            path = GLOSSARY_PAGE
        elif is_notebook(target):
            path = f"{notebook_name(target)}.html"
        else:
            path = os.path.relpath(target, self._output)
        return f"{path}#{anchor}" if anchor else path


class PageWriter:
    """Turns the cells of a notebook into pieces of HTML."""

    def __init__(self, chapter_dir: Path, output: Path, keys: set[str], glossary: Glossary):
        """keys: of the key pictures that cells show, which the text need not show again."""
        self._linker = TermLinker(glossary)
        self.renderer = ChapterRenderer(chapter_dir, output, self._linker)
        self._markdown = MarkdownWithMath(renderer=self.renderer, inline=InlineParser())
        self._keys = keys

    def cell(self, cell: NotebookNode) -> str:
        if cell.cell_type == "markdown":
            text = IMAGE.sub(lambda m: "" if m[2] in self._keys else m[0], cell.source)
            return self._linker.link_words(self._markdown.render(_without_comments(text)))
        if not cell.source.strip():
            return ""
        magic, body = split_magic(cell.source)
        language, _, options = magic.removeprefix("%%").partition(" ")
        language = language or "python"
        label = " ".join([LANGUAGES.get(language, language), *_readable_options(options)])
        code = _highlight(body, language)
        if FOLDED in cell.metadata.get("tags", []):
            head = f'<details><summary class="label">{escape(label)}</summary>{code}</details>'
        else:
            head = f'<div class="label">{escape(label)}</div>{code}'
        outputs = "".join(self._output(output) for output in cell.get("outputs", []))
        if outputs:
            outputs = f'<div class="outputs">{outputs}</div>'
        return f'<div class="cell">{head}{outputs}</div>'

    def _output(self, output: NotebookNode) -> str:
        if output.output_type == "stream":
            return f'<pre class="{output.name}">{ansi2html(output.text.rstrip())}</pre>'
        if output.output_type == "error":
            text = "\n".join(output.traceback)
            return f'<pre class="stderr">{ansi2html(text)}</pre>'
        return self._data(output.data, settings_of(output).get("alt"))

    def _data(self, data: NotebookNode, alt: str | None) -> str:
        """The richest form of a displayed value."""
        if "image/svg+xml" in data:
            svg = base64.b64encode(data["image/svg+xml"].encode()).decode()
            return _image("svg+xml", svg, alt or "Figure", "picture" if alt else "")
        if "image/png" in data:
            return _image("png", data["image/png"].strip(), "Figure", "")
        if "text/html" in data:
            return f'<div class="wide">{data["text/html"]}</div>'
        if "text/markdown" in data:
            return f'<div class="quote">{self._markdown.render(data["text/markdown"])}</div>'
        return f'<pre class="stdout">{escape(data.get("text/plain", ""))}</pre>'


def chapter_page(
    notebook: NotebookNode,
    chapter_dir: Path,
    output: Path,
    glossary: Glossary = Glossary(),
    neighbours: Sequence[Neighbour] = (),
) -> str:
    """The page of an executed chapter, to be written into the folder `output`."""
    keys = {picture.key for picture in key_pictures(notebook)}
    writer = PageWriter(chapter_dir, output, keys, glossary)
    body = "\n".join(writer.cell(cell) for cell in notebook.cells)
    headings = writer.renderer.headings
    title = next((h.html for h in headings if h.level == 1), "Chapter")
    templates = Environment(loader=FileSystemLoader(TOOLS / "page"), trim_blocks=True)
    return templates.get_template("page.html.j2").render(
        title=re.sub(r"<[^>]*>", "", title),
        body=body,
        neighbours=neighbours,
        contents=[heading for heading in headings if heading.level in (2, 3)],
        css=(TOOLS / "page" / "page.css").read_text(),
        math_font=math_font_css(body),
        light_code=HtmlFormatter(style=LIGHT_STYLE).get_style_defs(".highlight"),
        dark_code=HtmlFormatter(style=DARK_STYLE).get_style_defs(".highlight"),
    )


def neighbours_of(file: Path, root: Path) -> list[Neighbour]:
    """The pages before and behind that of a notebook, and the glossary's."""
    files = find_notebooks(root)
    place = files.index(file) if file in files else None
    links = []
    for rel, arrow, step in (("prev", "←", -1), ("next", "→", 1)):
        if place is not None and 0 <= place + step < len(files):
            name = notebook_name(files[place + step])
            links.append(Neighbour(rel, f"{name}.html", f"{arrow} {name.replace('_', ' ').replace('.', ': ')}"))
    if glossary_file(root).is_file():
        links.append(Neighbour("glossary", GLOSSARY_PAGE, "Glossary and symbols"))
    return links


def glossary_page(root: Path, output: Path) -> str:
    """The page of the glossary, which the chapters' pages link."""
    text = glossary_file(root).read_text(encoding="utf-8")
    notebook = new_notebook(cells=[new_markdown_cell(text)])
    return chapter_page(notebook, root / "docs", output)


def _formula(latex: str, display: str) -> str:
    """MathML of a formula.

    @raises PageError for one that the converter cannot read, or a command that it does not know
    """
    readable = latex.strip().replace("{aligned}", "{split}")
    try:
        mathml = latex_to_mathml(readable, display=display)
    except Exception as error:  # the converter has many kinds, with no common base
        raise PageError(f"cannot read the formula ${latex}$: {type(error).__name__}") from error
    unknown = re.search(r"<m[io]>(\\[a-zA-Z]+)", mathml)
    if unknown:
        raise PageError(f"unknown command {unknown[1]} in the formula ${latex}$")
    return mathml


def _image(kind: str, data: str, alt: str, name: str) -> str:
    return f'<img class="{name}" alt="{escape(alt)}" src="data:image/{kind};base64,{data}">'


def _highlight(code: str, language: str) -> str:
    return highlight(code, get_lexer_by_name(language), HtmlFormatter())


def _readable_options(options: str) -> list[str]:
    """`--ranks 4 --release` as the words "· 4 ranks · release"."""
    words = []
    for option in re.split(r"\s*--", options.strip())[1:]:
        name, _, value = option.partition(" ")
        words.append("· " + (f"{value} ranks" if name == "ranks" else f"{name} {value}".strip()))
    return words


def _without_comments(markdown: str) -> str:
    return re.sub(r"<!--.*?-->", "", markdown, flags=re.DOTALL)
