"""An executed chapter as one HTML page that needs no network and no JavaScript.

Formulas become MathML, which browsers draw themselves; code is coloured by Pygments; figures are
embedded.
"""

import base64
import os
import re
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
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from .cell_lines import split_magic
from .math_font import math_font_css
from .workspace import TOOLS, is_notebook, notebook_name

LIGHT_STYLE, DARK_STYLE = "xcode", "github-dark"
LANGUAGES = {"c++": "C++", "python": "Python", "bash": "Shell"}
FOLDED = "folded"
"""The tag of a cell whose code is shown on a click only; its outputs always are."""


class PageError(Exception):
    """A chapter that cannot be shown."""


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

    def __init__(self, chapter_dir: Path, output: Path):
        super().__init__(escape=False)
        self.headings: list[Heading] = []
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
        return _formula(body, "inline")

    def latex_environment(self, name: str, body: str) -> str:
        return self.block_math(f"\\begin{{{name}}}{body}\\end{{{name}}}")

    def table(self, text: str) -> str:
        return f'<div class="wide"><table>{text}</table></div>'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return super().link(text, self._from_page(url), title)

    def _from_page(self, url: str) -> str:
        """A link of the chapter as a link of the page: other notebooks are pages too."""
        if re.match(r"[a-z]+:|#|/", url):
            return url
        path, _, anchor = url.partition("#")
        target = (self._chapter_dir / path).resolve()
        if is_notebook(target):
            path = f"{notebook_name(target)}.html"
        else:
            path = os.path.relpath(target, self._output)
        return f"{path}#{anchor}" if anchor else path


class PageWriter:
    """Turns the cells of a notebook into pieces of HTML."""

    def __init__(self, chapter_dir: Path, output: Path):
        self.renderer = ChapterRenderer(chapter_dir, output)
        self._markdown = MarkdownWithMath(renderer=self.renderer, inline=InlineParser())

    def cell(self, cell: NotebookNode) -> str:
        if cell.cell_type == "markdown":
            return self._markdown.render(_without_comments(cell.source))
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
        return self._data(output.data)

    def _data(self, data: NotebookNode) -> str:
        """The richest form of a displayed value."""
        if "image/svg+xml" in data:
            svg = base64.b64encode(data["image/svg+xml"].encode()).decode()
            return f'<img alt="Figure" src="data:image/svg+xml;base64,{svg}">'
        if "image/png" in data:
            return f'<img alt="Figure" src="data:image/png;base64,{data["image/png"].strip()}">'
        if "text/html" in data:
            return f'<div class="wide">{data["text/html"]}</div>'
        if "text/markdown" in data:
            return f'<div class="quote">{self._markdown.render(data["text/markdown"])}</div>'
        return f'<pre class="stdout">{escape(data.get("text/plain", ""))}</pre>'


def chapter_page(notebook: NotebookNode, chapter_dir: Path, output: Path) -> str:
    """The page of an executed chapter, to be written into the folder `output`."""
    writer = PageWriter(chapter_dir, output)
    body = "\n".join(writer.cell(cell) for cell in notebook.cells)
    headings = writer.renderer.headings
    title = next((h.html for h in headings if h.level == 1), "Chapter")
    templates = Environment(loader=FileSystemLoader(TOOLS / "page"), trim_blocks=True)
    return templates.get_template("page.html.j2").render(
        title=re.sub(r"<[^>]*>", "", title),
        body=body,
        contents=[heading for heading in headings if heading.level in (2, 3)],
        css=(TOOLS / "page" / "page.css").read_text(),
        math_font=math_font_css(body),
        light_code=HtmlFormatter(style=LIGHT_STYLE).get_style_defs(".highlight"),
        dark_code=HtmlFormatter(style=DARK_STYLE).get_style_defs(".highlight"),
    )


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
