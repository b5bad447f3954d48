"""The reference: declarations by chapter and role, with links to texts, tests and sources."""

import re
from collections import defaultdict
from html import escape
from pathlib import Path

from articles import plain, reference_of
from book import Page
from declarations import Declaration, NoReference, read_declarations
from source_files import CPP_SUFFIXES, repository_files
from ultra_notebook.pages.page import Heading

INCLUDE = re.compile(r'#include "([^"]+)"')
REF = re.compile(r'<a data-ref="([^"]+)">(.*?)</a>', re.DOTALL)
AREAS = ("chapters/", "common/", "kernels/")
INTERFACE = "Interface"
NAME = re.compile(r"[_:()]|[a-z][A-Z]|[A-Z]{2}[a-z]")
"""What is a name of ours, and no word at the beginning of a sentence."""
MODULES = {
    "base": "Errors, numbers, text",
    "tensor": "Tensors and their memory",
    "comm": "Ranks and their messages",
    "ops": "Operations",
    "nn": "Layers and the model",
    "optim": "The optimizer",
    "data": "Text as tokens",
    "trace": "Timelines",
    "replay": "What a step takes elsewhere",
    "storage": "Files and memory",
    "checkpoint": "Models on disk",
    "train": "The training step",
}


def links_of_chapter(page: Page) -> str:
    """What stands below a chapter's text: where its code is declared."""
    chapter = page.file.relative_to(
        page.file.parents[2 if page.file.parent.name[:2].isdigit() else 3]
    ).parts[1]
    return (
        f'<p class="place">Its declarations: <a href="reference_{chapter}.html">the reference of'
        " this chapter</a></p>"
    )


def links_of_source(root: Path, path: str) -> str:
    """What stands above a source: where it, or what it tests, is declared."""
    if path.endswith((".hpp", ".cuh")) and path.startswith(AREAS):
        return f'<p class="place"><a href="../{reference_of(path)}">In the reference</a></p>'
    if not path.startswith("tests/") or not path.endswith((".cpp", ".cu")):
        return ""
    headers = [
        one
        for one in INCLUDE.findall((root / path).read_text(encoding="utf-8"))
        if one.startswith(AREAS)
    ]
    links = " · ".join(
        f'<a href="../{reference_of(one)}">{escape(Path(one).name)}</a>'
        for one in headers
        if (root / one).is_file()
    )
    return f'<p class="place">Tests {links}</p>' if links else ""


def write_reference(site) -> None:
    """All pages of the reference; one that says why where there is none."""
    try:
        headers = read_declarations(site.root, site.root / "build" / "site_cache" / "reference")
    except NoReference as reason:
        print(f"SKIPPED: reference: {reason}")
        headers = {}
    places = {
        one.anchor: f"{_group_of(header)}.html#{one.anchor}"
        for header, declarations in headers.items()
        for top in declarations
        for one in (top, *top.members)
    }
    groups: dict[str, list[str]] = defaultdict(list)
    for header in _all_headers(site.root):
        groups[_group_of(header)].append(header)
    uses = _uses(site)
    for group, paths in groups.items():
        _write_group(site, group, paths, headers, places, uses)
    _write_overview(site, groups, headers)


def _all_headers(root: Path) -> list[str]:
    files = repository_files(root, "chapters", "common", "kernels")
    return [str(file) for file in files if file.suffix in (".hpp", ".cuh")]


def _group_of(path: str) -> str:
    """The page of a header."""
    return reference_of(path).partition(".html")[0]


def _anchor(path: str) -> str:
    return reference_of(path).partition("#")[2]


def _title_of(group: str, site) -> str:
    name = group.removeprefix("reference_")
    chapter = next((page for page in site.book.chapters if page.name == name), None)
    if chapter:
        return chapter.title
    area, _, module = name.partition("_")
    if area == "common":
        return MODULES.get(module, module.replace("_", " ").capitalize())
    return f"Kernels: {module.replace('_', ' ')}"


def _uses(site) -> dict[str, dict[str, list[str]]]:
    """By header: the tests that include it, and the texts whose cells do."""
    uses: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"tests": [], "texts": []})
    for test in repository_files(site.root, "tests"):
        if test.stem.endswith("_test") and test.suffix in CPP_SUFFIXES:
            for header in INCLUDE.findall((site.root / test).read_text(encoding="utf-8")):
                uses[header]["tests"].append(str(test))
    for page in site.book.in_order():
        if page.file and page.file.is_relative_to(site.root / "chapters"):
            text = page.file.read_text(encoding="utf-8")
            for header in dict.fromkeys(
                INCLUDE.findall(text) + re.findall(r"`([\w/]+\.hpp)`", text)
            ):
                uses[header]["texts"].append(page.name)
    return uses


