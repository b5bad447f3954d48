"""The pictures of docs/: as their script draws them, with the alt texts of the pages that show them."""

import importlib.util
import unittest
from pathlib import Path

import matplotlib.pyplot as plt
import toy_project  # noqa: F401  (puts the tools on the path)

from ultra_notebook.pictures.picture import stored_data
from ultra_notebook.pictures.picture_data import data_of, difference

ROOT = Path(__file__).resolve().parents[3]


class FiguresTest(unittest.TestCase):
    def test_the_machines_are_drawn_as_their_script_says(self):
        spec = importlib.util.spec_from_file_location("machines", ROOT / "docs/figures/machines.py")
        machines = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(machines)
        machines.set_style()
        self.addCleanup(plt.close, "all")
        page = (ROOT / "docs/machines.md").read_text(encoding="utf-8")
        for name, draw in machines.PICTURES.items():
            with self.subTest(name):
                stored = stored_data((ROOT / f"docs/figures/{name}.svg").read_text(encoding="utf-8"))
                self.assertEqual(difference(stored, data_of(draw(), measured=False)), "")
                self.assertIn(f"![{machines.ALT[name]}](figures/{name}.svg)", page)


if __name__ == "__main__":
    unittest.main()
