"""Builds the site: pages of the book, figures, reference, search."""

import fcntl
import hashlib
import re
import shutil
from html import escape
from pathlib import Path

import appendices
import figures as figure_pages
import reference
from articles import Article, Shelf, article_of_markdown, article_of_notebook, sections_of
from book import Page, read_book
from executed import Executed, Outputs, executed_notebook
from front import front_page
from jinja2 import Environment, FileSystemLoader
from pygments.formatters import HtmlFormatter
from search_index import SearchIndex
from slides import slides_of
from stepper import write_stepper_page
from timeline import STEP, recorded_step, timeline_script
from ultra_notebook.pages.glossary import Glossary, read_glossary
from ultra_notebook.pages.math_font import math_font_css
from ultra_notebook.pages.page import DARK_STYLE, LIGHT_STYLE
from wasm import DoesNotCompile, NoCompiler, as_script, build_modules

BOOK = "The Ultra-Scale Workbook"
GROUPS = [
    ("Words and numbers", ["glossary", "words", "formulas", "hardware", "machines", "devices",
                           "clusters", "extending"]),
    (
        "For those who come from elsewhere",
        ["bugs_that_shipped", "from_your_framework", "misconceptions", "errata", "deviations"],
    ),
    ("Teaching", ["course", "grading", "assistants", "cs336"]),
    ("Measured", ["negative_results", "two_core_cpu", "kernels_on_a_gpu", "training_on_a_gpu",
                  "planner_and_published", "planner_exam", "plans_and_runs", "soak"]),
    ("The site", ["how_the_site_works"]),
]
ABOUT = {
    "glossary": "The words of the field and the symbols, a sentence or two each.",
    "words": "Rank, stage, part, chunk, block, unit, shard, place: what each is here.",
    "formulas": "Every displayed formula, with the section that derives it.",
    "hardware": "Figures of GPUs and networks, with the sheets they come from.",
    "machines": "The model and the machines in three pictures.",
    "devices": "What runs where, and for what a GPU's host waits.",
    "clusters": "Slurm, several hosts, containers: how to start, what to check first.",
    "extending": "A new optimizer, axis or schedule: a file of its own and one line.",
    "bugs_that_shipped": "Real programs that trained another model, rebuilt on two ranks, and what finds it.",
    "from_your_framework": "Options of Megatron-LM, DeepSpeed, FSDP and others, as flags here.",
    "misconceptions": "What one reads and hears, and what is so.",
    "errata": "Where the sources err, and how that was found.",
    "deviations": "Where the code does other than its paper, and why.",
    "course": "An afternoon to begin, a course map, syllabi of 6, 10 and 14 weeks.",
    "grading": "Handouts without solutions, Gradescope, JUnit, points, a rubric.",
    "assistants": "What learners get wrong, by exercise, and what the checks say of it.",
    "cs336": "The tasks of CS336's second assignment, and where they are here.",
    "negative_results": "What was tried and did not help, or is not known.",
    "two_core_cpu": "Times on two cores of a server processor.",
    "kernels_on_a_gpu": "What has, and has not, run on a GPU.",
    "training_on_a_gpu": "How training is timed on a GPU, beside what others publish; none has been timed yet.",
    "planner_and_published": "The planner's predictions beside what others have measured.",
    "planner_exam": "An exam: 202 published steps that the planner had not seen, row by row.",
    "plans_and_runs": "The planner's predictions beside runs on one machine and on two hosts.",
    "soak": "Trainings that are killed, again and again.",
    "how_the_site_works": "How these pages and their figures are made, and tested.",
}


