"""The page of a chapter: formulas, links, headings, outputs."""

import re
import unittest
from pathlib import Path

import toy_project  # noqa: F401  (puts the tools on the path)
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from ultra_notebook.pages.page import PageError, chapter_page, neighbours_of
from ultra_notebook.workspace import find_notebooks, notebook_name

ROOT = Path("/checkout")


def page(*cells):
    """The page of a notebook in chapters/01_toy, in build/notebooks."""
    notebook = new_notebook(cells=list(cells))
    return chapter_page(notebook, ROOT / "chapters" / "01_toy", ROOT / "build" / "notebooks")


def body(*cells):
    """The page's main part."""
    return re.search(r"<main>(.*)</main>", page(*cells), re.DOTALL)[1]


class PageTest(unittest.TestCase):
    """Pages of notebooks of one or two cells."""

    def test_formulas_are_mathml(self):
        html = page(new_markdown_cell("So $x_i^2$ and\n\n$$\n\\begin{aligned}a &= b\\end{aligned}\n$$"))
        self.assertIn("<msubsup>", html)
        self.assertIn('display="block"', html)
        self.assertIn("<mtable", html)
        self.assertIn("Workbook Math", html)
        self.assertNotIn("$", re.search(r"<main>(.*)</main>", html, re.DOTALL)[1])

    def test_prices_are_not_formulas(self):
        self.assertIn("costs $5 and then $6", body(new_markdown_cell("It costs $5 and then $6.")))

    def test_flags_stay_on_one_line(self):
        html = body(new_markdown_cell("Use `./run --head-chunks 4`, not `sum-tree`."))
        flag = '<span class="flag">--head-chunks</span>'
        self.assertIn(f"<code>./run {flag} 4</code>, not <code>sum-tree</code>", html)

    def test_bad_formulas_are_errors(self):
        for formula in (r"\frac", r"\nosuchcommand x"):
            with self.subTest(formula), self.assertRaises(PageError):
                page(new_markdown_cell(f"${formula}$"))

    def test_nothing_is_fetched(self):
        html = page(new_markdown_cell("# Title\n\n[out](https://example.org) and $x$"))
        fetched = re.findall(r"(?:src|href)=\"(?!#|https://example.org|data:)[^\"]*|@import|<script", html)
        self.assertEqual(fetched, [])

    def test_links_are_kept_alive(self):
        text = ("[a](../../solutions/01_toy/a.cpp) [b](../02_more/02_more.md#costs) [c](#here) "
                "[d](room/room.md#first)")
        html = body(new_markdown_cell(text))
        self.assertIn('href="../../solutions/01_toy/a.cpp"', html)
        self.assertIn('href="02_more.html#costs"', html)
        self.assertIn('href="#here"', html)
        self.assertIn('href="01_toy.room.html#first"', html)

    def test_contents(self):
        html = page(new_markdown_cell("# Memory\n\n## What it costs\n\n## What it costs"))
        self.assertIn("<title>Memory · The Ultra-Scale Workbook</title>", html)
        self.assertIn('<a href="#what-it-costs">', html)
        self.assertIn('<h2 id="what-it-costs-2">', html)

    def test_cells_say_their_language(self):
        html = body(new_code_cell("%%c++ --ranks 4 --release\nint x = 0;"), new_code_cell("x = 1"))
        self.assertIn('<div class="label">C++ · 4 ranks · release</div>', html)
        self.assertIn('<div class="label">Python</div>', html)
        self.assertIn('<span class="kt">int</span>', html)
        self.assertNotIn("%%c++", html)

    def test_folded_code_is_shown_on_a_click_and_its_outputs_always(self):
        outputs = [new_output("stream", name="stdout", text="drawn")]
        cell = new_code_cell("x = 1", metadata={"tags": ["folded"]}, outputs=outputs)
        head, rest = body(cell).split("</details>")
        self.assertIn('<details><summary class="label">Python</summary>', head)
        self.assertIn("highlight", head)
        self.assertIn("drawn", rest)
        self.assertNotIn("<details>", body(new_code_cell("x = 1")))

    def test_outputs(self):
        outputs = [
            new_output("stream", name="stdout", text="1 < 2\n"),
            new_output("display_data", data={"image/svg+xml": "<svg/>", "text/plain": "figure"}),
            new_output("display_data", data={"text/markdown": "```cpp\nint y;\n```"}),
            new_output("display_data", data={"text/html": "<table></table>", "text/plain": "t"}),
        ]
        html = body(new_code_cell("x", outputs=outputs))
        self.assertIn("1 &lt; 2", html)
        self.assertIn("data:image/svg+xml;base64,", html)
        self.assertIn('<span class="kt">int</span>', html)
        self.assertIn("<table></table>", html)

    def test_a_page_links_its_neighbours(self):
        here = Path(__file__).resolve().parents[3]
        files = find_notebooks(here)
        links = {link.rel: link.href for link in neighbours_of(files[1], here)}
        self.assertEqual(links, {"prev": f"{notebook_name(files[0])}.html", "next": f"{notebook_name(files[2])}.html",
                                 "glossary": "glossary.html"})
        self.assertNotIn("prev", {link.rel for link in neighbours_of(files[0], here)})
        notebook = new_notebook(cells=[new_markdown_cell("# One")])
        html = chapter_page(notebook, files[1].parent, here, neighbours=neighbours_of(files[1], here))
        self.assertIn(f'<a href="{links["next"]}" rel="next">', html)

    def test_a_folded_quote_is_closed(self):
        text = "<details>\n<summary>Later</summary>\n\n[`a`](b)\n\n```cpp\nint y;\n```\n\n</details>"
        output = new_output("display_data", data={"text/markdown": text})
        html = body(new_code_cell("x", outputs=[output]))
        self.assertRegex(html, r'(?s)<details>\s*<summary>Later</summary>.*<span class="kt">int</span>.*</details>')

    def test_a_key_picture_is_shown_once(self):
        settings = {"image/svg+xml": {"ultra_picture": {"alt": 'A "ring"', "key": "ring"}}}
        output = new_output("display_data", data={"image/svg+xml": "<svg/>"}, metadata=settings)
        text = new_markdown_cell("Before.\n\n![A \"ring\"](figures/ring.svg)\n\nAfter.")
        html = body(text, new_code_cell("x", outputs=[output]))
        self.assertEqual(html.count("<img"), 1)
        self.assertIn('class="picture" alt="A &quot;ring&quot;" src="data:image/svg+xml', html)

    def test_other_pictures_become_part_of_the_page(self):
        text = new_markdown_cell("![A clock](docs/figures/memory_timeline.svg)")
        notebook = new_notebook(cells=[text])
        here = Path(__file__).resolve().parents[3]
        html = chapter_page(notebook, here, here / "build" / "notebooks")
        self.assertIn('<img class="picture" alt="A clock" src="data:image/svg+xml;base64,', html)


if __name__ == "__main__":
    unittest.main()