def _write_group(site, group: str, paths: list[str], headers, places, uses) -> None:
    title = _title_of(group, site)
    body = [f"<h1>{escape(title)}</h1>"]
    chapter = next((page for page in site.book.chapters if f"reference_{page.name}" == group), None)
    if chapter:
        body.append(
            f'<p>The declarations of <a href="{chapter.href}">the chapter</a>, by their role.</p>'
        )
    contents, roles = [], defaultdict(list)
    for path in paths:
        roles[_role_of(path)].append(path)
    for role, files in sorted(roles.items(), key=lambda item: (item[0] != INTERFACE, item[0])):
        anchor = f"role-{re.sub(r'[^a-z0-9]+', '-', role.lower())}"
        contents.append(Heading(2, anchor, escape(role)))
        body.append(f'<h2 id="{anchor}"><a href="#{anchor}">{escape(role)}</a></h2>')
        for path in files:
            contents.append(Heading(3, _anchor(path), escape(Path(path).name)))
            body.append(_header_html(site, path, headers.get(path, []), places, uses[path]))
            for one in headers.get(path, []):
                site.search.add(
                    f"{group}.html", one.anchor, f"Reference: {title}", one.name, plain(one.brief)
                )
    site.write(
        group,
        f"Reference: {title}",
        "\n".join(body),
        contents=contents,
        place='<a href="reference.html">Reference</a>',
    )


def _role_of(path: str) -> str:
    inner = path.split("/")[2:-1]
    return ": ".join(part.replace("_", " ").capitalize() for part in inner) if inner else INTERFACE


def _header_html(site, path: str, declarations: list[Declaration], places, uses) -> str:
    source = site.shelf.sources.href(site.root / path)
    links = [f'<a href="{source}">source</a>']
    for test in uses["tests"][:4]:
        links.append(
            f'<a href="{site.shelf.sources.href(site.root / test)}">{escape(Path(test).stem)}</a>'
        )
    if len(uses["tests"]) > 4:
        links.append(f"{len(uses['tests']) - 4} tests more")
    pages = {page.name: page for page in site.book.in_order()}
    links += [
        f'<a href="{pages[name].href}">{escape(pages[name].title)}</a>'
        for name in dict.fromkeys(uses["texts"])
    ]
    anchor = _anchor(path)
    html = [
        f'<h3 id="{anchor}"><a href="#{anchor}"><code>{escape(path)}</code></a></h3><p'
        f' class="place">{" · ".join(links)}</p>'
    ]
    html += [_entry_html(one, places) for one in declarations]
    return "\n".join(html)


def _entry_html(one: Declaration, places) -> str:
    members = "".join(
        f'<dt id="{member.anchor}">{escape(member.signature)}</dt>'
        f"<dd>{_linked(_inline(member.brief) + member.details, places)}</dd>"
        for member in one.members
        if member.kind != "friend"
    )
    listed = f"<dl>{members}</dl>" if members else ""
    return (
        '<section class="entry"'
        f' id="{one.anchor}"><h4>{escape(one.signature)}</h4>{_linked(one.brief, places)}'
        f"{_linked(one.details, places)}{listed}</section>"
    )


def _inline(html: str) -> str:
    return re.sub(r"^<p>(.*)</p>$", r"\1", html.strip(), flags=re.DOTALL)


def _linked(html: str, places) -> str:
    def link(match: re.Match) -> str:
        href = places.get(match[1])
        return f'<a href="{href}">{match[2]}</a>' if href and NAME.search(match[2]) else match[2]

    return REF.sub(link, html)


def _write_overview(site, groups: dict[str, list[str]], headers) -> None:
    parts = [("Chapters", "chapters/"), ("The core", "common/"), ("Kernels", "kernels/")]
    body = [
        "<h1>Reference</h1><p>Every public declaration, by chapter and role, with shapes, costs and"
        " sources. Each header links its source, the tests that hold it to its word, and the texts"
        " that use it.</p>"
    ]
    for title, prefix in parts:
        cards = []
        for group, paths in groups.items():
            if paths[0].startswith(prefix):
                count = sum(len(headers.get(path, [])) for path in paths)
                cards.append(
                    f'<a class="card" href="{group}.html"><h3>{escape(_title_of(group, site))}</h3>'
                    f"<p>{len(paths)} headers, {count} declarations</p></a>"
                )
        body.append(
            f'<h2 id="{title.lower().replace(" ", "-")}">{title}</h2><div'
            f' class="cards">{"".join(cards)}</div>'
        )
    site.write("reference", "Reference", "\n".join(body))
