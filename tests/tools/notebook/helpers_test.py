"""What Python cells may use: workbook_run and region."""

import os
import unittest
from unittest import mock

from toy_project import toy_project

from ultra_notebook.exercises import problems
from ultra_notebook.failures import NotebookError, TrainingFailed
from ultra_notebook.predict import predict
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
        environment = mock.patch.dict(os.environ, {**workspace.environment(), "ULTRA_NOTEBOOK_EXECUTED": "1"})
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

    def write_solution(self):
        project = toy_project()
        project.write("exercises/01_toy/exercises.json", '{"exercises": [{"file": "a.cpp", "number": 2}]}')
        for name in ("a", "b"):
            project.write(f"solutions/01_toy/{name}.cpp", "// [region all]\nint secret;\n// [/region]\n")

    def test_a_solution_is_folded_on_a_page(self):
        self.write_solution()
        quoted = region("solutions/01_toy/a.cpp", "all")
        self.assertRegex(quoted._repr_markdown_(), r"^<details>\n<summary>The reference of exercise 01\.2")
        self.assertIn("```cpp\nint secret;", quoted._repr_markdown_())
        self.assertNotIn("secret", repr(quoted))

    def test_a_solution_is_shown_to_a_learner_once_the_exercise_passes(self):
        self.write_solution()
        del os.environ["ULTRA_NOTEBOOK_EXECUTED"]
        quoted = region("solutions/01_toy/a.cpp", "all")
        for passed in (False, True):
            with mock.patch("ultra_notebook.quote.has_passed", return_value=passed) as asked:
                shown = quoted._repr_markdown_()
            asked.assert_called_once_with("01.2")
            self.assertEqual("secret" in shown, passed)
            self.assertEqual("`./workbook check 01.2`" in shown, not passed)

    def test_a_solution_without_exercise_is_an_error(self):
        self.write_solution()
        with self.assertRaisesRegex(NotebookError, "b.cpp is no exercise's solution"):
            region("solutions/01_toy/b.cpp", "all")

    def test_a_prediction_is_asked_in_jupyter_only(self):
        with mock.patch("builtins.input") as asked, mock.patch("ultra_notebook.predict.display") as shown:
            predict("How many?", unit="MB").check(3.0)
        asked.assert_not_called()
        texts = [call.args[0].data for call in shown.call_args_list]
        self.assertEqual(texts[0], "**Predict, before you run on:** How many? (in MB)")
        self.assertRegex(texts[1], r"(?s)<details>.*The run says 3 MB\.")

    def test_a_prediction_is_judged(self):
        del os.environ["ULTRA_NOTEBOOK_EXECUTED"]
        for typed, reply in (("3 MB", "Right, within 5 %."), ("3.1", "Right"), ("6", "Exactly 2 times"),
                             ("", "**The run says 3 MB.**")):
            with self.subTest(typed), mock.patch("builtins.input", return_value=typed), \
                    mock.patch("ultra_notebook.predict.display") as shown:
                predict("How many?", unit="MB").check(3.0)
                self.assertIn(reply, shown.call_args.args[0].data)
        with mock.patch("builtins.input", side_effect=EOFError), \
                mock.patch("ultra_notebook.predict.display"):
            self.assertIsNone(predict("How many?").mine)
            with self.assertRaisesRegex(NotebookError, "'many' is no number"):
                predict("How many?", mine="many")
            with self.assertRaisesRegex(NotebookError, "the run gave no number"):
                predict("How many?", mine=1).check(float("nan"))

    def test_problems_of_a_chapter_without_any(self):
        with self.assertRaisesRegex(NotebookError, "write exercises/01_toy/problems.md"):
            problems()

    def test_problems_are_shown_with_their_workings_folded(self):
        with mock.patch("ultra_notebook.exercises.problem_files.as_markdown", return_value="**01.p1**"):
            self.assertEqual(problems()._repr_markdown_(), "**01.p1**")


if __name__ == "__main__":
    unittest.main()
