"""tools/mutate.py makes the mistakes that it should, and its lists in tests/mutations are in order."""

import collections
import pathlib
import re
import sys
import tempfile
import unittest

from toy_workbook import SOURCE

sys.path.insert(0, str(SOURCE / "tools"))
import mutants  # noqa: E402
import mutate  # noqa: E402


NOT_A_NUMBER = mutants.NOT_A_NUMBER


def made_of(body):
    """The mutants of a function with this body, as (before, after)."""
    return {(m.before, m.after) for m in mutants.mutants(f"int f(int a, int b) {{\n{body}\n}}\n")}


class Mutants(unittest.TestCase):
    def test_of_a_loop(self):
        line = "for (int i = 0; i < n; ++i) total += x[i];"
        self.assertEqual(made_of(line), {(line, line.replace(*change)) for change in [
            ("0;", "1;"), ("i <", "i <="), ("+=", "-="), ("+=", "="), ("x[i]", f"{NOT_A_NUMBER}(x[i])")]})

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
            ("/", "*"), (" / n", ""), ("sum(x) / n", "n / sum(x)"), ("sum(x) / n", f"{NOT_A_NUMBER}(sum(x) / n)")]})

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
        known = [mistake.name for chapter in mutate.catalog.chapters()
                 for mistake in mutate.mistakes.of_chapter(chapter)]
        count = collections.Counter([name.split(": ")[1] for name in names] + known)
        self.assertEqual([name for name, times in count.items() if times > 1], [])

    def test_a_mistake_that_stays_is_not_written_again(self):
        toy = SOURCE / "tests/tools/toy"
        solution = toy / "solutions/01_toy/add.cpp"
        text = (toy / "tests/mistakes/01_toy/add.patches").read_text(encoding="utf-8")
        other = text.replace("add_forgets_b", "other")
        with tempfile.TemporaryDirectory() as folder:
            patches = pathlib.Path(folder, "add.patches")

            def times(together):
                patches.write_text(together, encoding="utf-8")
                mutate.mistakes.apply_all(patches, solution, folder)
                return {path.parent.name: path.stat().st_ctime_ns for path in pathlib.Path(folder).glob("*/add.cpp")}

            before = times(f"{text}\n{other}")
            after = times(f"{text}\n{other.replace('return a;', 'return 2 * a;')}")
        self.assertEqual({name for name in before if before[name] != after[name]}, {"other"})

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
