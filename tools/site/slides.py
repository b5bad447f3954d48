"""A chapter's slides, made of its page: of each section the first sentence, the pictures, formulas and
small tables or else the first short code, and the sentences whose numbers a cell asserts. Nothing on them is written by hand, so
nothing on them is older than the page."""

import re
from dataclasses import dataclass, field

from articles import Article, plain
from bs4 import BeautifulSoup, Tag

WITHOUT = {"exercises", "problems", "sources"}
"""Sections that have no slide."""
MOST_CLAIMS = 3
MOST_ROWS = 9
MOST_COLUMNS = 7
MOST_LETTERS = 450
"""Of a table."""
FEWEST_LINES = 3
MOST_LINES = 18
"""Of code."""
MOST_SENTENCES = 3
"""Where there is nothing to look at."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9<(])")


@dataclass
class Slide:
    """One slide: a heading, sentences, and at most one thing to look at."""

    title: str
    anchor: str
    sentences: list[str] = field(default_factory=list)
    shown: str = ""


def slides_of(article: Article, page: str) -> list[Slide]:
    """The slides of a chapter, in the order of its page, which `page` names; a second picture has a slide of
    its own."""
    slides: list[Slide] = []
    for heading, body in _sections(BeautifulSoup(article.html.replace('href="#', f'href="{page}.html#'), "html.parser")):
        if heading["id"] in WITHOUT:
            continue
        title = plain(str(heading))
        shown = _shown(body)
        first = Slide(title, heading["id"], _sentences(body, 1 if shown else MOST_SENTENCES),
                      shown[0] if shown else "")
        slides.append(first)
        slides += [Slide(title, heading["id"], shown=one) for one in shown[1:]]
    return slides


def _sections(soup: BeautifulSoup):
    """Each heading of level 2 with what stands below it, up to the next one."""
    for heading in soup.find_all("h2", id=True):
        body = []
        for sibling in heading.find_next_siblings():
            if sibling.name == "h2":
                break
            body.append(sibling)
        yield heading, body


def _sentences(body: list[Tag], count: int) -> list[str]:
    """The section's first sentences, and those with numbers that are asserted."""
    prose = [one for one in body if one.name == "p" and not one.get("class") and not one.find("img")]
    prose = prose or [item for one in body if one.name in ("ul", "ol") for item in one.find_all("li", recursive=False)]
    parts = [sentence for one in prose for sentence in _split(one)]
    claims = [sentence for sentence in parts[count:] if 'class="claim"' in sentence]
    return parts[:count] + claims[:MOST_CLAIMS]


def _split(paragraph: Tag) -> list[str]:
    """A paragraph's sentences as HTML; a tag that would be torn apart keeps its sentences together."""
    whole: list[str] = []
    for piece in SENTENCE_END.split(paragraph.decode_contents().strip()):
        if whole and _open_tags(whole[-1]):
            whole[-1] += f" {piece}"
        else:
            whole.append(piece)
    return whole


def _open_tags(html: str) -> bool:
    names = re.findall(r"<(/?)(\w+)[^>]*?(/?)>", html)
    return any(
        sum(1 for end, one, alone in names if one == name and not end and not alone and name != "img")
        != sum(1 for end, one, _ in names if one == name and end)
        for name in {name for _, name, _ in names}
    )


def _shown(body: list[Tag]) -> list[str]:
    """Pictures, displayed formulas and tables that a slide can hold."""
    found = []
    for one in body:
        pictures = one.find_all("img", class_="picture")
        found += [f'<figure>{one}<figcaption>{one["alt"]}</figcaption></figure>' for one in pictures]
        formulas = [one] if "math" in one.get("class", []) else one.find_all("div", class_="math")
        found += [str(formula) for formula in formulas]
        if "cell" not in one.get("class", []):
            tables = [one] if one.name == "table" else one.find_all("table")
            found += [str(table) for table in tables if _fits(table)]
    return found or _short_code(body)[:1]


def _short_code(body: list[Tag]) -> list[str]:
    """Code that a page does not fold, and a slide can hold."""
    cells = [one for one in body if "cell" in one.get("class", []) and not one.find("details")]
    codes = [cell.find("div", class_="highlight") for cell in cells]
    lengths = [(code, code.get_text().strip().count("\n") + 1) for code in codes if code]
    return [str(code) for code, lines in lengths if FEWEST_LINES <= lines <= MOST_LINES]


def _fits(table: Tag) -> bool:
    rows = table.find_all("tr")
    short = len(rows) <= MOST_ROWS and len(table.get_text()) <= MOST_LETTERS
    return short and all(len(row.find_all(["td", "th"])) <= MOST_COLUMNS for row in rows)
