"""What Doxygen has read of the headers: declarations by header, with their comments as HTML."""

import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

KINDS = {"struct": "struct", "class": "class", "concept": "concept", "union": "union"}
SECTIONS = {
    "return": "Returns",
    "pre": "Requires",
    "see": "See",
    "note": "Note",
    "post": "Ensures",
    "warning": "Warning",
}
LISTS = {
    "param": "Parameters",
    "exception": "Throws",
    "templateparam": "Template parameters",
    "retval": "Returns",
}


class NoReference(Exception):
    """Why there is no reference."""


@dataclass
class Declaration:
    """A type, a function, a constant or a member."""

    anchor: str
    kind: str
    name: str
    signature: str
    brief: str
    details: str
    line: int
    header: str
    members: list["Declaration"] = field(default_factory=list)


def read_declarations(root: Path, folder: Path) -> dict[str, list[Declaration]]:
    """All public declarations by the path of their header, in the order in which they stand there.

    @raises NoReference when Doxygen is missing or fails
    """
    _run_doxygen(root, folder)
    found: dict[str, list[Declaration]] = {}
    for file in sorted((folder / "xml").glob("*.xml")):
        if not file.name.startswith(("struct", "class", "namespace", "concept", "union")):
            continue
        for compound in ElementTree.parse(file).getroot().iter("compounddef"):
            for one in _of_compound(compound):
                found.setdefault(one.header, []).append(one)
    for declarations in found.values():
        declarations.sort(key=lambda one: one.line)
    return dict(sorted(found.items()))


def _run_doxygen(root: Path, folder: Path) -> None:
    configured = root / "build" / "release" / "generated" / "Doxyfile"
    if not configured.is_file():
        raise NoReference("the build is not configured: ./workbook setup")
    folder.mkdir(parents=True, exist_ok=True)
    more = (
        f'OUTPUT_DIRECTORY = "{folder}"\nGENERATE_HTML = NO\nGENERATE_XML = YES\n'
        "XML_PROGRAMLISTING = NO\nWARN_AS_ERROR = NO\n"
    )
    own = folder / "Doxyfile"
    own.write_text(configured.read_text(encoding="utf-8") + more, encoding="utf-8")
    try:
        subprocess.run(["doxygen", str(own)], cwd=root, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise NoReference(f"doxygen: {error}") from error


def _of_compound(compound) -> list[Declaration]:
    members = [_member(node) for node in compound.iter("memberdef") if node.get("prot") == "public"]
    if compound.get("kind") == "namespace":
        return [one for one in members if one.header]
    if compound.get("kind") not in KINDS or compound.get("prot") == "private":
        return []
    place = compound.find("location")
    name = compound.findtext("compoundname", "")
    template = _template(compound)
    return [
        Declaration(
            compound.get("id"),
            compound.get("kind"),
            name.removeprefix("ultra::"),
            f"{template}{compound.get('kind')} {name.rpartition('::')[2]}",
            _text(compound.find("briefdescription")),
            _text(compound.find("detaileddescription")),
            int(place.get("line", "0")),
            place.get("file", ""),
            members,
        )
    ]


def _member(node) -> Declaration:
    place = node.find("location")
    name = node.findtext("qualifiedname") or node.findtext("name", "")
    kind = node.get("kind")
    written = " ".join(filter(None, (_plain(node.find("type")), node.findtext("name", ""))))
    if kind == "function":
        written = f"{_template(node)}{written}{node.findtext('argsstring', '')}"
    elif kind == "enum":
        written = (
            f"enum {'class ' if node.get('strong') == 'yes' else ''}{node.findtext('name', '')}"
        )
    elif kind == "variable" and node.find("initializer") is not None:
        written += f" {_plain(node.find('initializer'))}"
    values = [
        Declaration(
            value.get("id"),
            "value",
            value.findtext("name", ""),
            value.findtext("name", ""),
            _text(value.find("briefdescription")),
            "",
            0,
            "",
        )
        for value in node.findall("enumvalue")
    ]
    return Declaration(
        node.get("id"),
        kind,
        name.removeprefix("ultra::"),
        written,
        _text(node.find("briefdescription")),
        _text(node.find("detaileddescription")),
        int(place.get("line", "0")),
        place.get("file", ""),
        values,
    )


def _template(node) -> str:
    parameters = node.find("templateparamlist")
    if parameters is None:
        return ""
    words = [
        " ".join(filter(None, (_plain(p.find("type")), p.findtext("declname")))) for p in parameters
    ]
    return f"template <{', '.join(words)}> "


def _plain(node) -> str:
    return "" if node is None else " ".join("".join(node.itertext()).split())


def _text(node) -> str:
    """A comment as HTML; references are marks that reference.py makes links of."""
    return "" if node is None else _inside(node).strip()


def _inside(node) -> str:
    pieces = [escape(node.text or "")]
    for child in node:
        pieces += [_element(child), escape(child.tail or "")]
    return "".join(pieces)


def _element(node) -> str:
    tag, inside = node.tag, _inside(node)
    simple = {
        "para": "p",
        "computeroutput": "code",
        "emphasis": "em",
        "bold": "strong",
        "itemizedlist": "ul",
        "orderedlist": "ol",
        "listitem": "li",
        "superscript": "sup",
        "subscript": "sub",
        "row": "tr",
    }
    if tag in simple:
        return f"<{simple[tag]}>{inside}</{simple[tag]}>"
    if tag == "ref":
        return f'<a data-ref="{escape(node.get("refid", ""))}">{inside}</a>'
    if tag == "ulink":
        return f'<a href="{escape(node.get("url", ""))}">{inside}</a>'
    if tag == "simplesect":
        return (
            f'<p><b>{SECTIONS.get(node.get("kind"), node.get("kind").capitalize())}:</b>'
            f" {inside}</p>".replace("<p><p>", "<p>")
        )
    if tag == "parameterlist":
        return f"<dl><dt><b>{LISTS.get(node.get('kind'), 'Parameters')}</b></dt>{inside}</dl>"
    if tag == "parameternamelist":
        return f"<dt>{' '.join(inside.split())}</dt>"
    if tag == "parameterdescription":
        return f"<dd>{inside}</dd>"
    if tag == "table":
        return f'<div class="wide"><table>{inside}</table></div>'
    if tag == "entry":
        cell = "th" if node.get("thead") == "yes" else "td"
        return f"<{cell}>{inside}</{cell}>"
    if tag in ("programlisting", "verbatim", "preformatted"):
        return f"<pre>{inside}</pre>"
    if tag == "codeline":
        return f"{inside}\n"
    if tag == "sp":
        return " "
    if tag in ("ndash", "mdash"):
        return "–"
    return inside
