"""Key pictures: their data, their files, and how they are drawn on light and dark paper."""

import json
import os
import unittest
from unittest import mock

import matplotlib
from toy_project import toy_project

from ultra_notebook.failures import NotebookError
from ultra_notebook.pictures.picture import KeyPicture, picture, picture_faults, stored_data, write_pictures
from ultra_notebook.pictures.picture_data import data_of, difference
from ultra_notebook.pictures.picture_svg import on_dark_paper, svg_of, with_both_papers
from ultra_notebook.workspace import open_workspace

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of how it draws)


def figure_with(values, title="Losses", colour="#E69F00"):
    """A figure of a line and bars."""
    figure, (left, right) = plt.subplots(1, 2)
    left.plot(values)
    left.set_title(title)
    right.bar(["one", "two"], values[:2], color=colour)
    return figure


def file_of(figure, measured=False):
    """The text of a key picture's file."""
    return svg_of(figure, "A <line>", json.dumps(data_of(figure, measured)))


class DataTest(unittest.TestCase):
    def tearDown(self):
        plt.close("all")

    def differs(self, one, other, measured=False):
        return difference(stored_data(file_of(one, measured)), data_of(other, measured))

    def test_the_same_figure_has_the_same_data(self):
        self.assertEqual(self.differs(figure_with([1, 2, 3]), figure_with([1, 2, 3.000001])), "")

    def test_other_numbers_words_and_colours_are_told(self):
        good = figure_with([1, 2, 3])
        self.assertIn("shows other data", self.differs(good, figure_with([1, 2, 3.1])))
        self.assertIn("shows other data", self.differs(good, figure_with([1, 2, 3, 3])))
        self.assertIn("'Gains'", self.differs(good, figure_with([1, 2, 3], title="Gains")))
        self.assertIn("#0072b2", self.differs(good, figure_with([1, 2, 3], colour="#0072B2")))

    def test_measured_figures_may_differ_in_their_numbers_only(self):
        good = figure_with([1, 2, 3], "took 12.5 ms")
        self.assertEqual(self.differs(good, figure_with([7, 8], "took 9 ms"), measured=True), "")
        self.assertNotEqual(self.differs(good, figure_with([7, 8], "took 9 days"), measured=True), "")
        figure = figure_with([1, 2, 3], "took 12.5 ms")
        figure.axes[0].fill_between([1, 2], [1, 2])
        self.assertNotEqual(self.differs(good, figure, measured=True), "")

    def test_files_without_data_are_told(self):
        self.assertEqual(difference(stored_data("<svg/>"), {}), "holds no data")


class PaperTest(unittest.TestCase):
    def test_black_and_white_change_places(self):
        self.assertEqual(on_dark_paper("#ffffff"), "#161616")
        self.assertEqual(on_dark_paper("#000000"), "#e2e2e2")

    def test_greys_turn_over_and_colours_stay(self):
        svg = ('<svg xmlns="http://www.w3.org/2000/svg"><path style="fill: #ffffff; stroke: #0072b2"/>'
               '<g id="text_1"><g style="fill: #ffffff"/><g style="fill: #333333"/></g>'
               '<g id="on-colour"><g style="fill: #333333"/></g></svg>')
        turned = with_both_papers(svg, "Alt & more")
        self.assertIn("<title>Alt &amp; more</title>", turned)
        self.assertIn('style="stroke: #0072b2" class="fffffff"', turned)
        self.assertIn("@media (prefers-color-scheme:dark)", turned)
        self.assertIn('<g style="fill: #ffffff" />', turned)
        self.assertIn('<g class="f333333" />', turned)
        self.assertIn('<g id="on-colour" style="fill: #000000; "><g style="fill: #333333" />', turned)


class FilesTest(unittest.TestCase):
    """The folder beside a chapter's text."""

    LINE = "![A line.](figures/line.svg)\n"

    def setUp(self):
        self.chapter = toy_project().write_chapter(f"# Toy\n\n{self.LINE}")
        self.addCleanup(plt.close, "all")
        self.addCleanup(self.remove)

    def remove(self):
        for file in (self.chapter.parent / "figures").glob("*"):
            file.unlink()

    def shown(self, values, key="line"):
        return KeyPicture(key, file_of(figure_with(values)))

    def test_written_files_are_right_and_stale_ones_are_told(self):
        shown = self.shown([1, 2, 3])
        self.assertEqual(picture_faults(self.chapter, [shown]), ["figures/line.svg is not there"])
        self.assertEqual(write_pictures(self.chapter, [shown]), ["line.svg"])
        self.assertEqual(picture_faults(self.chapter, [shown]), [])
        self.assertEqual(write_pictures(self.chapter, [self.shown([1, 2, 3])]), [])
        self.assertIn("line.svg shows other data", picture_faults(self.chapter, [self.shown([4, 5, 6])])[0])
        self.assertEqual(picture_faults(self.chapter, []), ["figures/line.svg is shown by no cell"])
        self.assertIn("two cells show", picture_faults(self.chapter, [shown, shown])[0])

    def test_a_picture_needs_words(self):
        workspace = open_workspace(self.chapter, toy_project().build_dir)
        with mock.patch.dict(os.environ, workspace.environment()):
            figure_with([1, 2])
            with self.assertRaisesRegex(NotebookError, "needs alt="):
                picture()
            with self.assertRaisesRegex(NotebookError, r"no line !\[what is to be seen\]\(figures/other"):
                picture("other")
            with mock.patch("IPython.display.display") as display:
                picture("line")
            settings = display.call_args.kwargs["metadata"]["image/svg+xml"]["ultra_picture"]
            self.assertEqual(settings, {"alt": "A line.", "key": "line"})
            self.assertEqual(plt.get_fignums(), [])


if __name__ == "__main__":
    unittest.main()
