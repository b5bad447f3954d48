"""tools/mutate.py tells the mistakes that a check notices from the others."""

import pathlib
import re
import unittest

from toy_workbook import ToyWorkbook


class Trials(unittest.TestCase):
    """What becomes of mutants of the toy's exercise 01.1."""

    PATCHES = "tests/mutations/01_toy.patches"
    EQUIVALENT = "tests/mutations/equivalent.txt"

    @classmethod
    def setUpClass(cls):
        cls.toy = ToyWorkbook()
        cls.toy.root.joinpath("tests/mutations").mkdir()
        patch = cls.toy.read("tests/mistakes/01_toy/add.patches")
        cls.toy.write(cls.PATCHES, patch.replace("add_forgets_b", "first_only"))
        cls.toy.write(cls.EQUIVALENT, "")
        cls.toy.commit()
        for command in ["cmake --preset release -DULTRA_TESTS=ON -DULTRA_CUDA=OFF -DULTRA_MPI=OFF",
                        "cmake --build build/release --target check.01_toy.add.solution"]:
            code, output = cls.toy.run(*command.split())
            assert code == 0, output

    def setUp(self):
        self.toy.git("checkout", "--quiet", ".")

    def mutate(self, *arguments, code=0, says=()):
        found, output = self.toy.python("tools/mutate.py", "01.1", *arguments,
                                        environment={"ULTRA_TEST_PATIENCE": "0.1",  # a limit of two seconds
                                                     "ULTRA_BUILD_DIR": str(self.toy.root / "build/release")})
        self.assertEqual(found, code, output)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, output)
        return output

    def solve(self, body):
        self.toy.write("solutions/01_toy/add.cpp", '#include "chapters/01_toy/toy.hpp"\n'
                       f"namespace ultra::toy {{\nint add(int a, int b) {{ {body} }}\n}}\n")
        pathlib.Path(self.toy.root / self.PATCHES).unlink()

    def test_what_is_caught(self):
        self.mutate(says=["caught, 0.", f"{self.PATCHES}: first_only: returns the first number only",
                          "solutions/01_toy/add.cpp:5: operator\n  - int add(int a, int b) { return a + b; }\n"
                          "  + int add(int a, int b) { return a - b; }\n",
                          "1 patches; 2 of 3 mutants with seed 1, 1 more that do not compile: 3 caught, 0 not"])

    def test_what_survives_is_a_failure_until_its_reason_is_known(self):
        self.solve("if (a == 7) return 7 + b; return a + b;")
        output = self.mutate(code=1, says=["SURVIVES", "return a + b; }\n  + int add(int a, int b) { if (false)"])
        survivors = re.findall(r"SURVIVES.*\n(  - .*\n  \+ .*\n)", output)
        self.toy.write(self.EQUIVALENT, "solutions/01_toy/add.cpp\n" +
                       "".join(f"{survivor}  = nobody adds seven\n" for survivor in survivors))
        self.assertNotIn("SURVIVES", self.mutate())

    def test_what_hangs_is_caught(self):
        self.solve("volatile int left = b < 0 ? -b : b;"
                   "while (left != 0) { left -= 1; a += b < 0 ? -1 : 1; } return a;")
        self.mutate(code=1, says=["caught: hangs", "SURVIVES"])  # b <= 0

    def test_a_patch_must_fail_with_its_hint(self):
        patch = self.toy.read(self.PATCHES)
        self.toy.write(self.PATCHES, patch.replace("did you forget", "have you seen"))
        self.mutate("--number", "0", code=1, says="FAILS: without the hint 'have you seen one of the two?'")
        self.toy.write(self.PATCHES, patch.replace("return a;", "return a +;"))
        self.mutate("--number", "0", code=1, says="FAILS: does not compile")
        self.toy.write(self.PATCHES, patch.replace("+ b", "+ c"))
        self.mutate(code=1, says="Name: first_only does not apply to solutions/01_toy/add.cpp")

    def test_the_budget(self):
        self.mutate("--number", "1", says="1 of 3 mutants")
        self.mutate("--seconds", "0", says="0 of 3 mutants")

    def test_a_solution_that_fails_proves_nothing(self):
        self.solve("return a * b;")
        self.mutate(code=1, says="solutions/01_toy/add.cpp does not pass its own check (1)")

    def test_what_is_not_built_or_not_there(self):
        self.assertIn("cmake --build", self.toy.python("tools/mutate.py", "01.2")[1])
        self.assertIn("there is no exercise '01.9'", self.toy.python("tools/mutate.py", "01.9")[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
