"""All cells of the notebook for a notebook service, in an empty folder: the first chapter's page is there in the end."""

import pathlib
import tempfile
import unittest

from first_run_test import ROOT, code_cells, run_cells


class FirstRunNotebookSlow(unittest.TestCase):
    def test_ends_with_the_first_chapters_page(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_cells(code_cells(f"file://{ROOT}"), folder)
            self.assertEqual(done.returncode, 0, done.stdout[-6000:])
            page = pathlib.Path(folder, "workbook/build/notebooks/01_memory.html")
            self.assertIn("Every byte", page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
