"""The parts of the site: claims, pages of sources, appendices that are made, the check of pages."""

import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools" / folder) for folder in ("site", "notebook", "exercises", ".")]

import appendices  # noqa: E402  (after the path)
import builder  # noqa: E402
import claims  # noqa: E402
import executed  # noqa: E402
import figures  # noqa: E402
import nbformat  # noqa: E402
import reference  # noqa: E402
import stepper  # noqa: E402
import timeline  # noqa: E402
import wasm  # noqa: E402
from articles import Article, plain, sections_of  # noqa: E402
from check_pages import check_site  # noqa: E402
from nbformat.v4 import new_code_cell, new_output  # noqa: E402
from search_index import SearchIndex  # noqa: E402
from slides import slides_of  # noqa: E402
from small_svg import smaller_svg  # noqa: E402
from sources import SourcePages  # noqa: E402
from ultra_notebook.chapter_file import read_chapter  # noqa: E402
from ultra_notebook.executed_code import digest_of_code  # noqa: E402

PAGE = '<html lang="en"><head><title>T</title></head><body>{}</body></html>'


class IgnoredFiles(unittest.TestCase):
    """A checkout in which tests and editors have left what git ignores."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name) / "checkout"
        for name, text in {
            ".gitignore": "__pycache__/\n*.pyc\n.ipynb_checkpoints/\n",
            "chapters/01_toy/01_toy.md": "# Toy\n",
            "chapters/01_toy/toy.hpp": "/// Deviation: none.\n",
            "common/base/one.hpp": "",
            "tests/one_test.cpp": '#include "common/base/one.hpp"\n',
        }.items():
            self.write(name, text.encode())

    def write(self, name: str, content: bytes) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def leave_rubbish(self) -> None:
        self.write("tests/__pycache__/one_test.cpython-311.pyc", b"\xa7\r\r\n\xff")
        self.write("tests/__pycache__/two_test.cpp", b"\xff")
        self.write("common/base/.ipynb_checkpoints/one.hpp", b"\xff")
        self.write("chapters/01_toy/__pycache__/toy.cpp", b"\xff")

    def seen(self):
        site = mock.Mock(root=self.root, book=mock.Mock(root=self.root, in_order=lambda: []))
        headers = reference._all_headers(self.root)
        digest = digest_of_code(self.root, self.root / "chapters/01_toy/01_toy.md")
        return headers, reference._uses(site), appendices.deviations(site.book), digest

    def check(self):
        before = self.seen()
        self.assertEqual(before[0], ["chapters/01_toy/toy.hpp", "common/base/one.hpp"])
        self.assertEqual(before[1]["common/base/one.hpp"]["tests"], ["tests/one_test.cpp"])
        self.leave_rubbish()
        self.assertEqual(self.seen(), before)

    def test_nobody_reads_them_in_a_checkout(self):
        subprocess.run(["git", "init", "--quiet"], cwd=self.root, check=True)
        self.check()

    def test_nor_in_a_copy_without_git(self):
        self.check()

    def test_nor_in_a_copy_that_another_checkout_ignores(self):
        (self.root.parent / ".gitignore").write_text("/checkout/\n")
        subprocess.run(["git", "init", "--quiet"], cwd=self.root.parent, check=True)
        self.check()


class FailingTexts(unittest.TestCase):
    """A cell that fails marks its page, and costs no other."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)
        self.file = self.root / "chapters/01_toy/01_toy.md"
        self.file.parent.mkdir(parents=True)
        self.file.write_text(
            "# Toy\n\n```python\n1\n```\n\nText.\n\n```python\nassert False\n```\n\n## End\n\nText.\n"
        )
        (self.root / "build/notebooks").mkdir(parents=True)
        quiet = mock.patch("builtins.print")
        quiet.start()
        self.addCleanup(quiet.stop)

    def execute(self, *, writes: bool, code: int = 1):
        """The text as executed by a runner that ends with this code."""

        def run(command, **_):
            if writes:
                notebook = read_chapter(self.file)
                cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
                error = {"ename": "AssertionError", "evalue": "no", "traceback": ["no"]}
                cells[1].outputs = [new_output("error", **error)]
                nbformat.write(notebook, self.root / "build/notebooks/01_toy.ipynb")
            return mock.Mock(returncode=code, stdout="01_toy.md:8: no", stderr="")

        with mock.patch("executed.subprocess.run", side_effect=run):
            return executed.executed_notebook(self.root, self.file, executed.Outputs.FRESH)

    def test_the_failure_is_shown_where_it_is(self):
        found = self.execute(writes=True)
        self.assertEqual((found.failure, found.failed_cell), ("01_toy.md:8: no", 2))
        stored = executed.executed_notebook(self.root, self.file, executed.Outputs.STORED)
        self.assertEqual((stored.failure, stored.failed_cell), ("AssertionError: no", 2))

    def test_a_runner_that_writes_nothing_leaves_the_text(self):
        (self.root / "build/notebooks/01_toy.ipynb").write_text("of another day")
        found = self.execute(writes=False, code=-9)
        self.assertEqual(found.failed_cell, 0)
        self.assertEqual(found.notebook.cells[0].source, "# Toy")

    def test_all_pages_are_written(self):
        site = builder.Site(ROOT, self.root / "site")
        site.book.chapters = site.book.chapters[:2]
        for chapter in site.book.chapters:
            chapter.rooms = []
        failing = site.book.chapters[0].file

        def one(_root, file, _outputs):
            notebook = read_chapter(file)
            if file != failing:
                return executed.Executed(notebook)
            cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
            cell.outputs = [new_output("error", ename="E", evalue="no", traceback=["no"])]
            return executed.Executed(notebook, "no")

        with mock.patch("builder.executed_notebook", side_effect=one):
            counts, failures = builder._write_chapters(site, executed.Outputs.FRESH)
        self.assertEqual(len(counts), 2)
        self.assertEqual(failures, [f"{failing.relative_to(ROOT)} fails:\nno"])
        bad, good = (
            (self.root / "site" / page.href).read_text(encoding="utf-8")
            for page in site.book.chapters
        )
        self.assertIn('<p class="failed"><a href="#cell-1">A cell of this text</a> failed', bad)
        self.assertIn('id="cell-1"', bad)
        self.assertNotIn('class="failed"', good)


