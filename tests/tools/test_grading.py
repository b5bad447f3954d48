"""What teachers use: results for Gradescope and as JUnit's XML, assignments, the autograder, certificates.

Formats are held against their published descriptions: gradescope-autograders.readthedocs.io/en/latest/specs,
and junit-10.xsd of Jenkins' xUnit plugin.
"""

import hashlib
import json
import pathlib
import re
import shutil
import tempfile
import unittest
import xml.etree.ElementTree as xml
import zipfile

from toy_workbook import ToyTest

SEEDED = ('#include <gtest/gtest.h>\n#include <cstdlib>\n#include "chapters/01_toy/toy.hpp"\n'
          'namespace ultra::toy { namespace {\nTEST(Add, Draws) {\n'
          '  const char* text = std::getenv("ULTRA_TEST_SEED");\n'
          '  const int n = text != nullptr ? std::atoi(text) : 1;\n'
          '  EXPECT_EQ(add(n, 1), n + 1) << "seed " << n;\n}\n}}\n')
FITS_ONE = "int add(int a, int b) { return a == 1 ? a + b : 0; }"


class Grading(ToyTest):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="grading_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def workbook(self, *arguments, **options):
        return super().workbook(*arguments, cwd=self.folder, **options)

    def gradescope(self, *arguments, code):
        self.workbook("check", "01", "--again", "--format", "gradescope", *arguments, code=code)
        return json.loads((self.folder / "results.json").read_text())

    # --- Gradescope ------------------------------------------------------------------------------

    def test_gradescope_gives_points_for_what_passes(self):
        self.toy.solve("add")
        results = self.gradescope(code=3)
        self.assertLessEqual(set(results), {"score", "execution_time", "output", "visibility", "stdout_visibility",
                                            "extra_data", "tests", "leaderboard", "output_format"})
        self.assertGreater(results["execution_time"], 0)
        known = {"score", "max_score", "status", "name", "number", "output", "tags", "visibility", "extra_data"}
        for test in results["tests"]:
            self.assertLessEqual(set(test), known)
        self.assertEqual([(t["score"], t["max_score"], t["status"], t["visibility"]) for t in results["tests"]],
                         [(5, 5, "passed", "visible"), (0, 5, "failed", "visible")])
        self.assertIn("passed (2 tests", results["tests"][0]["output"])
        self.assertIn("not written yet", results["tests"][1]["output"])

    def test_hidden_tests_catch_an_answer_for_one_seed(self):
        self.toy.write("tests/exercises/01_toy/add_test.cpp", SEEDED)
        self.toy.write_exercise("add", FITS_ONE)
        tests = self.gradescope("--hidden-seed", "7", code=3)["tests"][:2]
        self.assertEqual([(t["score"], t["max_score"], t["visibility"]) for t in tests],
                         [(4, 4, "visible"), (0, 1, "after_published")])
        self.toy.solve("add")
        tests = self.gradescope("--hidden-seed", "7", code=3)["tests"][:2]
        self.assertEqual([t["score"] for t in tests], [4, 1])

    # --- JUnit -----------------------------------------------------------------------------------

    def test_junit_is_what_its_schema_asks(self):
        self.toy.write_exercise("add", 'int add(int a, int /*b*/) { __builtin_printf("\\x1b[1m"); return a; }')
        self.workbook("check", "01", "--format", "junit", "--output", "mine.xml", code=1)
        root = xml.parse(self.folder / "mine.xml").getroot()
        self.assertEqual((root.tag, root.get("tests"), root.get("failures"), root.get("errors")),
                         ("testsuites", "2", "2", "0"))
        suite = root.find("testsuite")
        self.assertLessEqual({"name", "tests", "failures", "errors"}, set(suite.attrib))
        self.assertRegex(suite.get("time"), r"^[0-9]{1,3}\.[0-9]*$")
        cases = suite.findall("testcase")
        self.assertEqual([(case.get("name"), case[0].tag, case[0].get("type")) for case in cases],
                         [("01.1 add", "failure", "failed"), ("01.2 twice", "failure", "not written")])
        self.assertIn("did you forget one of the two?", cases[0][0].text)

    def test_junit_knows_errors_and_passes(self):
        self.toy.write_exercise("add", "int add(int a, int b) { return a + }")
        self.toy.solve("twice")
        self.workbook("check", "01.1", "01.2", "--format", "junit", code=1)
        suite = xml.parse(self.folder / "results.xml").getroot().find("testsuite")
        self.assertEqual((suite.get("errors"), suite.get("failures")), ("1", "0"))
        self.assertEqual([[child.tag for child in case] for case in suite], [["error"], []])

    # --- Assignments -----------------------------------------------------------------------------

    def assigned(self, *more):
        self.workbook("assign", "01", "--out", "handed", *more, says="without the answers of 01_toy")
        return self.folder / "handed"

    def test_what_is_handed_out_holds_no_answer(self):
        self.toy.solve("add")  # a teacher who has solved it: the shipped form is handed out
        solution = self.toy.read("solutions/01_toy/add.cpp")
        core = re.search(r"\{\s*(return [^;]*;)", solution)[1]
        handed = self.assigned()
        for path in [p for p in handed.rglob("*.*") if p.is_file() and ".git" not in p.parts]:
            text = path.read_text(encoding="utf-8", errors="replace")
            if path.suffix in (".cpp", ".patch", ".patches") and "tools" not in path.parts:
                self.assertNotIn(core, text, path)
        self.assertFalse((handed / "tests/mistakes/01_toy").exists())
        self.assertFalse((handed / "tests/bugs/01_toy/toy-1.patch").exists())
        self.assertFalse((handed / "exercises/01_toy/mend.json").exists())
        code, log = self.toy.run("git", "log", "--oneline", cwd=handed)
        self.assertEqual((code, log.count("\n")), (0, 1))

    def test_the_students_file_is_what_others_build_on(self):
        handed = self.assigned("--student", "s1")
        for name in ("add", "twice"):
            shutil.copy(self.toy.root / f"solutions/01_toy/{name}.cpp", handed / f"exercises/01_toy/{name}.cpp")
        code, output = self.toy.run(str(handed / "workbook"), "check")
        self.assertEqual(code, 0, output)
        self.assertIn("2 passed", output)
        code, output = self.toy.run(str(handed / "workbook"), "diff", "01.1")
        self.assertEqual(code, 2, output)
        self.assertIn("01.1 is assigned: there is no solution here to compare with", output)

    def test_each_student_has_a_seed(self):
        def seed_for(student):
            record = json.loads((self.assigned("--student", student) / "assignment.json").read_text())
            shutil.rmtree(self.folder / "handed")
            return record["seed"]

        self.assertEqual(seed_for("one"), seed_for("one"))
        self.assertNotEqual(seed_for("one"), seed_for("two"))

    def test_checks_draw_from_the_assignments_seed(self):
        self.toy.write("tests/exercises/01_toy/add_test.cpp", SEEDED)
        self.toy.write_exercise("add", FITS_ONE)
        self.addCleanup((self.toy.root / "assignment.json").unlink)
        self.toy.write("assignment.json", '{"chapters": ["01_toy"], "seed": 23}')
        self.workbook("check", "01.1", "--again", code=1, says="seed 23")
        self.toy.write("assignment.json", '{"seed": "x"}')
        self.workbook("check", "01.1", "--again", code=2, says="assignment.json is damaged")

    # --- The autograder --------------------------------------------------------------------------

    def test_the_autograder_grades_a_submission(self):
        self.workbook("assign", "01", "--gradescope", "grader.zip", "--hidden-seed", "5", says="it holds the solutions")
        home = self.folder / "autograder"
        with zipfile.ZipFile(self.folder / "grader.zip") as archive:
            self.assertLessEqual({"setup.sh", "run_autograder"}, set(archive.namelist()))
            for info in archive.infolist():
                archive.extract(info, home / "source")
                (home / "source" / info.filename).chmod(info.external_attr >> 16 or 0o644)
        (home / "submission").mkdir()
        code, output = self.toy.run("bash", str(home / "source/setup.sh"))
        self.assertEqual(code, 0, output)
        self.assertIn("2 passed, 0 failed", output)
        shutil.copy(self.toy.root / "solutions/01_toy/add.cpp", home / "submission/add.cpp")
        code, output = self.toy.run("bash", str(home / "source/run_autograder"),
                                    environment={"AUTOGRADER": str(home)})
        self.assertEqual(code, 0, output)
        tests = json.loads((home / "results/results.json").read_text())["tests"]
        self.assertEqual([test["score"] for test in tests], [4, 1, 0, 0], output)

    # --- Certificates ----------------------------------------------------------------------------

    def test_a_certificate_names_the_files_that_pass(self):
        self.workbook("status", "--certificate", "mine.html", code=2, says="no exercise passes yet")
        self.assertFalse((self.folder / "mine.html").exists())
        self.toy.solve("add")
        self.workbook("check", "01.1")
        self.workbook("status", "--certificate", "mine.html", "--name", "A <B>", says=": 1 exercise\n")
        page = (self.folder / "mine.html").read_text()
        file_hash = hashlib.sha256((self.toy.root / "exercises/01_toy/add.cpp").read_bytes()).hexdigest()
        self.assertIn(hashlib.sha256(f"01.1 {file_hash}\n".encode()).hexdigest(), page)
        self.assertIn("A &lt;B&gt;: 1 of 2 exercises pass", page)

    # --- Errors ----------------------------------------------------------------------------------

    def test_wrong_use_is_one_clear_line_and_leaves_nothing(self):
        (self.folder / "there").mkdir()
        for arguments, message in [
                (("assign", "01"), "assign needs --out DIR, --gradescope FILE.zip or both"),
                (("assign", "07", "--out", "x"), "there is no chapter '07'"),
                (("assign", "01", "--out", "there"), "exists already; name a folder that does not"),
                (("assign", "01", "--out", "a/b"), "there is no folder"),
                (("check", "01", "--output", "x"), "need --format"),
                (("check", "01", "--format", "csv"), "invalid choice: 'csv'"),
                (("check", "01", "--format", "junit", "--hidden-seed", "-1"), "--hidden-seed"),
                (("check", "01.m1", "--format", "junit"), "check it alone, without --format")]:
            with self.subTest(arguments):
                output = self.workbook(*arguments, code=2, says=message)
                self.assertEqual(output.count("\n"), 1, output)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["there"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
