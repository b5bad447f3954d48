"""The runner: chapters executed from a clean kernel, as `./workbook test` does."""

import json
import re
import shutil
import subprocess
import unittest
import xml.etree.ElementTree as xml

from toy_project import line_of, toy_project

GOOD = """# A good chapter

```c++
emit({{"x", answer()}});
out << "hello from C++";
EXPECT_EQ(answer(), 42);
```

```python
assert list(rows.x) == [42]
run = workbook_run("01")
assert run.summary["parameters"] == 7
```

```bash
test -f CMakeLists.txt
```

```python
import matplotlib.pyplot as plt

plt.figure()
plt.plot([1, 2], color=COLORS["gradients"])
plt.show()
```
"""

BAD_CPP = """# A bad chapter

```python
assert True
```

```c++
EXPECT_EQ(answer(), 41);
```

```python
never = "executed"
```
"""

BAD_PYTHON = """# Another bad chapter

```python
def check(x):
    assert x == 2, "x is " + str(x)


check(1)
```
"""


class RunnerTest(unittest.TestCase):
    """Runs run.py on chapters of the toy project."""

    def setUp(self):
        self.project = toy_project()

    def run_chapter(self, text, name="01_toy"):
        self.file = self.project.write_chapter(text, name)
        done = self.project.run_chapters(self.file)[0]
        report = xml.parse(self.project.output / f"{name.replace('/', '.')}.xml").getroot()
        return done, report

    def test_good_chapters_at_the_same_time(self):
        files = [self.project.write_chapter(GOOD, name) for name in ("01_toy", "01_toy/room")]
        self.addCleanup(files[1].unlink)
        for name, done in zip(("01_toy", "01_toy.room"), self.project.run_chapters(*files)):
            with self.subTest(name):
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn(f"{name}: 4 of 4 cells passed", done.stdout)
                self.check_written_files(name)

    def test_each_notebook_is_a_test_of_the_build(self):
        file = self.project.write_chapter(GOOD, "01_toy/room")
        self.addCleanup(file.unlink)
        self.project.build()  # configures again when a notebook was added
        listed = subprocess.run(["ctest", "--test-dir", str(self.project.build_dir), "-N"],
                                capture_output=True, text=True, check=True).stdout
        for name in ("01_toy", "01_toy.room", "02_toy"):
            self.assertRegex(listed, rf"notebook\.{re.escape(name)}\n")

    def test_a_key_picture_that_is_stale_fails(self):
        text = """# Pictures

![A line that rises.](figures/line.svg)

```python
import matplotlib.pyplot as plt

plt.plot([1, 2, HEIGHT])
picture("line")
assert True
```
"""
        another = """
![The line once more.](figures/more.svg)

```python
plt.plot([1, 2, 3])
picture("more")
```
"""
        file = self.project.write_chapter(text.replace("HEIGHT", "3"))
        self.addCleanup(shutil.rmtree, file.parent / "figures", ignore_errors=True)
        written = self.project.run_chapters(file, options=["--write-pictures"])[0]
        self.assertEqual(written.returncode, 0, written.stdout)
        self.assertIn("figures/line.svg", written.stdout)
        file = self.project.write_chapter(text.replace("HEIGHT", "4") + another)
        done = self.project.run_chapters(file)[0]
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, "01_toy.md:1: figures/(line.svg shows other data|more.svg is not there)")
        for fault in ("line.svg shows other data than the run", "figures/more.svg is not there"):
            self.assertIn(fault, done.stdout)
        page = (self.project.output / "01_toy.html").read_text(encoding="utf-8")
        self.assertEqual(page.count('alt="A line that rises."'), 1)

    def check_written_files(self, name):
        output = self.project.output
        report = xml.parse(output / f"{name}.xml").getroot()
        self.assertEqual((report.get("tests"), report.get("failures")), ("5", "0"))
        case = report.findall("testcase")[1]
        self.assertEqual(case.get("name"), 'cell 1, line 16, c++: emit({{"x", answer()}});')
        self.assertGreater(float(case.get("time")), 0)
        page = (output / f"{name}.html").read_text(encoding="utf-8")
        self.assertIn("hello from C++", page)
        self.assertIn("data:image/svg+xml", page)
        notebook = json.loads((output / f"{name}.ipynb").read_text(encoding="utf-8"))
        self.assertEqual(notebook["cells"][1]["outputs"][0]["text"], ["hello from C++\n"])

    def test_failed_expectation(self):
        done, report = self.run_chapter(BAD_CPP, "01_toy/room")
        self.addCleanup(self.file.unlink)
        place = f"room.md:{line_of(self.file, 'EXPECT_EQ')}: Expected equality"
        self.assertEqual(done.returncode, 1)
        self.assertIn("01_toy.room: 1 of 3 cells passed", done.stdout)
        self.assertIn(place, done.stdout)
        self.assertEqual((report.get("failures"), report.get("skipped")), ("1", "1"))
        failure = report.findall("testcase")[2].find("failure")
        self.assertTrue(failure.get("message").startswith(place), failure.get("message"))
        self.assertIsNotNone(report.findall("testcase")[3].find("skipped"))

    def test_failed_python_names_the_call(self):
        done, _ = self.run_chapter(BAD_PYTHON)
        self.assertEqual(done.returncode, 1)
        line = line_of(self.file, "assert x == 2")
        self.assertIn(f"01_toy.md:{line}: AssertionError: x is 1", done.stdout)

    def test_chapter_without_cells_fails(self):
        done, report = self.run_chapter("# Only prose\n\n```cpp\nint x;\n```\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no cells: nothing was executed", done.stdout)
        self.assertEqual((report.get("tests"), report.get("failures")), ("1", "1"))

    def test_chapter_without_assertions_fails(self):
        done, _ = self.run_chapter("# No claims\n\n```python\nprint(1)\n```\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no cell asserts anything", done.stdout)

    def test_unreadable_formula_fails(self):
        done, _ = self.run_chapter("# Formula\n\n$\\frac$\n\n```python\nassert True\n```\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot read the formula $\\frac$", done.stdout)


if __name__ == "__main__":
    unittest.main()
