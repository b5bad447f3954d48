"""Broken trainers and problems: what the learner sees of them, on the toy chapter."""

import unittest

from toy_workbook import ToyTest


class Mending(ToyTest):
    FILE = ".workbook/mend/01.m1/add.cpp"

    def test_the_exercise_comes_first(self):
        self.workbook("mend", "01", says=["01.m1  A sum that is too small", "after 01.1"])
        self.workbook("mend", "01.m1", code=2, says="01.m1 shows how 01.1 is written")
        self.assertFalse((self.toy.root / self.FILE).exists())

    def test_a_broken_trainer_is_found_and_mended(self):
        self.toy.solve("add")
        self.workbook("check", "01.1", says="passed")
        output = self.workbook("mend", "01.m1", says=[
            "The loss starts at 1.", "loss", "broken", f"The fault is in {self.FILE}"])
        self.assertRegex(output, r"(?m)^ +1 +3 +1$")
        self.assertRegex(output, r"(?m)^ +2 +1.5 +0.5$")
        self.workbook("check", "01.m1", code=1, says=["FAILED: not mended yet", "./workbook hint 01.m1"])
        self.workbook("hint", "01.m1", says=["How many numbers does it add?", "no more hints"])
        self.toy.write(self.FILE, self.toy.read(self.FILE).replace("/*b*/", "b").replace("a;", "a + b;"))
        output = self.workbook("mend", "01.m1")
        self.assertRegex(output, r"(?m)^ +1 +3 +3$")
        self.workbook("check", "01.m1", says=[
            "mended (2 tests", "The fault was: returns the first number only"])
        self.workbook("status", says="broken trainers: 1 of 1 mended")
        self.workbook("mend", "01.m1", "--again", says="Your version is kept: .workbook/backup/01.m1/add")
        self.workbook("check", "01.m1", code=1)

    def test_what_does_not_compile_is_shown(self):
        self.toy.root.joinpath(self.FILE).parent.mkdir(parents=True)
        self.toy.write(self.FILE, "int x = ;\n")
        self.workbook("mend", "01.m1", code=1, says=["DOES NOT COMPILE", "add.cpp:1"])
        self.workbook("check", "01.m1", code=1, says=["DOES NOT COMPILE", "add.cpp:1"])

    def test_mistaken_names_are_errors_in_words(self):
        self.workbook("mend", code=2, says="the following arguments are required")
        self.workbook("mend", "01.m7", code=2, says="there is no '01.m7' to mend; chapter 01_toy has: 01.m1")
        self.workbook("mend", "01.1", code=2, says="'01.1' names no broken trainer")
        self.workbook("check", "01.m1", code=3, says="not begun: ./workbook mend 01.m1")

    def test_a_case_shows_its_fault(self):
        self.toy.run("cmake", "--preset", "release", *"-DULTRA_MISTAKES=ON -DULTRA_CUDA=OFF -DULTRA_MPI=OFF".split())
        build = self.toy.root / "build/release"
        code, output = self.toy.run("cmake", "--build", str(build), "--target", "01_toy_main", "mistakes")
        self.assertEqual(code, 0, output)
        code, output = self.toy.run("ctest", "--test-dir", str(build), "-R", "^mend[.]")
        self.assertIn("100% tests passed, 0 tests failed out of 1", output)


class Bugs(ToyTest):
    """A bug of tests/bugs, shown and then mended."""

    FILE = ".workbook/mend/toy-1/solutions/01_toy/add.cpp"

    def test_a_bug_is_shown_and_found(self):
        output = self.workbook("bug", "TOY-1", says=[
            "toy-1  A sum that is its first number\n  https://example.org/toy/1",
            "Sum.HasBoth of test.chapters.01_toy fails",
            "The fault: tests/bugs/01_toy/toy-1.patch"])
        self.assertRegex(output, r"(?m)^loss, step 1 +3 +3 +1   x 0.333333$")

    def test_a_bug_is_mended(self):
        self.workbook("check", "toy-1", code=3, says="not begun: ./workbook mend toy-1")
        output = self.workbook("mend", "toy-1", says=f"The fault is in {self.FILE}. Mend it there.")
        self.assertRegex(output, r"(?m)^loss, step 1 +3 +3 +1   x 0.333333$")
        self.workbook("check", "toy-1", code=1, says=["FAILED: not mended yet", "add(1, 2)"])
        self.toy.write(self.FILE, self.toy.read(self.FILE).replace("/*b*/) { return a;", "b) { return a + b;"))
        self.assertRegex(self.workbook("mend", "toy-1"), r"(?m)^loss, step 1 +3 +3 +3$")
        self.workbook("check", "toy-1", says="mended (1 test")
        self.workbook("mend", "toy-1", "--again", says="Your version is kept: .workbook/backup/toy-1/")
        self.toy.write(self.FILE, "int x = ;\n")
        for command in ("mend", "check"):
            self.workbook(command, "toy-1", code=1, says=["DOES NOT COMPILE", "add.cpp:1"])

    def test_an_unknown_bug_is_an_error_in_words(self):
        for command in ("bug", "mend", "check"):
            self.workbook(command, "toy-2", code=2, says="there is no bug 'toy-2': did you mean toy-1?")


