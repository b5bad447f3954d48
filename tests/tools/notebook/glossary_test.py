"""The glossary: its file, and the links from first uses."""

import re
import unittest
from pathlib import Path
from unittest import mock

import toy_project  # noqa: F401  (puts the tools on the path)
from nbformat.v4 import new_markdown_cell, new_notebook

from ultra_notebook.pages.glossary import parse_glossary, read_glossary
from ultra_notebook.pages.page import chapter_page, glossary_page
from ultra_notebook.workspace import find_notebooks

ROOT = Path(__file__).resolve().parents[3]
TEXT = """# Glossary

### all-reduce

<!-- also: all_reduce -->
The sum, for "all".

### low-rank

<!-- also: low rank -->
Narrow.

### rank

<!-- also: ranks -->
A process.

### ZeRO

States in shards.

## Symbols

| symbol | meaning | chapters |
|---|---|---|
| <a id="symbol-P"></a>$P$ | ranks | 2 |
"""


def body(text, glossary):
    notebook = new_notebook(cells=[new_markdown_cell(text)])
    with mock.patch("ultra_notebook.pages.page.math_font_css", return_value=""):  # takes longer than the rest
        page = chapter_page(notebook, ROOT / "chapters" / "01_toy", ROOT / "build" / "notebooks", glossary)
    return re.search(r"<main>(.*)</main>", page, re.DOTALL)[1]


class LinkTest(unittest.TestCase):
    def links(self, text):
        return re.findall(r'<a class="term" href="glossary.html#([\w-]+)" title="[^"]*">(.*?)</a>',
                          body(text, parse_glossary(TEXT)), re.DOTALL)

    def test_the_first_use_is_linked_and_no_other(self):
        self.assertEqual(self.links("Ranks and a rank; an all-reduce."), [("rank", "Ranks"),
                                                                          ("all-reduce", "all-reduce")])
        self.assertEqual(self.links("of low\nrank"), [("low-rank", "low\nrank")])

    def test_definitions_are_shown_by_hovering(self):
        self.assertIn('title="The sum, for &quot;all&quot;."', body("all_reduce", parse_glossary(TEXT)))

    def test_headings_code_and_links_are_left_alone(self):
        text = "## The rank\n\n`rank` and [a rank](x.md), `all-reduce`.\n\n```cpp\nint rank;\n```\n\nAnd ranks."
        self.assertEqual(self.links(text), [("rank", "ranks")])

    def test_names_with_capitals_are_other_words_without(self):
        self.assertEqual(self.links("Zero, and Rank by ZeRO."), [("rank", "Rank"), ("zero", "ZeRO")])

    def test_parts_of_words_are_no_uses(self):
        self.assertEqual(self.links("Franks, rank-major, high-rank, all-reduced."), [])

    def test_symbols_are_linked_where_they_stand_alone(self):
        (anchor, shown), = self.links("With $P-1$ steps of $P$ and $P$.")
        self.assertEqual(anchor, "symbol-P")
        self.assertIn("<mi>P</mi>", shown)


class OurGlossaryTest(unittest.TestCase):
    """docs/glossary.md and the chapters."""

    def setUp(self):
        self.glossary = read_glossary(ROOT)

    def test_it_is_a_page_whose_anchors_are_those_of_the_links(self):
        page = glossary_page(ROOT, ROOT / "build" / "notebooks")
        entries = [*self.glossary.words.values(), *self.glossary.symbols.values()]
        self.assertGreater(len(entries), 100)
        for entry in entries:
            self.assertIn(f'id="{entry.anchor}"', page)

    def test_every_term_of_a_chapter_links_at_its_first_use(self):
        for file in find_notebooks(ROOT):
            with self.subTest(file.name):
                prose = re.sub(r"(?s)```.*?```", "", file.read_text(encoding="utf-8"))
                html = body(prose, self.glossary)
                self.check_first_uses(html)

    def check_first_uses(self, html):
        """No word is linked twice, and none that running text uses is left out."""
        links = list(re.finditer(r'<a class="term" href="glossary.html#([\w-]+)"[^>]*>', html))
        anchors = [link[1] for link in links]
        self.assertEqual(len(anchors), len(set(anchors)))
        self.assertGreater(len(anchors), 5)
        text = re.sub(r"(?s)<(a|code|pre|math|h[1-4]|th|summary)\b.*?</\1>", " ", html)
        text = re.sub("<[^>]*>", "|", text)
        small = text.lower()
        for form, entry in self.glossary.words.items():
            where = small if form == form.lower() else text
            if entry.anchor not in anchors and form in where:
                found = re.search(rf"(?<![\w-]){re.escape(form)}(?![\w]|-\w)", where)
                longer = any(form in other and other != form for other in self.glossary.words)
                self.assertTrue(longer or not found, f"'{form}' is used and not linked")


if __name__ == "__main__":
    unittest.main()
