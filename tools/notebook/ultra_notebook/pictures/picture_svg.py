"""A figure as a small SVG that is drawn on light and on dark paper.

Black, grey and white turn over where the reader's paper is dark; colours stay. Text on a coloured
area keeps its black or white when its gid is "on-colour".
"""

import io
import re
import xml.etree.ElementTree as xml

SVG = "http://www.w3.org/2000/svg"
DARK_PAPER, DARK_INK = 0x16, 0xE2
"""Of grey, what white and black become on dark paper."""
NEUTRAL = 12
"""How far red, green and blue may be apart in what still counts as grey."""
ON_COLOUR = "on-colour"
COLOUR = re.compile(r"\b(fill|stroke): (#[0-9a-f]{6})(?:; ?|$)")


def svg_of(figure, alt: str, data: str) -> str:
    """The picture of a matplotlib figure, with its alt text as title and its data as metadata."""
    text = io.StringIO()
    figure.patch.set_alpha(0)
    figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    return with_both_papers(compact(text.getvalue()), alt, data)


def compact(svg: str) -> str:
    """The picture with one line for each path, and tenths of points in it."""

    def on_one_line(path):
        words = (f"{float(word):.1f}".removesuffix(".0") if "." in word else word
                 for word in path[1].split())
        return f' d="{" ".join(words)}"'

    svg = re.sub(r' d="([^"]*)"', on_one_line, svg)
    svg = re.sub(r"(?s) *(<metadata>.*?</metadata>|<!--.*?-->)\n", "", svg)
    return re.sub(r"\n *(</(?:g|defs)>)", r"\1", svg)


def with_both_papers(svg: str, alt: str = "", data: str = "") -> str:
    """The picture with classes in place of its greys, and a style for each paper."""
    xml.register_namespace("", SVG)
    xml.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = xml.fromstring(svg)
    greys = set()
    _turn(root, greys, keep=False, in_text=False)
    head = [_element("title", alt), _element("metadata", data), _element("style", _style(greys))]
    for place, element in enumerate(element for element in head if element.text):
        root.insert(place, element)
    return xml.tostring(root, encoding="unicode") + "\n"


def _element(name: str, text: str) -> xml.Element:
    element = xml.Element(f"{{{SVG}}}{name}")
    element.text, element.tail = text, "\n"
    return element


def _turn(element: xml.Element, greys: set, keep: bool, in_text: bool) -> None:
    own_id = element.get("id", "")
    if own_id.startswith(ON_COLOUR) and not keep:
        keep = True
        element.set("style", f"fill: #000000; {element.get('style', '')}")
    in_text = in_text or own_id.startswith("text_")
    if not keep and "style" in element.attrib:
        _turn_style(element, greys, in_text)
    for child in element:
        _turn(child, greys, keep, in_text)


def _turn_style(element: xml.Element, greys: set, in_text: bool) -> None:
    """White letters stay white: they lie on something coloured."""
    classes = []

    def replaced(match):
        name, colour = match[1], match[2]
        if not _is_grey(colour) or (in_text and colour == "#ffffff"):
            return match[0]
        greys.add((name, colour))
        classes.append(f"{name[0]}{colour[1:]}")
        return ""

    style = COLOUR.sub(replaced, element.get("style")).strip()
    if classes:
        element.set("class", " ".join(classes))
        if style:
            element.set("style", style)
        else:
            del element.attrib["style"]


def _is_grey(colour: str) -> bool:
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return max(parts) - min(parts) <= NEUTRAL


def _style(greys: set) -> str:
    light = "svg{fill:#000}" + "".join(f".{n[0]}{c[1:]}{{{n}:{c}}}" for n, c in sorted(greys))
    dark = f"svg{{fill:{on_dark_paper('#000000')}}}"
    dark += "".join(f".{n[0]}{c[1:]}{{{n}:{on_dark_paper(c)}}}" for n, c in sorted(greys))
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"


def on_dark_paper(colour: str) -> str:
    """What a grey becomes: black the ink of dark paper, white its paper."""
    level = sum(int(colour[i : i + 2], 16) for i in (1, 3, 5)) / 3
    turned = round(DARK_INK + (DARK_PAPER - DARK_INK) * level / 255)
    return f"#{turned:02x}{turned:02x}{turned:02x}"
