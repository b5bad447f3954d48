"""The Markdown of a chapter and its notebook are the same thing."""

import tempfile
import unittest
from pathlib import Path

from toy_project import HEADER  # also puts the tools on the path

from ultra_notebook.chapter_file import code_cell_lines, read_chapter, write_chapter

TEXT = HEADER + """# Title

Prose, with code that is no cell:

```cpp
int x;
```

```c++ magic_args="--ranks 4 --fails \\"a .* b\\""
int y = 1;

int z = y;
```

```bash
ls
```

```python
print(1)
```

```c++
int y = 1;
```

```python
print(1)
```
"""

CELLS = ['%%c++ --ranks 4 --fails "a .* b"\nint y = 1;\n\nint z = y;', "%%bash\nls", "print(1)",
         "%%c++\nint y = 1;", "print(1)"]


class ChapterFileTest(unittest.TestCase):
    """Reads and writes one chapter."""

    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "01_toy.md"
            file.write_text(text, encoding="utf-8")
            notebook = read_chapter(file)
            return notebook, code_cell_lines(file, notebook)

    def test_round_trip(self):
        notebook, _ = self.read(TEXT)
        self.assertEqual(write_chapter(notebook), TEXT)

    def test_cells(self):
        notebook, _ = self.read(TEXT)
        code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        self.assertEqual(code, CELLS)
        self.assertEqual(notebook.metadata.kernelspec.name, "ultra")

    def test_lines(self):
        _, lines = self.read(TEXT)
        text = TEXT.split("\n")
        firsts = [text[line - 1] for line in lines.values()]
        self.assertEqual(firsts, ["int y = 1;", "ls", "print(1)", "int y = 1;", "print(1)"])
        self.assertEqual(sorted(lines.values()), list(lines.values()))
        self.assertEqual(len(set(lines.values())), len(CELLS))

    def test_without_a_header_python_stays_python(self):
        notebook, lines = self.read(TEXT.removeprefix(HEADER))
        code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        self.assertEqual(code, CELLS)
        self.assertEqual(min(lines.values()), 10)


if __name__ == "__main__":
    unittest.main()
