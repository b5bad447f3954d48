"""The learner's whole path through ./workbook, on a toy chapter."""

import json
import shutil
import unittest

from toy_workbook import ToyTest


class LearnersPath(ToyTest):
    # --- check -----------------------------------------------------------------------------------

    def test_untouched_exercises_are_not_written(self):
        self.workbook("check", "01", code=3, says=[
            "exercises/01_toy/add.cpp\n      not written yet", "about 1 lines, easy",
            "exercises/01_toy/twice.cpp\n      not written yet",
            "0 passed, 0 failed, 2 not written yet"])

    def test_wrong_answer_fails_with_its_hint_and_path(self):
        self.toy.write_exercise("add", "int add(int a, int /*b*/) { return a; }")
        self.workbook("check", "01.1", code=1, says=[
            "exercises/01_toy/add.cpp", "FAILED: 2 of 2 tests",
            "tests/exercises/01_toy/add_test.cpp:", "did you forget one of the two?"])
        self.workbook("status", says="written, but: failed")

    def test_a_cause_is_told_once(self):
        self.toy.write("tests/exercises/01_toy/add_test.cpp", '#include <gtest/gtest.h>\n'
                       '#include "chapters/01_toy/toy.hpp"\n'
                       'namespace ultra::toy { namespace {\n'
                       'TEST(Add, One) { EXPECT_EQ(add(1, 2), 3) << "Hint: 1 number is missing."; }\n'
                       'TEST(Add, Two) { EXPECT_EQ(add(2, 2), 4) << "Hint: 2 number is missing."; }\n'
                       'TEST(Add, Three) { EXPECT_EQ(add(2, 3), 5) << "Hint: look at 5."; }\n}}\n')
        self.toy.write_exercise("add", "int add(int a, int /*b*/) { return a; }")
        output = self.workbook("check", "01.1", code=1, says=[
            "FAILED: 3 of 3 tests", "1 number is missing", "look at 5",
            "add_test.cpp:5: Failure: for the same reason as above"])
        self.assertNotIn("2 number is missing", output)

    def test_only_failed_cases_are_shown(self):
        self.toy.write_exercise("add", "int add(int a, int b) { return a < 0 ? 0 : a + b; }")
        output = self.workbook("check", "01.1", code=1, says=["FAILED: 1 of 2 tests",
                                                              "Add.TakesNegativeNumbers"])
        self.assertNotIn("Add.SumsSmallNumbers", output)

    def test_file_that_does_not_compile(self):
        self.toy.write_exercise("add", "int add(int a, int b) { return a + }")
        output = self.workbook("check", "01.1", code=1, says=[
            "DOES NOT COMPILE", "exercises/01_toy/add.cpp:3:", "error: expected"])
        self.assertNotIn("ninja", output)
        self.assertNotIn("-fopenmp-simd", output)

    def test_an_unused_variable_is_no_failure(self):
        self.toy.write_exercise("add", "int add(int a, int b) { int unused = 1; return a + b; }")
        self.workbook("check", "01.1", says="passed (2 tests")

    def test_missing_function_never_falls_back_to_the_solution(self):
        self.toy.write_exercise("add", "int sum(int a, int b) { return a + b; }")
        self.workbook("check", "01.1", code=1, says=["DOES NOT LINK", "add(int, int)"])

    def test_unfinished_exercise_does_not_block_another(self):
        self.toy.write_exercise("add", "this is not C++")
        self.toy.solve("twice")
        self.workbook("check", "01", code=1, says=[
            "DOES NOT COMPILE", "passed (1 test", "1 passed, 1 failed, 0 not written yet"])

    def test_endless_loop_times_out_by_name(self):
        self.toy.write_exercise(
            "add", "int add(int a, int b) { for (volatile int i = 0;; i = i + a + b) {} }")
        manifest = "exercises/01_toy/exercises.json"
        self.toy.write(manifest,
                       self.toy.read(manifest).replace('"timeout_s": 60', '"timeout_s": 1'))
        self.workbook("check", "01.1", code=1, says="TIMED OUT in Add.SumsSmallNumbers, after 1 s")

    def test_crash_is_reported_by_name(self):
        self.toy.write_exercise("add", "int add(int, int) { __builtin_trap(); }")
        self.workbook("check", "01.1", code=1, says="CRASHED in Add.SumsSmallNumbers: ")

    def test_program_that_ends_early_has_not_passed(self):
        self.toy.write_exercise(
            "add", "}\n#include <cstdlib>\nnamespace ultra::toy {\n"
            "int add(int, int) { std::exit(0); }")
        self.workbook("check", "01.1", code=1, says="CRASHED in Add.SumsSmallNumbers: the program "
                      "ended itself before its tests did")

    def test_half_written_exercise_is_not_written(self):
        self.toy.write("exercises/01_toy/add.cpp",
                       self.toy.read("exercises/01_toy/add.cpp") + "// Begun.\n")
        self.workbook("check", "01.1", code=3, says="not written yet: it still throws NotWritten")

    def test_a_check_without_tests_fails(self):
        self.toy.solve("add")
        self.toy.write("tests/exercises/01_toy/add_test.cpp", "// No test at all.\n")
        self.workbook("check", "01.1", code=1, says="FAILED: no test was run")

    def test_skipped_is_not_passed(self):
        self.toy.solve("add")
        self.toy.write("tests/exercises/01_toy/add_test.cpp", "#include <gtest/gtest.h>\n"
                       'TEST(Add, Gpu) { GTEST_SKIP() << "no GPU here"; }\n')
        self.workbook("check", "01.1", code=4, says=["SKIPPED, which is not passed: no GPU here",
                                                     "0 passed"])

    def test_solved_exercise_is_neither_rebuilt_nor_rerun(self):
        self.toy.solve("add")
        self.toy.solve("twice")
        self.workbook("check", says="2 passed, 0 failed, 0 not written yet: all passed")
        program = self.toy.root / "build/release/tests/check.01_toy.add.exercise"
        built = program.stat().st_mtime_ns
        self.workbook("check", says="passed earlier, unchanged; --again to rerun")
        self.assertEqual(program.stat().st_mtime_ns, built)
        self.workbook("check", "01.1", "--again", says="passed (2 tests")

    def test_a_change_in_what_it_was_built_from_counts(self):
        self.toy.solve("add")
        self.workbook("check", "01.1", says="passed (2 tests")
        for path in ("exercises/01_toy/add.cpp", "tests/exercises/01_toy/add_test.cpp",
                     "chapters/01_toy/toy.hpp", "common/base/errors.hpp"):
            with self.subTest(path):
                before = self.toy.read(path)
                self.toy.write(path, before + "// Changed.\n")
                self.workbook("status", says="changed since its last check: passed then")
                self.toy.write(path, before)
                self.workbook("status", says="1 of 2 exercises passed")
        self.toy.write("exercises/01_toy/add.cpp",
                       self.toy.read("exercises/01_toy/add.cpp") + "// Changed.\n")
        self.workbook("check", "01.1", says="passed (2 tests")

    # --- The other commands ----------------------------------------------------------------------

    def test_mine_runs_the_learners_code(self):
        self.toy.solve("twice")
        self.toy.write_exercise("add", "int add(int a, int b) { return 10 * (a + b); }")
        self.workbook("run", "01", says="loss 3, twice that 6")
        self.workbook("run", "01", "--mine", says="loss 30, twice that 60")

    def test_hints_come_one_by_one(self):
        output = self.workbook("hint", "01.1", says="Hint 1 of 2: A first hint.")
        self.assertNotIn("second", output)
        self.workbook("hint", "01.1", says=["Hint 2 of 2: A second hint.", "no more hints"])
        self.workbook("hint", "01.1", says="Hint 2 of 2")
        self.workbook("hint", "01.1", "--all", says=["A first hint.", "A second hint."])
        self.workbook("hint", "01.2", says="has no hints")

    def test_status_tells_all_states(self):
        self.workbook("status", says=["01.1  add", "not written yet", "0 of 2 exercises passed"])
        self.toy.solve("add")
        self.workbook("status", says="written, not checked yet (./workbook check 01.1)")
        self.workbook("check", "01.1")
        self.workbook("status", says="1 of 2 exercises passed")

    def test_diff_narrow_and_wide(self):
        self.toy.write_exercise("add", "int add(int a, int b) { return b + a; }")
        self.workbook("diff", "01.1", says=["-int add(int a, int b) { return b + a; }",
                                            "+int add(int a, int b) { return a + b; }"])
        self.workbook("diff", "01.1", environment={"COLUMNS": "170"},
                      says=["yours", "| int add(int a, int b) { return a + b; }"])
        self.toy.solve("add")
        self.workbook("diff", "01", says=["identical", "exercises/01_toy/twice.cpp"])

    def test_reset_restores_the_shipped_form_and_keeps_mine(self):
        shipped = self.toy.read("exercises/01_toy/add.cpp")
        self.toy.write_exercise("add", "// My work.")
        self.toy.commit()
        output = self.workbook("reset", "01.1", says="is as shipped again")
        self.assertEqual(self.toy.read("exercises/01_toy/add.cpp"), shipped)
        kept = output.split("Your version is kept: ")[1].splitlines()[0]
        self.assertIn("// My work.", self.toy.read(kept))
        self.workbook("reset", "01.1", says="as shipped already")
        self.toy.commit()

    def test_deleted_exercise(self):
        (self.toy.root / "exercises/01_toy/add.cpp").unlink()
        self.workbook("check", "01.1", code=1, says="./workbook reset 01.1 brings it back")
        self.workbook("reset", "01.1", says="is as shipped again")

    def test_a_folder_in_an_exercises_place(self):
        path = self.toy.root / "exercises/01_toy/add.cpp"
        path.unlink()
        path.mkdir()
        self.addCleanup(path.rmdir)
        for command, code in (("reset", 2), ("diff", 0), ("status", 0), ("check", 1)):
            arguments = [] if command == "status" else ["01.1"]
            self.workbook(command, *arguments, code=code,
                          says="add.cpp is a folder: move it away, then ./workbook reset 01.1")

    # --- The record ------------------------------------------------------------------------------

    def test_what_cannot_be_remembered_is_answered_all_the_same(self):
        state = self.toy.root / ".workbook"
        for make in (lambda: state.write_text("a file"), lambda: state.symlink_to("nowhere")):
            make()
            self.addCleanup(state.unlink, missing_ok=True)
            for arguments, says in ((("hint", "01.1"), "Hint 1 of 2: A first hint."),
                                    (("status",), "0 of 2 exercises passed")):
                output = self.workbook(*arguments, says=says)
                self.assertNotIn("Traceback", output)
            self.workbook("hint", "01.1", says="progress.json cannot be written (File exists): this is "
                          "not remembered")
            state.unlink()

    def test_a_damaged_record_is_named_and_kept(self):
        record = self.toy.root / ".workbook/progress.json"
        for damage in ("[" * 100_000, "[]", "{", '{"exercises": 3}', '{"exercises": {"01.1": 5}}',
                       '{"hints": {"01.1": "two"}}', "\xff"):
            with self.subTest(damage[:30]):
                record.parent.mkdir(exist_ok=True)
                record.write_bytes(damage.encode("latin-1"))
                said = "progress.json is damaged: what you had done is not known"
                output = self.workbook("status", says=[said, "0 of 2 exercises passed"])
                self.assertNotIn("Traceback", output)
                self.assertEqual(record.read_bytes(), damage.encode("latin-1"))
                self.workbook("hint", "01.1", says=[said, "Hint 1 of 2"])
                kept = record.with_name("progress.damaged.json")
                self.assertEqual(kept.read_bytes(), damage.encode("latin-1"))
                self.assertNotIn("damaged", self.workbook("status"))

    def test_what_git_ignores_is_no_source(self):
        self.toy.solve("add")
        self.workbook("check", "01.1")
        for ignored in ("chapters/01_toy/.ipynb_checkpoints/toy.hpp", "common/base/__pycache__/x.cpp"):
            path = self.toy.root / ignored
            path.parent.mkdir()
            self.addCleanup(shutil.rmtree, path.parent)
            path.write_bytes(b"\xff\xfe")
        self.workbook("status", says="1 of 2 exercises passed")

    def test_wrong_names_are_one_clear_line(self):
        for arguments, message in [
                (("check", "07"), "there is no chapter '07'; the chapters are: 01_toy"),
                (("check", "01.9"), "chapter 01_toy has: 01.1, 01.2"),
                (("hint", "01"), "'01' names no exercise"),
                (("diff",), "required: NN[.k]"),
                (("check", "--frob"), "unrecognized arguments: --frob")]:
            with self.subTest(arguments):
                output = self.workbook(*arguments, code=2, says=message)
                self.assertEqual(output.count("\n"), 1, output)

    def test_broken_manifest_names_its_line(self):
        self.toy.write("exercises/01_toy/exercises.json", '{\n"exercises": [\n}')
        self.workbook("check", code=2, says="exercises/01_toy/exercises.json:3: no valid JSON")

    def test_damaged_progress_is_no_obstacle(self):
        self.toy.solve("add")
        self.workbook("check", "01.1")
        for text in ("{", "[]", json.dumps({"exercises": 3})):
            self.toy.write(".workbook/progress.json", text)
            self.workbook("check", "01.1", says="passed (2 tests")


if __name__ == "__main__":
    unittest.main(verbosity=2)