class Claims(unittest.TestCase):
    def test_assertions_of_every_language(self):
        python = new_code_cell("x = 1\nassert x == 124_439_808\nassert abs(x - 1.5) < 1e-3, 'said'")
        self.assertEqual(
            [one.line for one in claims.assertions_of(python, "c")],
            ["assert x == 124_439_808", "assert abs(x - 1.5) < 1e-3, 'said'"],
        )
        cpp = new_code_cell(
            "%%c++ --ranks 2\nint a = 3;\nEXPECT_EQ(a, 3);\n  EXPECT_LT(a, 4) << a;"
        )
        self.assertEqual(len(claims.assertions_of(cpp, "c")), 2)
        self.assertEqual(
            len(claims.assertions_of(new_code_cell("%%c++ --fails hidden\nthrow 1;"), "c")), 1
        )
        self.assertEqual(claims.assertions_of(new_code_cell("%matplotlib inline"), "c"), [])

    def test_a_number_links_to_its_assertion_however_it_is_written(self):
        cell = new_code_cell("assert count == 124439808 and ratio == 1.73")
        linker = claims.ClaimLinker(claims.assertions_of(cell, "cell-3"))
        html = linker.link("<p>It has 124,439,808 weights, 1.73 times 16, <code>1.73</code>.</p>")
        self.assertEqual(html.count('class="claim"'), 2)
        self.assertIn('href="#cell-3"', html)
        self.assertIn("<code>1.73</code>", html)

    def test_numbers_that_are_everywhere_link_nowhere(self):
        linker = claims.ClaimLinker(
            claims.assertions_of(new_code_cell("assert (a, b, c) == (16, 1024, 300)"), "c")
        )
        self.assertEqual(linker.link("16 and 1,024"), "16 and 1,024")
        self.assertIn("claim", linker.link("300"))

    def test_a_section_says_which_cells_check_it(self):
        found = claims.assertions_of(new_code_cell("assert a < 2\nassert b"), "cell-7")
        line = claims.checked_by(found)
        self.assertIn("2 claims", line)
        self.assertIn('href="#cell-7"', line)
        self.assertIn("assert a &lt; 2", line)
        self.assertEqual(claims.checked_by([]), "")