class Site:
    """A site under construction."""

    def __init__(self, root: Path, output: Path):
        self.root, self.output = root, output
        self.docs = root / "docs" / "site"
        self.book = read_book(root)
        self.glossary = read_glossary(root)
        self.shelf = Shelf(self.book, output, self.glossary)
        self.search = SearchIndex()
        self.computes = False
        templates = Environment(loader=FileSystemLoader(self.docs), trim_blocks=True)
        self._template = templates.get_template("page.html.j2")
        self.front_template = templates.get_template("front.html.j2")
        self._slides_template = templates.get_template("slides.html.j2")

    def write(self, name: str, title: str, body: str, **more) -> None:
        """Writes a page; `more` goes to the template."""
        settings = {
            "contents": [],
            "before": None,
            "behind": None,
            "place": "",
            "kind": "",
            "up": "",
            "figures": False,
            "scripts": [],
            "tree": self._tree(name),
        }
        page = self._template.render(
            book=BOOK, title=title, body=body, math_font=math_font_css(body), **{**settings, **more}
        )
        file = self.output / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page, encoding="utf-8")

    def write_article(self, page: Page, article: Article, html: str | None = None, **more) -> None:
        """Writes a page of the book, with its neighbours and its contents."""
        pages = self.book.in_order()
        place = pages.index(page) if page in pages else None
        before = pages[place - 1] if place else None
        behind = pages[place + 1] if place is not None and place + 1 < len(pages) else None
        contents = [heading for heading in article.headings if heading.level in (2, 3)]
        self.write(
            page.name,
            article.title,
            html or article.html,
            contents=contents,
            before=before,
            behind=behind,
            **more,
        )
        self.search.add_page(page.href, article.title, article.sections)

    def write_slides(self, page: Page, article: Article) -> None:
        """Writes a chapter's slides."""
        slides = slides_of(article, page.name)
        shown = "".join(slide.shown + "".join(slide.sentences) for slide in slides)
        text = self._slides_template.render(
            book=BOOK, title=article.title, page=page.name, slides=slides, math_font=math_font_css(shown),
            about=escape(page.row.builds if page.row else ""),
        )
        (self.output / f"{page.name}.slides.html").write_text(text, encoding="utf-8")

    def _tree(self, name: str) -> list[dict]:
        def entry(page: Page) -> dict:
            names = [page.name, *(room.name for room in page.rooms)]
            return {
                "title": page.title,
                "href": page.href,
                "here": page.name == name,
                "current": name in names,
                "rooms": [entry(room) for room in page.rooms],
            }

        entries = [entry(chapter) for chapter in self.book.chapters]
        return entries + [
            {
                "title": title,
                "href": f"{target}.html",
                "here": name == target,
                "current": name == target,
                "rooms": [],
            }
            for target, title in (
                ("figures", "Figures that compute"),
                ("stepper", "A block, rank by rank"),
                ("reference", "Reference"),
                ("appendices", "Appendices"),
            )
        ]


def build_site(root: Path, output: Path, outputs: Outputs, *, with_figures: bool) -> int:
    """Writes all pages into `output`; 1 when something failed. One build at a time."""
    cache = root / "build" / "site_cache"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _build(root, output, outputs, with_figures=with_figures)


