"""The notebook of three cells for a notebook service: its first cell clones, and says what it lacks; the others call
commands that there are. first_run_slow.py runs all three.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import nbformat

ROOT = pathlib.Path(__file__).resolve().parents[3]
NOTEBOOK = ROOT / "docs/first_run.ipynb"


def code_cells(repository):
    """The code of its cells, with an address written in as a learner would."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs for cell in cells)
    return [cell.source.replace('REPOSITORY = ""', f'REPOSITORY = "{repository}"') for cell in cells]


def run_cells(cells, folder):
    """Runs cells one after the other as a notebook service would: what they print, and how it ends."""
    script = "\n".join(["from IPython.core.interactiveshell import InteractiveShell",
                        "shell = InteractiveShell.instance()", "from IPython.display import HTML",
                        *(f"shell.run_cell({cell!r}).raise_error()" for cell in cells)])
    return subprocess.run([sys.executable, "-c", script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)


class FirstRunNotebook(unittest.TestCase):
    def test_has_three_cells_that_call_commands_that_there_are(self):
        cells = code_cells("")
        self.assertEqual(len(cells), 3)
        self.assertIn("!./workbook run\n", cells[1] + "\n")
        self.assertIn("!./workbook notebook 01 --page\n", cells[2])
        told = subprocess.run([ROOT / "workbook", "help"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(told, r"notebook NN.*\n +--page")
        self.assertIn("build/notebooks/NN_name.html", told)
        self.assertTrue((ROOT / "chapters/01_memory/01_memory.md").exists())

    def test_clones_what_it_is_told(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as origin:
            git = ["git", "-C", origin, "-c", "user.name=learner", "-c", "user.email=learner@example.org"]
            pathlib.Path(origin, "workbook").write_text("#!/bin/sh\n", encoding="utf-8")
            for words in (["init", "--quiet"], ["add", "workbook"], ["commit", "--quiet", "--message", "first"]):
                subprocess.run([*git, *words], check=True)
            done = run_cells([code_cells(f"file://{origin}")[0], "!ls"], folder)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertTrue(pathlib.Path(folder, "workbook/workbook").exists())
            self.assertTrue(done.stdout.rstrip().endswith("workbook"), done.stdout)

    def test_says_that_an_address_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_cells(code_cells("")[:1], folder)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("Write the address that you would clone the workbook from", done.stdout)
            self.assertFalse(pathlib.Path(folder, "workbook").exists())


if __name__ == "__main__":
    unittest.main()
