"""./workbook itself: commands, failures, the comparison table, and the whole test run of a toy."""

import json
import os
import pathlib
import shutil
import tempfile
import unittest

from toy_workbook import SOURCE, ToyTest, ToyWorkbook, shared_toy


class FrontDoor(ToyTest):
    def test_help_names_every_command(self):
        commands = ("run", "test", "check", "hint", "diff", "status", "reset", "answer", "mend",
                    "bug", "notebook", "setup", "doctor", "bench", "docs", "format",
                    "tokenize", "site", "compare-runs", "help")
        for arguments in ((), ("help",), ("--help",)):
            self.workbook(*arguments, says=[f"\n  {command} " for command in commands])

    def test_unknown_command_is_one_line(self):
        output = self.workbook("frobnicate", code=2, says="unknown command 'frobnicate'")
        self.assertEqual(output.count("\n"), 1)

    def test_unknown_chapter_preset_and_benchmark(self):
        self.workbook("run", "07", code=2, says="no chapter '07'; the chapters are: 01_toy")
        self.workbook("run", "01/hall", code=2, says="chapter 01_toy/hall has no executable")
        self.workbook("test", "--preset", "fast", code=2, says="use release, dev or tsan")
        self.workbook("test", "--preset", code=2, says="--preset needs a name")
        self.workbook("bench", "speed", code=2, says="no benchmark's name contains 'speed'")
        self.workbook("notebook", code=2, says="which chapter?")
        self.workbook("notebook", "07", code=2, says="no chapter '07'")
        self.workbook("notebook", "01/hall", code=2, says="01_toy has no notebook 'hall'")

    def test_ci_starts_from_an_environment_of_its_own(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            shutil.copytree(SOURCE / ".ci", folder / ".ci")
            (folder / "workbook").write_text("#!/bin/sh\necho $*\nenv\n")
            (folder / "workbook").chmod(0o755)
            settings = {"PIP_CERT": "a file", "OPENBLAS_CORETYPE": "Haswell", "PYTHONPATH": "/x", "CI": "no"}
            code, output = self.toy.run("bash", ".ci/run", cwd=folder, environment=settings)
        self.assertEqual(code, 0, output)
        for text in ("test\n", "test --preset dev --core\n", "PIP_CERT=a file\n", "CI=true\n", "HOME=", "PATH="):
            self.assertIn(text, output)
        names = {line.partition("=")[0] for line in output.splitlines() if "=" in line}
        own = {"PWD", "OLDPWD", "SHLVL", "_"}  # what a shell sets by itself
        self.assertEqual({name for name in names - own if not name.startswith("PIP_")}, {"HOME", "PATH", "CI"})

    def test_tokenize_looks_at_its_arguments_first(self):
        self.workbook("tokenize", code=2, says="arguments are required: tokenizer, texts, out")
        self.workbook("tokenize", "--help", says="a tokenizer.json, or a folder that has one")
        self.assertFalse((self.toy.root / "build/tokenizers").exists())

    def test_run_trains_and_compares(self):
        self.workbook("run", says=[
            "loss 3, twice that 6", "01_toy: every technique against plain training (--steps 2)",
            "bitwise ✓", "1.0e-07  <= 1e-5 ✓", "peak MB", "sent MB", " 1.5 "])

    def test_run_trains_with_the_newest_chapter_that_trains(self):
        # A later chapter whose program does not train has nothing to compare.
        folder = self.toy.root / "chapters/02_tables"
        self.addCleanup(shutil.rmtree, folder)
        folder.mkdir()
        self.toy.write("chapters/02_tables/main.cpp", "int main() { return 9; }\n")
        self.workbook("run", says=["loss 3, twice that 6", "01_toy: every technique"])

    def test_a_folder_of_a_chapter_may_have_a_program_of_its_own(self):
        folder = self.toy.root / "chapters/01_toy/hall"
        self.addCleanup(shutil.rmtree, folder)
        folder.mkdir()
        self.toy.write("chapters/01_toy/hall/main.cpp", "int main() { return 9; }\n")
        self.workbook("run", "01/hall", code=9)
        self.workbook("run", "01", says="loss 3")
        comparison = json.loads(self.toy.read("chapters/01_toy/compare.json"))
        comparison["rows"][0]["program"] = "01_hall"
        self.toy.write("chapters/01_toy/compare.json", json.dumps(comparison))
        self.workbook("run", code=1, says="✗ exit code 9")

    def test_a_broken_promise_fails_the_run(self):
        comparison = self.toy.read("chapters/01_toy/compare.json").replace("1e-5", "bitwise")
        self.toy.write("chapters/01_toy/compare.json", comparison)
        self.workbook("run", code=1, says=["bitwise ✗ BROKEN", "Broken promises: nearly"])

    def test_a_failing_program_is_named(self):
        self.toy.write("chapters/01_toy/compare.json", json.dumps({
            "baseline": {"label": "plain", "flags": ""},
            "rows": [{"label": "x", "flags": "--metrics /nowhere/x", "promise": "bitwise"}]}))
        self.workbook("run", code=1, says="✗ exit code")

    def test_run_starts_where_the_user_stands(self):
        folder = self.toy.root / "docs"
        self.toy.run("../workbook", "run", "1", "--metrics", "here.jsonl", cwd=folder)
        self.assertTrue((folder / "here.jsonl").is_file())
        (folder / "here.jsonl").unlink()

    def test_run_with_mpi_asks_for_one_rank_of_a_program_without_ranks(self):
        # mpirun is not needed for one rank.
        self.with_fake_packages("run", "1", "--mpi", says="loss 3")

    def test_run_with_mpi_starts_as_many_ranks_as_it_is_told(self):
        self.write_tool("mpirun", 'echo "mpirun $*"\n')
        output = self.with_fake_packages("run", "1", "--mpi", "3", "--metrics", "7")
        self.assertRegex(output, r"mpirun -n 3 .*/bin/01_toy --metrics 7\n")
        self.with_fake_packages("run", "1", "--mpi", "0", code=2, says="at least 1 rank")

    def write_tool(self, name, script):
        tools = self.toy.root / "build" / "fake_tools"
        tools.mkdir(parents=True, exist_ok=True)
        (tools / name).write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
        (tools / name).chmod(0o755)
        return tools

    def with_fake_packages(self, *arguments, **options):
        """Runs ./workbook on a machine on which every package is installed."""
        tools = self.write_tool("dpkg-query", "shift 3\nfor p; do echo $p installed; done\n")
        return self.workbook(*arguments, environment={"PATH": f"{tools}:{os.environ['PATH']}"},
                             **options)

    def pretend_to_have_a_venv(self):
        """The toy's tests need no Python environment; making one downloads packages."""
        self.toy.run("bash", "-c", "source tools/front/setup.sh && mkdir -p build/venv/bin && "
                     "cp /bin/true build/venv/bin/python3 && venv_stamp >build/venv/stamp")

    def test_failed_step_tells_which_where_and_what_to_do(self):
        self.toy.write("solutions/01_toy/add.cpp", "int x = ;\n")
        self.workbook("run", "01", code=1, says=[
            "FAILED: Building (release)", "build/logs/build-01_toy.log",
            "solutions/01_toy/add.cpp:1", "What to do: "])
        self.assertTrue((self.toy.root / "build/logs/build-01_toy.log").is_file())

    def test_status_tells_how_the_last_test_run_went(self):
        self.pretend_to_have_a_venv()
        self.with_fake_packages("test", "--label-regex", "exercise|stub_guard|mistakes")
        self.workbook("status", says=["  tests: 6 of 6 passed\n", "Tests: as of 20"])
        # Whoever asks ctest for something else changes nothing.
        self.toy.run("ctest", "--test-dir", "build/release", "--show-only")
        self.workbook("status", says="  tests: 6 of 6 passed\n")
        self.toy.solve("add")
        self.with_fake_packages("test", "--label-regex", "exercise|stub_guard|mistakes")
        self.workbook("status", says="  tests: 5 of 6 passed, 1 skipped\n")
        self.with_fake_packages("test", "--tests-regex", "^layout$")
        self.workbook("status", says="  tests: none in the last run")

    def test_moved_checkout_configures_anew(self):
        self.workbook("run", "01")
        moved = pathlib.Path(f"{self.toy.root}_moved")
        self.toy.root.rename(moved)
        try:
            code, output = self.toy.run(str(moved / "workbook"), "run", "01", cwd=moved)
        finally:
            moved.rename(self.toy.root)
        self.assertEqual(code, 0, output)
        self.assertIn("loss 3", output)


class Switches(ToyTest):
    """A build has what has been asked for, and keeps it."""

    @classmethod
    def setUpClass(cls):
        cls.toy = ToyWorkbook()  # of which nothing is built

    def on(self):
        cache = self.toy.read("build/release/CMakeCache.txt")
        return {name for name in ("DEVICES", "LADDERS", "TESTS", "MISTAKES")
                if f"ULTRA_{name}:BOOL=ON" in cache}

    def test_each_command_turns_on_what_it_needs(self):
        self.toy.solve("add")
        for arguments, expected in (
                (("run",), set()),
                (("run", "01", "--device", "cpu"), set()),
                (("run", "01", "--device", "emulated"), {"DEVICES"}),
                (("run", "01"), {"DEVICES"}),
                (("check", "01.1"), {"DEVICES", "LADDERS", "TESTS"})):
            with self.subTest(arguments):
                self.toy.workbook(*arguments)
                self.assertEqual(self.on(), expected)

    def test_a_build_in_the_background_ends_with_the_training_that_fails(self):
        self.toy.write("chapters/01_toy/main.cpp", "int main() { return 9; }\n")
        output = self.workbook("run", code=9)
        self.assertNotIn("every technique", output)


class Progress(unittest.TestCase):
    """How far a build is, from its log."""

    def said(self, log):
        toy = shared_toy()
        (toy.root / "build").mkdir(exist_ok=True)
        toy.write("build/log", log)
        script = "source tools/front/terminal.sh; step_progress build/log 30"
        return toy.run("bash", "-c", script)[1].strip()

    def test_counts_and_the_time_that_is_left(self):
        self.assertEqual(self.said("[1/2] x\n[30/120] Building CXX object a.o\n"),
                         "30 of 120 done, about 90 s left")
        self.assertEqual(self.said("Unpacking g++\n"), "Unpacking g++")
        self.assertEqual(self.said(""), "")


class TestsOfAChapter(ToyTest):
    """What ctest says of solutions, stubs and mistakes; apart from format and docs."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.toy.workbook("run", "01")
        cls.toy.run("cmake", "build/release", "-DULTRA_MISTAKES=ON")

    def ctest(self, label, environment=None):
        """Builds what the label's tests need and runs them; (exit code, output)."""
        _, untouched = self.toy.python("tools/exercises", "untouched-targets",
                                       environment=environment)
        code, output = self.toy.run("cmake", "--build", "build/release", "--target", "all",
                                    "mistakes", *untouched.split(), environment=environment)
        self.assertEqual(code, 0, output)
        return self.toy.run("ctest", "--test-dir", "build/release", "--verbose", "--label-regex",
                            label, environment=environment)

    def configure_with_patience(self, patience):
        return self.toy.run("cmake", "-S", ".", "-B", "build/release",
                            f"-DULTRA_TEST_PATIENCE={patience}")

    def test_patience_multiplies_the_limit_of_every_test(self):
        self.addCleanup(self.configure_with_patience, 5)
        code, output = self.configure_with_patience(3)
        self.assertEqual(code, 0, output)
        self.ctest("exercise")  # builds all, so that no test is missing
        _, output = self.toy.run("ctest", "--test-dir", "build/release", "--show-only=json-v1")
        tests = json.loads(output[output.index("{"):])["tests"]
        limits = {}
        for test in tests:
            properties = {entry["name"]: entry["value"] for entry in test["properties"]}
            limits[test["name"]] = properties.get("TIMEOUT")
            self.assertIn("ULTRA_TEST_PATIENCE=3", properties["ENVIRONMENT"], test["name"])
        self.assertEqual(limits["exercise.01_toy.add"], 3 * 120)
        self.assertEqual(limits["stub_guard.01_toy.add"], 3 * 120)
        self.assertEqual(limits["mistake.01_toy.add_forgets_b"], 3 * 120)
        self.assertEqual(limits["layout"], 3 * 60)
        discovered = [name for name in limits if name.startswith("test.common.base.")]
        self.assertTrue(discovered)
        self.assertEqual({limits[name] for name in discovered}, {3 * 120})

    def test_patience_must_be_a_whole_number(self):
        for patience in ("0", "1.5", "long"):
            code, output = self.configure_with_patience(patience)
            self.assertNotEqual(code, 0)
            self.assertIn(f"ULTRA_TEST_PATIENCE is '{patience}'", output)
        self.configure_with_patience(5)

    def test_solutions_pass_stubs_fail_by_name_and_mistakes_are_caught(self):
        code, output = self.ctest("exercise|stub_guard|mistakes")
        self.assertEqual(code, 0, output)
        self.assertIn("100% tests passed, 0 tests failed out of 7", output)
        self.assertIn("Tested file: solutions/01_toy/add.cpp with "
                      "tests/mistakes/01_toy/add.patches: add_forgets_b", output)

    def test_changed_exercise_is_skipped_but_not_in_ci(self):
        self.toy.solve("add")
        code, output = self.ctest("stub_guard")
        self.assertEqual(code, 0, output)
        self.assertIn("stub_guard.01_toy.add (Skipped)", output)
        self.assertIn("exercises/01_toy/add.cpp is not as shipped", output)
        code, output = self.ctest("stub_guard", environment={"CI": "true"})
        self.assertNotEqual(code, 0, output)
        self.assertIn("expected exit code 3 (not written), found 0", output)

    def test_a_learners_broken_file_does_not_stop_the_test_run(self):
        self.toy.write_exercise("add", "this is not C++")
        code, output = self.ctest("exercise|stub_guard|mistakes")
        self.assertEqual(code, 0, output)

    def test_uncaught_mistake_fails(self):
        patch = "tests/mistakes/01_toy/add.patches"
        self.toy.write(patch, self.toy.read(patch).replace("return a;", "return b + a - 0 * a;")
                       .replace("int /*b*/", "int b"))
        code, output = self.ctest("mistakes")
        self.assertNotEqual(code, 0, output)
        self.assertIn("was not caught: expected exit code 1, found 0", output)

    def test_mistake_caught_without_its_hint_fails(self):
        patch = "tests/mistakes/01_toy/add.patches"
        self.toy.write(patch, self.toy.read(patch).replace("did you forget", "have you looked at"))
        code, output = self.ctest("mistakes")
        self.assertNotEqual(code, 0, output)
        self.assertIn("the check failed without its hint", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
