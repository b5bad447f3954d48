"""What can be said of the site without a browser: links, anchors, alt texts, sizes."""

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LARGEST_PAGE = 1_500_000
"""Bytes of a page with all that it shows: scripts, styles, pictures, its figures' modules."""


class PageReader(HTMLParser):
    """Collects what a page has and where it points."""

    def __init__(self):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.assets: list[str] = []
        self.pictures: list[tuple[str, str | None]] = []
        self.modules: set[str] = set()
        self.title = ""
        self.language = ""
        self._in_title = False

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        for name in ("id", "name"):
            if values.get(name) and (name == "id" or tag == "a"):
                self.anchors.add(values[name])
        if tag == "a" and values.get("href") is not None:
            self.links.append(values["href"])
        elif tag == "img":
            self.pictures.append((values.get("src", ""), values.get("alt")))
        elif tag in ("script", "link") and (values.get("src") or values.get("href")):
            self.assets.append(values.get("src") or values["href"])
        elif tag == "html":
            self.language = values.get("lang", "")
        if values.get("data-module"):
            self.modules.add(values["data-module"])
        self._in_title = tag == "title" or (self._in_title and tag != "/title")

    def handle_endtag(self, tag):
        if tag == "title":
            self._in_title = False

    def handle_data(self, data):
        if self._in_title and not self.title:
            self.title = data.strip()


def check_site(output: Path) -> list[str]:
    """The faults of a site, one a line."""
    pages = sorted(output.rglob("*.html"))
    if not pages:
        return [f"{output} has no pages: ./workbook site builds them"]
    readers = {page: _read(page) for page in pages}
    faults = []
    for page, reader in readers.items():
        where = page.relative_to(output)
        faults += [f"{where}: {fault}" for fault in _faults(page, reader, readers, output)]
    return faults


def _read(page: Path) -> PageReader:
    reader = PageReader()
    # Colours of code are most of a page's tags, and point nowhere.
    reader.feed(re.sub(r'</?span(?: class="[^"]*")?>', "", page.read_text(encoding="utf-8")))
    return reader


def _faults(page: Path, reader: PageReader, readers: dict[Path, PageReader], output: Path):
    if not reader.title:
        yield "has no title"
    if reader.language != "en":
        yield "does not say its language"
    for link in dict.fromkeys(reader.links):
        yield from _link_faults(page, link, readers, output)
    for source, alt in reader.pictures:
        if alt is None or not alt.strip():
            yield f"a picture has no alt text: {source[:60]}"
        if (
            not source.startswith("data:")
            and not (page.parent / source.partition("?")[0]).is_file()
        ):
            yield f"a picture is not there: {source}"
    size = page.stat().st_size
    for asset in reader.assets:
        file = page.parent / asset.partition("?")[0]
        if re.match(r"[a-z]+:", asset):
            yield f"loads {asset} from the network"
        elif not file.is_file():
            yield f"loads {asset}, which is not there"
        else:
            size += file.stat().st_size
    size += sum(
        (output / "assets" / "modules" / f"{name}.js").stat().st_size
        for name in reader.modules
        if (output / "assets" / "modules" / f"{name}.js").is_file()
    )
    for source, _ in reader.pictures:
        file = page.parent / source.partition("?")[0]
        size += file.stat().st_size if not source.startswith("data:") and file.is_file() else 0
    if size > LARGEST_PAGE:
        yield f"has {size / 1e6:.2f} MB with what it loads: more than {LARGEST_PAGE / 1e6} MB"


def _link_faults(page: Path, link: str, readers: dict[Path, PageReader], output: Path):
    parts = urlsplit(unescape(link))
    if parts.scheme in ("http", "https", "mailto"):
        return
    if parts.scheme:
        yield f"has a link of an unknown kind: {link}"
        return
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target not in readers:
        if not target.is_file() or output not in target.parents:
            yield f"a dead link: {link}"
        return
    anchor = unquote(parts.fragment).partition("?")[0]
    if anchor and anchor not in readers[target].anchors:
        yield f"a link to an anchor that is not there: {link}"