class Pages(unittest.TestCase):
    def faults(self, **pages: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            for name, body in pages.items():
                (Path(folder) / f"{name}.html").write_text(PAGE.format(body))
            return "\n".join(check_site(Path(folder).resolve()))

    def test_a_whole_site_has_no_faults(self):
        self.assertEqual(
            self.faults(
                a='<h2 id="x">X</h2><a href="b.html#y">b</a>',
                b='<p id="y"><a href="a.html#x">a</a></p>',
            ),
            "",
        )

    def test_dead_links_and_anchors_are_found(self):
        self.assertIn("a dead link: c.html", self.faults(a='<a href="c.html">c</a>'))
        self.assertIn("anchor that is not there: #z", self.faults(a='<a href="#z">z</a>'))
        self.assertIn(
            "anchor that is not there: b.html#z", self.faults(a='<a href="b.html#z">z</a>', b="")
        )
        self.assertIn("a dead link: ../b.html", self.faults(a='<a href="../b.html">b</a>'))

    def test_a_figures_state_is_no_part_of_its_anchor(self):
        self.assertEqual(self.faults(a='<div id="f"></div><a href="#f?n=3">f</a>'), "")

    def test_pictures_need_words_and_files(self):
        self.assertIn("no alt text", self.faults(a='<img src="data:x">'))
        self.assertIn("a picture is not there: p.svg", self.faults(a='<img src="p.svg" alt="p">'))

    def test_nothing_comes_from_the_network_and_pages_are_small(self):
        self.assertIn(
            "from the network", self.faults(a='<script src="https://example.org/x.js"></script>')
        )
        self.assertIn("more than 1.5 MB", self.faults(a="x" * 1_500_001))

    def test_an_empty_site_is_a_fault(self):
        self.assertIn("has no pages", self.faults())


class Sources(unittest.TestCase):
    def test_solutions_are_behind_a_click_and_lines_have_anchors(self):
        pages = SourcePages(ROOT)
        solution = next((ROOT / "solutions").rglob("*.cpp"))
        href = pages.href(solution, "L3-L9")
        self.assertTrue(href.startswith("source/solutions--") and href.endswith("#line-3"), href)
        body = pages.body(str(solution.relative_to(ROOT)))
        self.assertIn('<details class="spoiler">', body)
        self.assertIn('name="line-3"', body)

    def test_what_is_not_of_the_checkout_has_no_page(self):
        pages = SourcePages(ROOT)
        self.assertIsNone(pages.href(Path("/etc/passwd")))
        self.assertIsNone(pages.href(ROOT / "build" / "x"))
        self.assertEqual(pages.wanted, {})


class MadeOfChapters(unittest.TestCase):
    def test_what_a_chapter_folds_is_known(self):
        text = "a\n<details>\n$$x$$\n</details>\n$$y$$\n"
        self.assertTrue(appendices.is_folded(text, text.index("$$x")))
        self.assertFalse(appendices.is_folded(text, text.index("$$y")))

    def test_sections_hold_words_and_no_code(self):
        found = sections_of(
            '<h2 id="a"><a href="#a">A &amp; b</a></h2><p>Some <b>words</b>.</p><pre>code</pre><h3'
            ' id="c">C</h3>'
        )
        self.assertEqual(
            [(one.anchor, one.title, one.text) for one in found],
            [("a", "A & b", "Some words ."), ("c", "C", "")],
        )
        self.assertEqual(plain("<p>x<sub>1</sub></p>"), "x 1")

    def test_the_index_is_a_script(self):
        index = SearchIndex()
        index.add("p.html", "a", "Page", "Title", "text " * 1000)
        self.assertTrue(
            index.script().startswith(
                'window.workbookSearch = [["p.html","a","Page","Title","text '
            )
        )
        self.assertLess(len(index.script()), 1700)


class Pictures(unittest.TestCase):
    def test_places_are_shorter_and_scales_are_not(self):
        svg = (
            '<svg>\n <metadata>{"a": 1}</metadata>\n <path d="M 1.23456 2.001 L 3 4"'
            ' transform="scale(0.015625)" />\n <text>a  b</text>\n</svg>'
        )
        self.assertEqual(
            smaller_svg(svg),
            '<svg><path d="M 1.23 2 L 3 4" transform="scale(0.015625)" /><text>a  b</text></svg>',
        )

    def test_points_on_a_straight_way_are_left_out_and_turns_are_not(self):
        path = '<path d="M 0 0 L 1 0 L 1 0 L 2 0 L 5 0 L 5 3 L 5 4 L 5 1 L 6 1 z" />'
        self.assertEqual(smaller_svg(path), '<path d="M 0 0 L 1 0 L 5 0 L 5 4 L 5 1 L 6 1 z" />')


class Timeline(unittest.TestCase):
    def test_thinning_keeps_the_peak_and_the_order(self):
        chance = random.Random(seed := random.randrange(10**6))
        events = [{"ts": float(i), "args": {"a": chance.randrange(10**6)}} for i in range(20000)]
        kept = timeline.thinned(events)
        self.assertLessEqual(len(kept), timeline.MOST + 2, f"seed {seed}")
        self.assertEqual([one["ts"] for one in kept], sorted(one["ts"] for one in kept))
        self.assertEqual(
            max(one["args"]["a"] for one in kept), max(one["args"]["a"] for one in events)
        )


class Freshness(unittest.TestCase):
    def test_outputs_are_of_their_chapters_code_and_of_none_behind_it(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            text = root / "chapters" / "02_b" / "02_b.md"
            files = [text, root / "chapters/01_a/a.hpp", root / "chapters/02_b/b.cpp"]
            files += [root / "solutions/03_c/c.cpp", root / "common/x.cpp"]
            for file in files:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("1")
            before = digest_of_code(root, text)
            for file in files:
                file.write_text("2")
                is_later = "03_c" in str(file)
                self.assertEqual(digest_of_code(root, text) == before, is_later, file)
                file.write_text("1")
            self.assertEqual(digest_of_code(root, text), before)


class Modules(unittest.TestCase):
    def test_every_pattern_has_its_sources(self):
        for module in wasm.MODULES:
            sources = wasm.sources_of(module)
            self.assertEqual(len(sources), len(set(sources)))
            self.assertEqual(sum(source.endswith("_figure.cpp") for source in sources), 1, module)

    def test_sources_that_do_not_compile_are_an_error_and_no_skip(self):
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(wasm, "find_compiler", return_value="false"),
            self.assertRaisesRegex(wasm.DoesNotCompile, "cannot compile.*--no-figures"),
        ):
            wasm.build_modules(Path(folder))

    def test_every_figure_has_its_script_and_its_section(self):
        for figure in figures.FIGURES:
            chapter = ROOT / "chapters" / figure.chapter / f"{figure.chapter}.md"
            if figure.module not in wasm.MODULES or not chapter.is_file():
                continue  # its place is kept
            self.assertIn(
                f"window.workbookFigures.{figure.name} =",
                (ROOT / "docs/site/figures" / f"{figure.script}.js").read_text(),
            )
            self.assertTrue((ROOT / figure.fallback).is_file(), figure.fallback)



class Stepper(unittest.TestCase):
    """The code beside a deed."""

    STORY = {"place": {"tp": 0}, "parts": [{"kind": "row_linear", "pass": "forward"}]}

    def test_every_rules_line_is_there_once(self):
        codes = stepper.Codes(ROOT)
        for rule in stepper.CODE:
            excerpt = codes.excerpt(rule)
            self.assertIn(rule.line, excerpt["text"][excerpt["line"] - excerpt["first"]])

    def test_a_deed_finds_its_line(self):
        codes = stepper.Codes(ROOT)
        sends = {"exchange": "reduce-scatter", "group": "tp", "label": "output", "phase": "forward, block 0", "part": 0}
        works = {"works": ["matmul 8 x 4 x 8"], "phase": "forward, block 0", "part": 0}
        found = [codes.excerpts[codes.of(deed, self.STORY)]["file"] for deed in (sends, works, sends)]
        self.assertEqual([Path(file).name for file in found], ["sequence_region.cpp", "row_parallel.cpp", "sequence_region.cpp"])
        self.assertEqual(len(codes.excerpts), 2)

    def test_what_travels_without_a_rule_is_an_error_and_work_is_not(self):
        codes = stepper.Codes(ROOT)
        with self.assertRaisesRegex(LookupError, "no rule says which code does"):
            codes.of({"exchange": "gather", "group": "tp", "label": "new", "phase": "x"}, self.STORY)
        self.assertIsNone(codes.of({"works": ["new"], "phase": "x"}, self.STORY))

    def test_a_line_that_is_not_there_once_is_an_error(self):
        with self.assertRaisesRegex(LookupError, "0 times, not once"):
            stepper.Codes(ROOT).excerpt(stepper.Rule("README.md", "no such line"))


class Slides(unittest.TestCase):
    """What of a page becomes its slides."""

    ROWS = "<table><tr><th>a</th></tr>" + "<tr><td>1</td></tr>" * 3 + "</table>"
    CODE = '<div class="cell">{}<div class="highlight"><pre>{}</pre></div></div>'

    def slides(self, *sections):
        html = "<h1>Toy</h1>" + "".join(f'<h2 id="s{i}">S{i}</h2>{body}' for i, body in enumerate(sections))
        return slides_of(Article("Toy", html, []), "01_toy")

    def test_a_sentence_and_what_there_is_to_see(self):
        picture = '<p><div class="picture-frame"><img class="picture" alt="A ring." src="r.svg"></div></p>'
        first, second = self.slides(f"<p>Four ranks send. They wait.</p>{picture}{self.ROWS}")
        self.assertEqual(first.sentences, ["Four ranks send."])
        self.assertIn("<figcaption>A ring.</figcaption>", first.shown)
        self.assertEqual((second.title, second.sentences), ("S0", []))
        self.assertEqual(second.shown, self.ROWS)

    def test_asserted_numbers_lead_to_their_cell(self):
        claim = '<a class="claim" href="#cell-4">419</a>'
        (slide,) = self.slides(f"<p>It stops. It stopped {claim} times in 54 days. Sad. (As written.)</p>{self.ROWS}")
        self.assertEqual(slide.sentences, [
            "It stops.", 'It stopped <a class="claim" href="01_toy.html#cell-4">419</a> times in 54 days.'])

    def test_with_nothing_to_see_more_is_said_or_short_code_shown(self):
        said, coded, folded = self.slides(
            "<p>One. Two <i>halves. Not</i> torn. Three. Four.</p>",
            "<p>One. Two.</p>" + self.CODE.format("", "a\nb\nc"),
            "<p>One. Two.</p>" + self.CODE.format("<details></details>", "a\nb\nc") + self.CODE.format("", "x\n" * 40))
        self.assertEqual(said.sentences, ["One.", "Two <i>halves. Not</i> torn.", "Three."])
        self.assertEqual(coded.sentences, ["One."])
        self.assertIn("a\nb\nc", coded.shown)
        self.assertEqual(folded.shown, "")

    def test_large_tables_and_exercises_stay_on_the_page(self):
        html = '<h2 id="exercises">E</h2><p>Write it.</p><h2 id="t">T</h2><p>Long.</p>'
        html += f"<table>{'<tr><td>1</td></tr>' * 30}</table><table><tr><td>{'word ' * 200}</td></tr></table>"
        (slide,) = slides_of(Article("Toy", html, []), "01_toy")
        self.assertEqual((slide.title, slide.shown), ("T", ""))


if __name__ == "__main__":
    unittest.main()
