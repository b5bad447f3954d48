"""What Python cells may use: workbook_run and region."""

import os
import unittest
from unittest import mock

from toy_project import toy_project

from ultra_notebook.failures import NotebookError, TrainingFailed
from ultra_notebook.quote import region
from ultra_notebook.training import workbook_run
from ultra_notebook.workspace import (
    WorkspaceError,
    find_notebook,
    find_notebooks,
    open_workspace,
)


class HelpersTest(unittest.TestCase):
    """Calls the helpers as a cell of chapter 01_toy would."""

    def setUp(self):
        project = toy_project()
        workspace = open_workspace(project.write_chapter("# Toy\n"), project.build_dir)
        environment = mock.patch.dict(os.environ, workspace.environment())
        environment.start()
        self.addCleanup(environment.stop)

    def test_training_run(self):
        run = workbook_run("01", "--steps 2", trace=True)
        self.assertEqual(list(run.steps.loss), [5.5, 4.5])
        self.assertEqual(list(run.steps.columns), ["step", "loss"])
        self.assertEqual(run.summary["parameters"], 7)
        self.assertEqual(run.trace, {"traceEvents": []})
        self.assertEqual(run.output, "done\n")
        self.assertIn("01_toy --steps 2: 2 steps", repr(run))

    def test_failed_training_says_why(self):
        with self.assertRaisesRegex(TrainingFailed, "exit code 2\nerror: broken"):
            workbook_run("01_toy", ["--break"])

    def test_unknown_chapter(self):
        with self.assertRaisesRegex(WorkspaceError, "no chapter 77; there are: 01_toy"):
            workbook_run("77")

    def test_notebooks_are_found(self):
        project = toy_project()
        room = project.write_chapter("# Room\n", "01_toy/room")
        self.addCleanup(room.unlink)
        own = project.root / "chapters/01_toy/01_toy.md"
        self.assertEqual(find_notebooks(project.root)[:2], [own, room])
        for wanted, file in (("1", own), ("01_toy", own), ("01/room", room), (str(room), room)):
            self.assertEqual(find_notebook(project.root, wanted), file)
        self.assertEqual(open_workspace(room).name, "01_toy.room")
        self.assertEqual(open_workspace(room).chapter, "01_toy")
        self.assertEqual(open_workspace(room).root, project.root.resolve())
        with self.assertRaisesRegex(WorkspaceError, "01_toy has no notebook hall; there are: room"):
            find_notebook(project.root, "01/hall")

    def test_region(self):
        quoted = region("common/toy/toy.cpp", "answer")
        self.assertEqual(quoted.code, "/// The answer.\nint answer() { return 42; }")
        shown = quoted._repr_markdown_()
        self.assertIn("[`common/toy/toy.cpp:4-5`](../../common/toy/toy.cpp)", shown)
        self.assertIn("```cpp\n/// The answer.", shown)

    def test_missing_region(self):
        for path, name in (("common/toy/toy.cpp", "nothing"), ("common/nothing.cpp", "answer")):
            with self.subTest(path), self.assertRaises(NotebookError):
                region(path, name)


if __name__ == "__main__":
    unittest.main()