class Answering(ToyTest):
    def test_list_statement_and_working(self):
        self.workbook("answer", "01", says=["01.p1  The double of three", "01.p3  Why?", "to explain"])
        self.workbook("answer", "01.p1", says=[
            "What is twice three", "./workbook answer 01.p1 VALUE in kB"])
        self.workbook("answer", "01.p1", "--working", says=[
            "Two times 3 is 6 kB", r"as $2 \cdot {b}$ says"])
        self.workbook("answer", "01.p2", says="./workbook answer 01.p2 LETTER")

    def test_right_answers(self):
        for words in (["6"], ["6000", "B"], ["5.97kB"], ["12/2"], ["0.006", "MB"]):
            with self.subTest(words):
                self.workbook("answer", "01.p1", *words, says="Right, within 1 %.")
        self.workbook("answer", "01.p2", "(B)", says="Right.")
        self.workbook("status", says="problems: 2 of 2 right")
        self.workbook("answer", "01.p1", "7", code=1)
        self.workbook("answer", "01", says="right")

    def test_wrong_answers_say_something_useful(self):
        for value, reply in (("5", "That is the sum."), ("6000", "the unit is not: too large by 1000"),
                             ("6144", "too large by 1024"), ("12", "Exactly 2 times too large"),
                             ("6.4", "Near, but too large; wanted is within 1 %"),
                             ("100", "more than a factor of ten"), ("-6", "The sign is wrong"),
                             ("0", "Not zero")):
            with self.subTest(value):
                self.workbook("answer", "01.p1", value, code=1, says=reply)
        self.workbook("answer", "01.p2", "a", code=1, says="No. Two is less than three.")

    def test_no_answers_are_errors_in_words(self):
        for words, reply in ((["01.p9", "3"], "there is no problem '01.p9'; chapter 01_toy has: 01.p1"),
                             (["01.1", "3"], "'01.1' names no problem"),
                             (["07.p1", "3"], "there is no chapter '07'"),
                             (["01.p1", "many"], "'many' is no number; write it like 3.2"),
                             (["01.p1", "3,5"], "the decimal sign is a point"),
                             (["01.p1", "3", "s"], "wanted in kB, and 's' cannot be turned into it"),
                             (["01.p1", "1/0"], "has no value"),
                             (["01.p2", "z"], "'z' is none of the choices a, b")):
            with self.subTest(words):
                output = self.workbook("answer", *words, code=2, says=reply)
                self.assertNotIn("Traceback", output)

    def test_explanations_are_not_judged(self):
        self.workbook("answer", "01.p3", "because", says=["no number to check", "Because."])

    def test_a_file_that_cannot_be_read_is_an_error_in_words(self):
        good = self.toy.read("exercises/01_toy/problems.md")
        for old, new, reply in (("value: a * b", "valve: a * b", "its answer has a line 'valve: a * b'"),
                                ("<summary>Working", "<summary>Wrong", "01.p1: has no <details>"),
                                ("## 01.p2", "## 01.p4", "numbers are [1, 4, 3]"),
                                ("## 01.p2", "## 02.p2", "this is the file of chapter 01"),
                                ("value: a * b", "value: a * c", "cannot compute 'c' in 'a * c'")):
            with self.subTest(new):
                self.toy.write("exercises/01_toy/problems.md", good.replace(old, new, 1))
                self.workbook("answer", "01.p1", "6", code=2, says=reply)


if __name__ == "__main__":
    unittest.main()
