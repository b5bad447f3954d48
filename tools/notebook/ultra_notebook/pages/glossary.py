"""docs/glossary.md: its words and symbols, and the links from their first uses on a page.

A word is a heading `### all-gather` with its sentence or two below; `<!-- also: ... -->` holds its
other forms. A symbol is a row of the table, with an anchor before it.
"""

import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

WORD = re.compile(r"^### (.+)\n\n(?:<!-- also: (.*) -->\n)?((?:(?!#).+\n)+)", re.MULTILINE)
SYMBOL = re.compile(r'^\| <a id="(symbol-\w+)"></a>\$(.+?)\$ \| (.+?) \| ', re.MULTILINE)
TAG = re.compile(r"(<[^>]+>)")
CLOSED = {"a", "code", "pre", "math", "summary", "h1", "h2", "h3", "h4", "th"}
"""What holds no links: headings, code, formulas, and what is a link already."""
PAGE = "glossary.html"


@dataclass(frozen=True)
class Entry:
    """A word or a symbol."""

    name: str
    anchor: str
    meaning: str


@dataclass(frozen=True)
class Glossary:
    """All entries by the forms in which a text may hold them."""

    words: dict[str, Entry] = field(default_factory=dict)
    """By their forms: in small letters, unless one has capitals behind its first letter (ZeRO is not zero)."""
    symbols: dict[str, Entry] = field(default_factory=dict)


def glossary_file(root: Path) -> Path:
    return root / "docs" / "glossary.md"


def read_glossary(root: Path) -> Glossary:
    """The glossary of a checkout; an empty one where there is none."""
    file = glossary_file(root)
    return parse_glossary(file.read_text(encoding="utf-8")) if file.is_file() else Glossary()


def parse_glossary(text: str) -> Glossary:
    words = {}
    for name, also, meaning in WORD.findall(text):
        entry = Entry(name, _anchor(name), " ".join(meaning.split()))
        for form in filter(None, (name, *map(str.strip, also.split(",")))):
            words[form if _has_capitals(form) else form.lower()] = entry
    symbols = {latex: Entry(latex, anchor, meaning) for anchor, latex, meaning in SYMBOL.findall(text)}
    return Glossary(words, symbols)


def _has_capitals(form: str) -> bool:
    return form[1:] != form[1:].lower()


def _anchor(name: str) -> str:
    """As code hosts and our pages make it of a heading."""
    return "-".join(re.sub(r"[^\w\s-]", "", name).lower().split())


class TermLinker:
    """Links the first use of each word and symbol on one page."""

    def __init__(self, glossary: Glossary):
        self._glossary = glossary
        self.linked: set[str] = set()
        forms = sorted(glossary.words, key=len, reverse=True)
        pattern = "|".join(map(self._pattern_of, forms)) or r"(?!)"
        self._pattern = re.compile(rf"(?<![\w-])({pattern})(?![\w]|-\w)", re.IGNORECASE)

    @staticmethod
    def _pattern_of(form: str) -> str:
        words = r"\s+".join(map(re.escape, form.split()))
        return f"(?-i:{words})" if _has_capitals(form) else words

    def link_words(self, html: str) -> str:
        """The HTML of a piece of prose, with links to the glossary in it."""
        closed, pieces = [], []
        for piece in TAG.split(html):
            if piece.startswith("<"):
                self._follow(piece, closed)
            elif not closed:
                piece = self._pattern.sub(self._link, piece)
            pieces.append(piece)
        return "".join(pieces)

    def link_symbol(self, latex: str, shown: str) -> str:
        """An inline formula; with a link when it is a symbol that comes for the first time."""
        entry = self._glossary.symbols.get(latex.strip())
        if not entry or entry.anchor in self.linked:
            return shown
        self.linked.add(entry.anchor)
        return _anchor_tag(entry, shown)

    def _follow(self, tag: str, closed: list[str]) -> None:
        name = re.match(r"</?(\w*)", tag)[1].lower()
        if name in CLOSED and tag.startswith("</"):
            if name in closed:
                closed.remove(name)
        elif name in CLOSED and not tag.endswith("/>"):
            closed.append(name)

    def _link(self, match: re.Match) -> str:
        form = " ".join(match[1].split())
        entry = self._glossary.words.get(form) or self._glossary.words[form.lower()]
        if entry.anchor in self.linked:
            return match[0]
        self.linked.add(entry.anchor)
        return _anchor_tag(entry, match[0])


def _anchor_tag(entry: Entry, shown: str) -> str:
    meaning = re.sub(r"[`*$]", "", entry.meaning)
    return f'<a class="term" href="{PAGE}#{entry.anchor}" title="{escape(meaning)}">{shown}</a>'
