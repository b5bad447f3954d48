"""Charts of pipelines: which bars stand where."""

import unittest

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb

from ultra_notebook.gantt import KINDS, draw_schedule, schedule_legend, shade, split_name


def chart_of(*actions, stages=2):
    names = ("stage", "action", "begin", "end")
    return {"stages": stages, "actions": [dict(zip(names, action)) for action in actions]}


class GanttTest(unittest.TestCase):
    def setUp(self):
        self.figure, self.axes = plt.subplots()
        self.addCleanup(plt.close, self.figure)

    def bars(self):
        """Left edge, width, middle and height of each bar but the hatched ones."""
        found = [bar for bar in self.axes.patches if not bar.get_hatch()]
        return [
            (bar.get_x(), bar.get_width(), bar.get_y() + bar.get_height() / 2, bar.get_height())
            for bar in found
        ]

    def test_names_of_actions(self):
        self.assertEqual(split_name("F0"), ("F", 0, 0))
        self.assertEqual(split_name("BW12.1"), ("BW", 12, 1))
        self.assertEqual(split_name("W3"), ("W", 3, 0))

    def test_later_chunks_are_paler(self):
        self.assertEqual(shade("#000000", 0), (0, 0, 0))
        self.assertLess(shade("#000000", 1)[0], shade("#000000", 2)[0])

    def test_a_row_for_each_stage(self):
        draw_schedule(self.axes, chart_of((0, "F0", 0, 1), (1, "F0", 1, 2), (1, "BW0", 2, 4)))
        self.assertEqual(len([bar for bar in self.axes.patches if bar.get_hatch()]), 2)
        places = [bar[:3] for bar in self.bars()]
        self.assertEqual(places, [(0, 1, 0), (1, 1, 1), (2, 2, 1)])
        colors = [bar.get_facecolor()[:3] for bar in self.axes.patches if not bar.get_hatch()]
        self.assertEqual(colors[2], to_rgb(KINDS["BW"][1]))
        self.assertEqual(self.axes.get_xlim(), (0, 4))
        self.assertEqual([text.get_text() for text in self.axes.texts], ["0", "0", "0"])

    def test_another_unit_and_a_later_end(self):
        draw_schedule(self.axes, chart_of((0, "F0", 0, 0.5), stages=1), end=2, scale=1e3)
        self.assertEqual(self.bars()[0][:2], (0, 500))
        self.assertEqual(self.axes.get_xlim(), (0, 2000))

    def test_what_overlaps_shares_the_row(self):
        draw_schedule(self.axes, chart_of((0, "F1", 0, 3), (0, "BW0.1", 0, 3), stages=1))
        above, below = self.bars()
        self.assertLess(above[2], below[2], "the forward pass is above")
        self.assertAlmostEqual(above[3] + below[3], 0.84)

    def test_narrow_actions_have_no_number(self):
        draw_schedule(self.axes, chart_of((0, "F7", 0, 0.1), (0, "BW7", 0.1, 100), stages=1))
        self.assertEqual(len(self.axes.texts), 1)

    def test_the_legend_names_kinds_and_chunks(self):
        def words(legend):
            return [text.get_text() for text in legend.get_texts()]

        self.assertEqual(words(schedule_legend(self.figure)), ["forward", "backward, whole", "idle"])
        legend = schedule_legend(self.figure, "F U", chunks=2)
        expected = ["forward, chunk 0", "forward, chunk 1", "update", "idle"]
        self.assertEqual(words(legend), expected)


if __name__ == "__main__":
    unittest.main()
