"""Pages of source files, which the others link: with line numbers, solutions on a click."""

import re
from html import escape
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

LINES = re.compile(r"^L(\d+)(?:-L?\d+)?$")
FOLDER = "source"
LONGEST = 400_000
"""Bytes of a file that is shown."""


class SourcePages:
    """Collects the files that pages link, and makes their pages."""

    def __init__(self, root: Path):
        self.root = root
        self.wanted: dict[str, None] = {}

    def href(self, path: Path, fragment: str = "") -> str | None:
        """The link to a file's page, from a page in the site's root; None for no file of ours."""
        try:
            relative = path.resolve().relative_to(self.root)
        except ValueError:
            return None
        if not path.exists() or relative.parts[0] in ("build", ".git"):
            return None
        self.wanted.setdefault(str(relative))
        line = LINES.match(fragment)
        anchor = f"#line-{line[1]}" if line else ""
        return f"{FOLDER}/{self.name_of(relative)}{anchor}"

    @staticmethod
    def name_of(relative: Path) -> str:
        """The name of a file's page."""
        return f"{str(relative).replace('/', '--')}.html"

    def body(self, relative: str) -> str:
        """The content of a page."""
        path = self.root / relative
        if path.is_dir():
            return self._listing(path)
        code = path.read_text(encoding="utf-8", errors="replace")[:LONGEST]
        try:
            lexer = get_lexer_for_filename(path.name.replace(".cuh", ".cu"))
        except ClassNotFound:
            lexer = TextLexer()
        shown = highlight(
            code, lexer, HtmlFormatter(linenos="inline", lineanchors="line", wrapcode=True)
        )
        if relative.startswith("solutions/"):
            return (
                '<details class="spoiler"><summary>The reference solution: for after yours passes'
                f"</summary>{shown}</details>"
            )
        return shown

    def _listing(self, folder: Path) -> str:
        items = []
        for path in sorted(folder.iterdir()):
            href = self.href(path)
            if href and not path.name.startswith((".", "__")):
                name = path.name + ("/" if path.is_dir() else "")
                items.append(
                    f'<li><a href="{escape(href.partition("/")[2])}">{escape(name)}</a></li>'
                )
        return f"<ul>{''.join(items)}</ul>"
