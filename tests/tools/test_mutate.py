"""tools/mutate.py makes the mistakes it should, and tells those that a check notices from the others."""

import collections
import pathlib
import re
import sys
import unittest

from toy_workbook import SOURCE, ToyWorkbook

sys.path.insert(0, str(SOURCE / "tools"))
import mutants  # noqa: E402
import mutate  # noqa: E402


def made_of(body):
    """The mutants of a function with this body, as (before, after)."""
    return {(m.before, m.after) for m in mutants.mutants(f"int f(int a, int b) {{\n{body}\n}}\n")}


class Mutants(unittest.TestCase):
    def test_of_a_loop(self):
        line = "for (int i = 0; i < n; ++i) total += x[i];"
        self.assertEqual(made_of(line), {(line, line.replace(*change)) for change in [
            ("0;", "1;"), ("i <", "i <="), ("+=", "-="), ("+=", "=")]})

    def test_of_statements(self):
        self.assertEqual(made_of("work.wait();\nuse(x);\nuse(y);"), {
            ("work.wait();", ";"), ("use(x);", ";"), ("use(y);", ";"),
            ("work.wait(); use(x);", "use(x); work.wait();")})

    def test_of_a_condition(self):
        line = "if (a == 1 && !done) return;"
        self.assertEqual(made_of(line), {(line, line.replace(*change)) for change in [
            ("a == 1 && !done", "false"), ("==", "!="), ("&&", "||"), ("1", "0"), ("1", "2"), ("!done", "done")]})

    def test_of_a_mean(self):
        line = "return sum(x) / n;"
        self.assertEqual(made_of(line), {(line, line.replace(*change)) for change in [
            ("/", "*"), (" / n", ""), ("sum(x) / n", "n / sum(x)")]})

    def test_of_arguments(self):
        line = "return {.from = begin(x), .to = at(y, z)};"
        self.assertEqual(made_of(line), {(line, line.replace(*change)) for change in [
            ("begin(x), .to = at(y, z)", "at(y, z), .to = begin(x)"), ("y, z", "z, y")]})

    def test_what_is_left_alone(self):
        for text in ['throw Error(format("{} < {}", a + 1, 2));', "ensure(a < b, words);", "out.reserve(2 * n);",
                     "std::vector<Tensor> found;", "const auto x = f<1>;", "// a < b", "using enum Kind;"]:
            changes = [m for m in made_of(text) if m != (text, ";")]
            self.assertEqual(changes if "f<1>" not in text else [], [], text)
        self.assertEqual(mutants.mutants("template <int N = 2>\nint f(int a = 1);\n#if 1 < 2\n#endif\n"), [])

    def test_each_is_another_text(self):
        for path in (SOURCE / "solutions").glob("*/*.c*"):
            text = path.read_text(encoding="utf-8")
            made = [m.apply(text) for m in mutants.mutants(text)]
            self.assertEqual(len(set(made) - {text}), len(made), path)


class Lists(unittest.TestCase):
    """What is committed in tests/mutations."""

    EXERCISES = mutate.catalog.all_exercises()

    def test_patches_apply_and_have_a_name_of_their_own(self):
        names = [change.where for exercise in self.EXERCISES for change in mutate.patches(exercise)]
        written = [f"{path.relative_to(SOURCE)}: {name}" for path in mutate.MUTATIONS.glob("*.patches")
                   for name in re.findall(r"(?m)^Name: (.+)$", path.read_text(encoding="utf-8"))]
        self.assertEqual(sorted(names), sorted(written))
        mistakes = [path.stem for path in (SOURCE / "tests/mistakes").glob("*/*/*.patch")]
        count = collections.Counter([name.split(": ")[1] for name in names] + mistakes)
        self.assertEqual([name for name, times in count.items() if times > 1], [])

    def test_equivalents_are_mutants(self):
        made = set()
        for exercise in self.EXERCISES:
            text = (SOURCE / exercise.solution_path).read_text(encoding="utf-8")
            made |= {(exercise.solution_path, m.before, after)
                     for m in mutants.mutants(text) for after in (m.after, "*")}
        self.assertEqual([entry for entry in mutate.equivalents() if entry not in made], [])
        lines = (mutate.MUTATIONS / "equivalent.txt").read_text(encoding="utf-8").splitlines()
        count = collections.Counter(line[:4] for line in lines)
        self.assertEqual({count[start] for start in ("  - ", "  + ", "  = ")}, {len(mutate.equivalents())})

    def test_the_seed_decides_the_order(self):
        def order(seed):
            return [change.where for _, change in mutate.drawn(self.EXERCISES[:3], seed)]
        self.assertEqual(order("1"), order("1"))
        self.assertNotEqual(order("1"), order("2"))
        self.assertEqual(sorted(order("1")), sorted(order("2")))


class Trials(unittest.TestCase):
    """What becomes of mutants of the toy's exercise 01.1."""

    PATCHES = "tests/mutations/01_toy.patches"
    EQUIVALENT = "tests/mutations/equivalent.txt"

    @classmethod
    def setUpClass(cls):
        cls.toy = ToyWorkbook()
        cls.toy.root.joinpath("tests/mutations").mkdir()
        patch = cls.toy.read("tests/mistakes/01_toy/add/add_forgets_b.patch")
        cls.toy.write(cls.PATCHES, f"Name: first_only\n{patch}")
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
                          "1 patches; 2 of 2 mutants with seed 1, 0 more that do not compile: 3 caught, 0 not"])

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
        self.mutate("--number", "1", says="1 of 2 mutants")
        self.mutate("--seconds", "0", says="0 of 2 mutants")

    def test_a_solution_that_fails_proves_nothing(self):
        self.solve("return a * b;")
        self.mutate(code=1, says="solutions/01_toy/add.cpp does not pass its own check (1)")

    def test_what_is_not_built_or_not_there(self):
        self.assertIn("cmake --build", self.toy.python("tools/mutate.py", "01.2")[1])
        self.assertIn("there is no exercise '01.9'", self.toy.python("tools/mutate.py", "01.9")[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
