"""Claims and what asserts them: a number of the prose links to the cell that asserts it."""

import ast
import re
from dataclasses import dataclass
from html import escape

from nbformat import NotebookNode
from ultra_notebook.cell_lines import split_magic

CPP_ASSERTION = re.compile(r"^.*\b(?:EXPECT|ASSERT)_[A-Z]+.*$|--fails\b.*$", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.#])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w]*[\w/])")
TAG = re.compile(r"(<[^>]+>)")
CLOSED = {"a", "code", "pre", "math", "summary", "h1", "h2", "h3", "h4", "table"}
SMALLEST = 100
"""Of the whole numbers that say something: 16 is everywhere, 124 is not."""


@dataclass(frozen=True)
class Assertion:
    """A line of a cell that fails when its claim is wrong."""

    anchor: str
    line: str

    @property
    def numbers(self) -> set[str]:
        return {
            normal(number) for number in NUMBER.findall(self.line.replace("'", "").replace("_", ""))
        }


def normal(number: str) -> str:
    """A number as one spelling: 1,024 and 1024.0 are the same."""
    text = number.replace(",", "")
    return f"{float(text):.12g}"


def assertions_of(cell: NotebookNode, anchor: str) -> list[Assertion]:
    """What a cell asserts."""
    magic, body = split_magic(cell.source)
    if magic.startswith(("%%c++", "%%bash")):
        return [Assertion(anchor, found.strip()) for found in CPP_ASSERTION.findall(cell.source)]
    try:
        tree = ast.parse(body)
    except SyntaxError:
        return []
    lines = body.split("\n")
    return [
        Assertion(
            anchor, " ".join(line.strip() for line in lines[node.lineno - 1 : node.end_lineno])
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]


def says_something(number: str) -> bool:
    """Whether a number that a prose and an assertion share is likely to be the same: powers of two
    are sizes of many things."""
    value = float(number)
    if value != int(value):
        return True
    return value >= SMALLEST and int(value) & (int(value) - 1) != 0


def checked_by(assertions: list[Assertion]) -> str:
    """A line for the head of a section: which of its cells hold its claims; empty without any."""
    if not assertions:
        return ""
    lines: dict[str, list[str]] = {}
    for assertion in assertions:
        lines.setdefault(assertion.anchor, []).append(assertion.line[:110])
    links = ", ".join(
        f'<a href="#{anchor}"'
        f' title="{escape(chr(10).join(found[:6]))}">{anchor.replace("-", " ")}</a>'
        for anchor, found in lines.items()
    )
    count = len(assertions)
    return (
        f'<p class="checked">{count} claim{"s" if count > 1 else ""} of this section checked by'
        f" {links}</p>"
    )


class ClaimLinker:
    """Links the numbers of a section's prose to the assertions of that section."""

    def __init__(self, assertions: list[Assertion]):
        self._by_number: dict[str, Assertion] = {}
        for assertion in assertions:
            for number in assertion.numbers:
                if says_something(number):
                    self._by_number.setdefault(number, assertion)
        self.linked = 0

    def link(self, html: str) -> str:
        """The HTML of a piece of prose with its links."""
        if not self._by_number:
            return html
        closed, pieces = 0, []
        for piece in TAG.split(html):
            if piece.startswith("<"):
                name = re.match(r"</?(\w*)", piece)[1].lower()
                if name in CLOSED:
                    closed += -1 if piece.startswith("</") else 1
            elif closed <= 0:
                piece = NUMBER.sub(self._link, piece)
            pieces.append(piece)
        return "".join(pieces)

    def _link(self, match: re.Match) -> str:
        assertion = self._by_number.get(normal(match[0]))
        if assertion is None:
            return match[0]
        self.linked += 1
        title = escape(f"Asserted: {assertion.line[:160]}")
        return f'<a class="claim" href="#{assertion.anchor}" title="{title}">{match[0]}</a>'