def _build(root: Path, output: Path, outputs: Outputs, *, with_figures: bool) -> int:
    fresh = output.with_name(f"{output.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    site = Site(root, fresh)
    for folder in ("assets", "assets/modules"):
        (fresh / folder).mkdir(parents=True)
    try:
        if with_figures:
            site.computes = _write_modules(site)
        assertions, failures = _write_chapters(site, outputs)
    except (DoesNotCompile, LookupError) as error:
        print(f"error: {error}")
        return 1
    _write_figures_page(site)
    try:
        write_stepper_page(site)
    except LookupError as error:
        print(f"error: {error}")
        return 1
    _write_appendices(site)
    reference.write_reference(site)
    _write_front(site, assertions)
    _write_sources(site)
    _write_assets(site)
    _swap(fresh, output)
    count = len(list(output.rglob("*.html")))
    size = sum(file.stat().st_size for file in output.rglob("*") if file.is_file())
    print(f"Wrote {count} pages, {size / 1e6:.1f} MB: {output}/index.html")
    for failure in failures:
        print(f"error: {failure}")
    return 1 if failures else 0


def _swap(fresh: Path, output: Path) -> None:
    old = output.with_name(f"{output.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if output.exists():
        output.rename(old)
    fresh.rename(output)
    shutil.rmtree(old, ignore_errors=True)


def _write_modules(site: Site) -> bool:
    """The figures' modules; whether there are any."""
    try:
        modules = build_modules(site.root / "build" / "site_cache" / "wasm")
    except NoCompiler as reason:
        print(f"SKIPPED: figures that compute: {reason}")
        return False
    for name, wasm in modules.items():
        (site.output / "assets" / "modules" / f"{name}.js").write_text(as_script(name, wasm))
    return True


def _write_chapters(site: Site, outputs: Outputs) -> tuple[dict[str, int], list[str]]:
    """All chapters and rooms; how many claims the cells of each chapter assert, and which texts fail."""
    counts, failures = {}, []
    for chapter in site.book.chapters:
        counts[chapter.name] = 0
        for page in (chapter, *chapter.rooms):
            executed = executed_notebook(site.root, page.file, outputs)
            if executed.failure:
                failures.append(f"{page.file.relative_to(site.root)} fails:\n{executed.failure}")
            article = article_of_notebook(executed.notebook, page.file.parent, site.shelf)
            figures = figure_pages.figures_of(site.shelf, page.name)
            html = figure_pages.with_figures(article, figures, site.shelf, site.computes)
            html = _failure_notice(executed) + html + reference.links_of_chapter(page)
            if page is chapter:
                html += f'<p class="place"><a href="{page.name}.slides.html">Slides of this chapter</a></p>'
            scripts = figure_pages.scripts_of(figures) if site.computes else []
            place = (
                ""
                if page is chapter
                else f'A room of <a href="{chapter.href}">{escape(chapter.title)}</a>'
            )
            site.write_article(
                page, article, html, figures=bool(scripts), scripts=scripts, place=place
            )
            counts[chapter.name] += article.assertions
            if page is chapter:
                site.write_slides(page, article)
    return counts, failures


def _failure_notice(executed: Executed) -> str:
    """What stands above a text of which a cell failed; nothing above others."""
    if not executed.failure:
        return ""
    cell = executed.failed_cell
    where = f'<a href="#cell-{cell}">A cell of this text</a>' if cell else "This text"
    return (
        f'<p class="failed">{where} failed when the site was built. What it says may be wrong, and'
        " cells below it have no outputs.</p>"
    )


def _write_figures_page(site: Site) -> None:
    figures = figure_pages.figures_of(site.shelf)
    pages = {page.name: page for page in site.book.chapters}
    body = (
        "<h1>Figures that compute</h1><p>Each figure asks the workbook's own C++, compiled to"
        " WebAssembly from the sources of the programs: its numbers are theirs, and a test compares"
        " them. The address bar holds a figure's state, so a link to it shows what you see.</p>"
    )
    for figure in figures:
        chapter = pages[figure.chapter]
        body += figure_pages.section_of(figure, site.shelf, site.computes)
        body += (
            '<p class="place">From <a'
            f' href="{chapter.href}#{figure.anchor}">{escape(chapter.title)}</a></p>'
        )
        site.search.add(
            "figures.html",
            f"figure-{figure.name}",
            "Figures that compute",
            figure.title,
            figure.about,
        )
    body += _recorded_step(site)
    scripts = figure_pages.scripts_of(figures) if site.computes else []
    site.write("figures", "Figures that compute", body, figures=bool(scripts), scripts=scripts)


def _recorded_step(site: Site) -> str:
    """A timeline to download: a step that the program recorded while the site was built."""
    timeline = recorded_step(site.root)
    if timeline is None:
        return ""
    name = "assets/step_of_512_gpus.json.gz"
    (site.output / name).write_bytes(timeline)
    return (
        '<h2 id="recorded-step">A step of 512 GPUs, as a timeline</h2><p>No figure, but the whole of'
        " it: every operation, exchange and message of eight ranks, one of each stage, as the"
        f" program recorded and priced it. Save <a href=\"{name}\" download>the timeline</a> and"
        ' open it in <a href="https://ui.perfetto.dev">ui.perfetto.dev</a>; it stays on your'
        f" computer. It was made by</p><pre>./workbook run 11 {escape(STEP)} --trace step.json</pre>"
    )


def _write_appendices(site: Site) -> None:
    made = appendices.made_appendices(site.book)
    site.book.appendices += [one.page for one in made]
    order = [name for _, names in GROUPS for name in names]
    site.book.appendices.sort(key=lambda page: order.index(page.name))
    plain = Shelf(site.book, site.output, Glossary())
    plain.sources = site.shelf.sources
    markdown = {one.page.name: one for one in made}
    for page in site.book.appendices:
        shelf = plain if page.name == "glossary" else site.shelf
        if page.name in markdown:
            article = appendices.article_of(markdown[page.name], shelf)
        else:
            article = article_of_markdown(
                page.file.read_text(encoding="utf-8"), page.file.parent, shelf
            )
        site.write_article(page, article, place='<a href="appendices.html">Appendices</a>')
    body = "<h1>Appendices</h1>"
    pages = {page.name: page for page in site.book.appendices}
    for title, names in GROUPS:
        there = [(pages[name], ABOUT[name]) for name in names if name in pages]
        body += f"<h2>{escape(title)}</h2>{appendices.cards(there)}" if there else ""
    site.write("appendices", "Appendices", body)


def _write_front(site: Site, assertions: dict[str, int]) -> None:
    script = timeline_script(site.root)
    if script:
        (site.output / "assets" / "timeline_data.js").write_text(script)
    body = front_page(
        site.front_template, site.book, site.shelf, assertions, alive=script is not None
    )
    scripts = ["assets/timeline_data.js", "assets/timeline.js"] if script else []
    site.write("index", BOOK, body, kind="front", scripts=scripts)
    site.search.add_page("index.html", BOOK, sections_of(body))


def _write_sources(site: Site) -> None:
    """The pages of source files; showing a folder wants more files."""
    written: set[str] = set()
    while waiting := [path for path in site.shelf.sources.wanted if path not in written]:
        for path in waiting:
            written.add(path)
            name = site.shelf.sources.name_of(Path(path))
            body = (
                f"<h1><code>{escape(path)}</code></h1>"
                f"{reference.links_of_source(site.root, path)}{site.shelf.sources.body(path)}"
            )
            site.write(f"source/{name.removesuffix('.html')}", path, body, up="../", kind="source")


def _write_assets(site: Site) -> None:
    assets = site.output / "assets"
    light = HtmlFormatter(style=LIGHT_STYLE).get_style_defs(".highlight")
    dark = HtmlFormatter(style=DARK_STYLE).get_style_defs(".highlight")
    own = [(site.docs / name).read_text(encoding="utf-8") for name in ("site.css", "figures.css")]
    code = f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    (assets / "site.css").write_text(code + "\n".join(own), encoding="utf-8")
    for name in ("site.js", "figures.js", "timeline.js", "icon.svg", "slides.css"):
        shutil.copyfile(site.docs / name, assets / name)
    figure_pages.copy_scripts(site.docs, site.output)
    (assets / "search_index.js").write_text(site.search.script(), encoding="utf-8")
    _bust_caches(site.output)


def _bust_caches(output: Path) -> None:
    """Scripts and styles by their content: a browser shows no old ones beside new pages."""
    digest = hashlib.sha256()
    for file in sorted((output / "assets").rglob("*.[jc]s*")):
        digest.update(file.read_bytes())
    version = digest.hexdigest()[:8]
    for page in output.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(
            re.sub(r'((?:src|href)="[^"]*assets/[\w/]+\.(?:js|css))"', rf'\1?{version}"', text),
            encoding="utf-8",
        )
