"""The font of the formulas, embedded in the page: without a font made for mathematics (its MATH
table says where a subscript goes, how a bracket grows) browsers set formulas poorly, and many
machines have none.

The font is STIX Two Math (SIL Open Font License), from the package ziamath; the page gets the
glyphs that it uses.
"""

import base64
import importlib.util
import io
import re
import unicodedata
from html import unescape
from pathlib import Path

from fontTools.subset import Options, Subsetter, load_font, save_font

FONT = "fonts/STIXTwoMath-Regular.ttf"
ITALIC_PLANCK = "\u210e"
"""The italic h stands outside of its block, because physics had it first."""

RADICAL = "\u221a"
"""What browsers draw roots with; it is in no formula's text."""


def math_font_css(html: str) -> str:
    """A style rule with the font that the formulas of a page need; nothing without formulas."""
    characters = _characters_of_formulas(html)
    if not characters:
        return ""
    font = base64.b64encode(_subset(characters)).decode()
    return (
        '@font-face { font-family: "Workbook Math"; '
        f'src: url(data:font/woff;base64,{font}) format("woff"); }}'
    )


def _characters_of_formulas(html: str) -> set[str]:
    formulas = re.findall(r"<math.*?</math>", html, flags=re.DOTALL)
    texts = (unescape(re.sub(r"<[^>]*>", "", formula)) for formula in formulas)
    characters = {character for text in texts for character in text}
    if any(re.search("<m(sqrt|root)", formula) for formula in formulas):
        characters.add(RADICAL)
    return characters | {italic for c in characters if (italic := _italic(c))}


def _italic(letter: str) -> str:
    """The mathematical italic that a browser draws for a variable of one letter."""
    if letter == "h":
        return ITALIC_PLANCK
    name = unicodedata.name(letter, "")
    match = re.fullmatch(r"(?:LATIN|GREEK) (CAPITAL|SMALL) LETTER (\w+)", name)
    if not match:
        return ""
    try:
        return unicodedata.lookup(f"MATHEMATICAL ITALIC {match[1]} {match[2]}")
    except KeyError:
        return ""


def _subset(characters: set[str]) -> bytes:
    package = importlib.util.find_spec("ziamath").submodule_search_locations[0]
    options = Options()
    options.flavor = "woff"
    font = load_font(str(Path(package) / FONT), options)
    subsetter = Subsetter(options)
    subsetter.populate(text="".join(sorted(characters)))
    subsetter.subset(font)
    file = io.BytesIO()
    save_font(font, file, options)
    return file.getvalue()
