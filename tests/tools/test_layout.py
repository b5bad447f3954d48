"""tools/check_layout.py finds each kind of fault, and none in a tidy checkout."""

import os
import re
import unittest

from toy_workbook import ToyWorkbook


class Layout(unittest.TestCase):
    MISTAKES = "tests/mistakes/01_toy/add.patches"

    @classmethod
    def setUpClass(cls):
        cls.toy = ToyWorkbook()

    def setUp(self):
        self.toy.git("checkout", "--quiet", ".")
        self.toy.git("clean", "--quiet", "--force", "-d")

    def faults(self, **environment):
        code, output = self.toy.python("tools/check_layout.py", environment=environment)
        self.assertEqual(code, 0 if output == "The layout is in order\n" else 1, output)
        return output

    def write(self, relative, text):
        os.makedirs((self.toy.root / relative).parent, exist_ok=True)
        self.toy.write(relative, text)

    def expect_fault(self, path, what, **environment):
        self.assertRegex(self.faults(**environment), f"(?m)^{path}: .*{what}")

    def test_tidy_checkout(self):
        self.assertEqual(self.faults(), "The layout is in order\n")

    def test_exercise_files_must_be_listed_and_have_their_twins(self):
        self.write("exercises/01_toy/extra.cpp", "")
        self.write("solutions/01_toy/spare.cpp", "")
        (self.toy.root / "solutions/01_toy/add.cpp").unlink()
        (self.toy.root / "tests/exercises/01_toy/twice_test.cpp").unlink()
        self.expect_fault("exercises/01_toy/extra.cpp", "not listed")
        self.expect_fault("solutions/01_toy/spare.cpp", "not listed")
        self.expect_fault("exercises/01_toy/add.cpp", "has no solutions/01_toy/add.cpp")
        self.expect_fault("exercises/01_toy/twice.cpp", "has no tests/exercises/01_toy/twice_test")

    def test_changed_stub_is_the_learners_right_but_a_fault_in_ci(self):
        self.toy.solve("add")
        self.assertEqual(self.faults(), "The layout is in order\n")
        self.expect_fault("exercises/01_toy/add.cpp", "differs from its stub_sha256", CI="true")

    def test_hashes_of_finished_work_are_refused(self):
        self.toy.solve("add")
        code, output = self.toy.python("tools/update_stub_hashes.py")
        self.assertEqual(code, 1)
        self.assertIn("does not throw NotWritten", output)

    def test_todo_in_a_solution(self):
        self.write("solutions/01_toy/add.cpp", "// TODO\n")
        self.expect_fault("solutions/01_toy/add.cpp", "TODO")

    def test_the_core_knows_no_addition_by_name(self):
        for path, text, what in [("common/train/x.cpp", 'mesh.size("tp")', "no axis"),
                                 ("common/train/x.cpp", "// as in SGD", "no optimizer"),
                                 ("common/nn/x.cpp", "Qwen2", "no model")]:
            self.write(path, text + "\n")
            self.expect_fault(path, what)
            (self.toy.root / path).unlink()

    def test_few_files_know_a_device_without_numbers(self):
        def write(count):
            for i in range(count):
                self.write(f"chapters/01_toy/knows/x{i:02}.cpp", "if (!has_numbers(kind)) return;\n")

        write(25)
        self.assertNotIn("without numbers", self.faults())
        write(26)
        self.expect_fault("chapters/01_toy/knows/x25.cpp", "knows a device without numbers")

    def test_excerpts_of_recipes_are_in_their_files(self):
        self.write("common/base/x.cpp", "int one = 1;\n  int two = 2;\n")
        self.write("docs/extending.md", "<!-- in common/base/x.cpp -->\n```cpp\nint two = 2;\nint six = 6;\n```\n"
                                        "<!-- in common/base/y.cpp -->\n```cpp\nint one = 1;\n```\n")
        self.expect_fault("docs/extending.md", "common/base/x.cpp does not have: int six = 6;")
        self.expect_fault("docs/extending.md", "common/base/y.cpp does not have: int one = 1;")

    def test_module_boundaries(self):
        for path, include in [
                ("common/base/x.cpp", "common/tensor/tensor.hpp"),
                ("common/ops/x.cpp", "common/nn/layer.hpp"),
                ("common/train/x.cpp", "chapters/01_toy/toy.hpp"),
                ("common/tensor/x.cpp", "kernels/device/device_info.hpp"),
                ("kernels/device/x.cpp", "common/base/errors.hpp"),
                ("chapters/01_toy/x.cpp", "tests/support/x.hpp"),
                ("chapters/01_toy/y.cpp", "chapters/02_next/x.hpp"),
                ("solutions/01_toy/add.cpp", "exercises/01_toy/add.hpp")]:
            with self.subTest(path):
                self.write(path, f'#include "{include}"\n')
                self.expect_fault(path, f'may not include "{include}"')
        self.write("common/tensor/x.hpp", "#include <cuda_runtime.h>\n")
        self.expect_fault("common/tensor/x.hpp", "CUDA header")

    def test_allowed_includes(self):
        for path, include in [
                ("common/train/a.cpp", "common/base/errors.hpp"),
                ("common/ops/backend/cuda/a.cpp", "kernels/device/device_info.hpp"),
                ("chapters/01_toy/a.cpp", "kernels/device/device_info.hpp"),
                ("tests/support/a.cpp", "chapters/01_toy/toy.hpp")]:
            self.write(path, f'#include "{include}"\n')
        self.assertEqual(self.faults(), "The layout is in order\n")

    def test_unknown_module(self):
        self.write("common/magic/a.cpp", "")
        self.expect_fault("common/magic/a.cpp", "MODULE_USES")

    def test_each_core_header_has_a_test(self):
        self.write("common/base/lonely.hpp", "#pragma once\n")
        self.expect_fault("common/base/lonely.hpp", "has no tests/common/base/lonely_test.cpp")
        self.write("tests/common/base/other_test.cpp",
                   "// Covers: common/base/errors.hpp, common/base/lonely.hpp.\n")
        self.assertEqual(self.faults(), "The layout is in order\n")

    def test_sizes(self):
        self.write("common/base/long.cpp", "\n" * 601)
        self.expect_fault("common/base/long.cpp", "601 lines; 600")
        self.write("tests/common/base/long_test.cpp", "\n" * 501)
        self.expect_fault("tests/common/base/long_test.cpp", "501 lines; 500")
        self.write("tests/exercises/01_toy/long_test.cpp", "\n" * 201)
        self.expect_fault("tests/exercises/01_toy/long_test.cpp", "201 lines; 200")

    def test_folder_of_many_files(self):
        for number in range(25):
            self.write(f"tests/many/{number}.txt", "")
            self.write(f"docs/many/{number}.txt", "")
        self.assertEqual(self.faults(), "The layout is in order\n")
        self.write("docs/many/25.txt", "")
        self.write("tests/many/25.txt", "")
        self.expect_fault("tests/many", "has 26 files; with more than 25")

    def test_chapter_without_its_notebook(self):
        (self.toy.root / "chapters/01_toy/01_toy.md").unlink()
        self.expect_fault("chapters/01_toy", "has no notebook 01_toy.md")

    def test_mistake_of_another_exercise(self):
        text = self.toy.read(self.MISTAKES)
        for path in (self.MISTAKES, "tests/mutations/01_toy.patches"):
            self.write(path, f"{text}\n{text.replace('01.1', '01.2').replace('add_forgets_b', 'other')}")
            self.expect_fault(path, "do not belong together: 'other'")

    def test_mistake_outside_its_exercises_file(self):
        for path in ("tests/mistakes/01_toy/lost.patch", "tests/mistakes/01_toy/twice.patches"):
            self.write(path, self.toy.read(self.MISTAKES))
            self.expect_fault(path, f"'add_forgets_b' must stand in {self.MISTAKES}")
        self.write("tests/mutations/02_other.patches", self.toy.read(self.MISTAKES))
        self.expect_fault("tests/mutations/02_other.patches", "must stand in tests/mutations/01_toy.patches")

    def test_mistakes_that_cannot_be_told_apart(self):
        text = self.toy.read(self.MISTAKES)
        for found, said in [(f"{text}\n{text}", "has two mistakes of the name 'add_forgets_b'"),
                            (text + text[text.index("\n--- "):], "'add_forgets_b' has 2 lines '--- solutions/...', not one"),
                            (text.replace("--- ", ""), "'add_forgets_b' has 0 lines '--- solutions/...', not one"),
                            (text.replace("Hint: ", ""), "the header of 'Name: add_forgets_b' lacks the line 'Hint: ...'"),
                            (text.replace("Name: ", ""), "begins with 'add_forgets_b' before the first line 'Name: ...'")]:
            self.toy.write(self.MISTAKES, found)
            self.expect_fault(self.MISTAKES, re.escape(said))


if __name__ == "__main__":
    unittest.main(verbosity=2)
