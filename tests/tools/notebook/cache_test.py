"""Binaries are used again when nothing they were built from has changed, and only then."""

import unittest

from toy_project import toy_project

from ultra_notebook.cells.cell_source import CellText, program_source
from ultra_notebook.cells.compiler import compiler_of
from ultra_notebook.cells.freshness import OldBuild, require_fresh_build
from ultra_notebook.workspace import open_workspace

HEADER, LIBRARY = "common/toy/toy.hpp", "common/toy/toy.cpp"


class CacheTest(unittest.TestCase):
    """Builds one program again and again; a test finds it built."""

    def setUp(self):
        self.project = toy_project()
        self.original = {path: (self.project.root / path).read_text() for path in (HEADER, LIBRARY)}
        self.build()
        self.assertTrue(self.build().from_cache)

    def tearDown(self):
        for path, text in self.original.items():
            self.project.write(path, text)
        self.project.build()

    def build(self, comment="", release=False):
        """Builds the program."""
        chapter = self.project.root / "chapters" / "01_toy" / "01_toy.md"
        compiler = compiler_of(open_workspace(chapter, self.project.build_dir))
        body = f"EXPECT_EQ(answer(), 42); // {comment}"
        return compiler.build(program_source(CellText(body, "x.md", 1), 1, []), release=release)

    def test_other_source_or_flags(self):
        self.assertFalse(self.build("other").from_cache)
        self.assertFalse(self.build(release=True).from_cache)
        self.assertTrue(self.build().from_cache)

    def test_changed_header(self):
        self.project.write(HEADER, self.original[HEADER].replace("return 5", "return 6"))
        self.assertFalse(self.build().from_cache)
        self.project.write(HEADER, self.original[HEADER])
        self.assertFalse(self.build().from_cache)
        self.assertTrue(self.build().from_cache)

    def test_changed_library(self):
        self.project.write(LIBRARY, self.original[LIBRARY].replace("42", "43"))
        self.project.build()
        self.assertFalse(self.build().from_cache)

    def test_damaged_binary(self):
        with open(self.build().path, "ab") as binary:
            binary.write(b"x")
        self.assertFalse(self.build().from_cache)

    def test_old_build_is_refused(self):
        require_fresh_build(self.project.build_dir, "notebook.01_toy")
        for path in (LIBRARY, HEADER):
            with self.subTest(path):
                self.project.write(path, self.original[path] + "\n")
                with self.assertRaisesRegex(OldBuild, "has changed since it was built"):
                    require_fresh_build(self.project.build_dir, "notebook.01_toy")
                self.project.build()
                require_fresh_build(self.project.build_dir, "notebook.01_toy")

    def test_missing_library_is_refused(self):
        (self.project.build_dir / "libultra_common.a").unlink()
        with self.assertRaisesRegex(OldBuild, "libultra_common.a is not built"):
            require_fresh_build(self.project.build_dir, "notebook.01_toy")


if __name__ == "__main__":
    unittest.main()
