"""The chapters' texts: what they say of exercises, and their problems, predictions and broken trainers."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "exercises"))
import catalog  # noqa: E402  (after the path)
import mend  # noqa: E402
import problems  # noqa: E402
import quantities  # noqa: E402
import reading_time  # noqa: E402
import tables  # noqa: E402

BIN = pathlib.Path(os.environ.get("ULTRA_BUILD_DIR", ROOT / "build" / "release")) / "bin"


def texts(chapter):
    """The chapter's own text and those of its rooms."""
    return [path.read_text(encoding="utf-8")
            for path in (ROOT / "chapters" / chapter).rglob("*.md")]


class Exercises(unittest.TestCase):
    def test_tables_are_made_of_the_manifests(self):
        for path, text, made in tables.made_files():
            with self.subTest(path):
                self.assertEqual(text, made, "python3 tools/exercises tables --write")
        for chapter in catalog.chapters():
            with self.subTest(chapter):
                text = tables.text_path(chapter).read_text(encoding="utf-8")
                self.assertEqual(list(tables.faults(chapter, text)), [])

    def test_the_readme_knows_the_shortest_and_the_longest(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        lines = [int(re.search(r"\d+", exercise.lines)[0]) for exercise in catalog.all_exercises()]
        self.assertIn(f"in {min(lines)} to {max(lines)} lines", readme)

    def test_the_readme_offers_no_chapter_before_those_that_it_needs(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        order = readme[readme.index("Then choose:"):readme.index("11 puts")]
        place = {chapter: order.index(f"{chapter} (") for chapter in range(4, 11)}
        for chapter in place:
            needs = re.search(rf"^\| {chapter:02} \|.*\| (chapter[^|]*) ?\|[^|]*\|$", readme, re.MULTILINE)[1]
            for needed in map(int, re.findall(r"\d+", needs.split(",")[0])):
                with self.subTest(chapter=chapter, needs=needed):
                    self.assertLess(place.get(needed, -1), place[chapter])

    def test_texts_are_read_in_the_time_that_they_say(self):
        hours = {"chapters": 0, "further texts": 0, "exercises": 0}
        for chapter in catalog.chapters():
            for path in sorted((ROOT / "chapters" / chapter).rglob("*.md")):
                text = path.read_text(encoding="utf-8")
                counted, said = reading_time.counted_minutes(text), reading_time.said_minutes(text)
                with self.subTest(path=str(path.relative_to(ROOT)), counted=round(counted)):
                    self.assertIsNotNone(said, "a text's first lines say what it needs and how long it takes")
                    self.assertLess(abs(said - counted), max(10, 0.25 * counted))
                own = path == tables.text_path(chapter)
                hours["chapters" if own else "further texts"] += said / 60
                if own:
                    hours["exercises"] += int(re.search(r"Exercises: about (\d+) hours", text)[1])
        readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
        for sentence, key in [(r"chapters are read in about (\d+) hours", "chapters"), (r"in their folders in (\d+) more", "further texts"),
                              (r"Exercises take about (\d+) hours", "exercises")]:
            self.assertLessEqual(abs(int(re.search(sentence, readme)[1]) - hours[key]), 1, key)

    def test_reading_time_counts_words_and_lines_that_are_not_folded(self):
        cell, folded = "```python\nx = 1\n```\n", '```python tags=["folded"]\nx = 1\n```\n'
        counted = reading_time.counted_minutes("word " * 200 + "\n" + 12 * cell + folded + "\n## Sources\n" + "word " * 50)
        self.assertEqual(counted, 200 / reading_time.WORDS_A_MINUTE + 12 / reading_time.LINES_A_MINUTE)

    def test_stubs_say_the_same_as_the_manifests(self):
        for exercise in catalog.all_exercises():
            if not exercise.is_untouched():
                continue
            with self.subTest(exercise.id):
                stub = (ROOT / exercise.path).read_text(encoding="utf-8")
                length = re.search(r"^// Length: +(.+)$", stub, re.MULTILINE)[1]
                difficulty = re.search(r"^// Difficulty: +(.+)$", stub, re.MULTILINE)[1]
                numbers = [int(number) for number in re.findall(r"\d+", length.split(";")[0])]
                self.assertEqual(sum(numbers), int(re.search(r"\d+", exercise.lines)[0]))
                self.assertIn(exercise.difficulty, difficulty)

    def test_front_matter_is_a_comment(self):
        for chapter in catalog.chapters():
            for text in texts(chapter):
                self.assertFalse(text.lstrip().startswith("---"), f"{chapter}: code hosts would show it")

    def test_front_matter_names_the_kernel(self):
        for chapter in catalog.chapters():
            for text in texts(chapter):
                head = text.partition("-->")[0]
                with self.subTest(chapter=chapter, title=text.partition("-->")[2][:60].strip()):
                    self.assertIn("\njupyter:\n  kernelspec:\n", head)
                    self.assertIn("\n    name: ultra\n", head)

    def test_descriptions_of_pictures_are_words(self):
        for chapter in catalog.chapters():
            for text in texts(chapter):
                for description in re.findall(r"(?m)^!\[([^\]]*)\]\(", text):
                    with self.subTest(chapter=chapter, description=description[:60]):
                        self.assertNotRegex(description, r"\w\(\w+=|alt=")


def words_to_avoid(page):
    """The phrases of the page's second table: what our sentences do without."""
    rows = re.findall(r"(?m)^\| (`.*`) \|", page[page.index("| not | but |"):])
    return [phrase for row in rows for phrase in re.findall(r"`([^`]+)`", row)]


def uses_of(phrase, text):
    """The lines in which a text has the phrase, in whatever way its lines are broken."""
    words = r"\s+".join(map(re.escape, phrase.split()))
    return [text.count("\n", 0, found.start()) + 1
            for found in re.finditer(rf"\b{words}\b", text, re.IGNORECASE)]


class Words(unittest.TestCase):
    def test_what_our_sentences_do_without_does_not_come_back(self):
        page = ROOT / "docs" / "words.md"
        avoided = words_to_avoid(page.read_text(encoding="utf-8"))
        self.assertGreater(len(avoided), 20)
        for folder, kinds in {".": "*.md", "docs": "**/*.md", "chapters": "**/*", "exercises": "**/*",
                              "solutions": "**/*", "common": "**/*", "kernels": "**/*"}.items():
            for path in sorted((ROOT / folder).glob(kinds)):
                if path == page or path.suffix not in (".md", ".json", ".cpp", ".cuh", ".hpp"):
                    continue
                text = path.read_text(encoding="utf-8")
                for phrase in avoided:
                    with self.subTest(path=str(path.relative_to(ROOT)), phrase=phrase):
                        self.assertEqual(uses_of(phrase, text), [], "docs/words.md has what to write instead")

    def test_a_phrase_is_found_over_the_end_of_a_line_and_not_inside_of_a_word(self):
        self.assertEqual(uses_of("the own", "one\nThe\n  own chunk"), [2])
        self.assertEqual(uses_of("the own", "the owner"), [])


class Problems(unittest.TestCase):
    def for_each(self, check):
        for chapter in catalog.chapters():
            for problem in problems.read_problems(chapter):
                with self.subTest(problem.id):
                    check(problem)

    def test_every_chapter_has_five_to_ten_and_shows_them(self):
        for chapter in catalog.chapters():
            with self.subTest(chapter):
                self.assertIn(len(problems.read_problems(chapter)), range(5, 11))
                own = tables.text_path(chapter).read_text(encoding="utf-8")
                self.assertRegex(own, r"(?m)^problems\(\)$")
                self.assertIn(f"exercises/{chapter}/problems.md", own)

    def test_right_answers_are_right_and_others_are_not(self):
        def check(problem):
            if problem.kind == "number":
                value = problem.value()
                self.assertTrue(problems.judge(problem, f"{value!r} {problem.unit}").right)
                for wrong in (2 * value + 1, -value - 1, 1000 * value + 1):
                    self.assertFalse(problems.judge(problem, repr(wrong)).right, wrong)
            elif problem.kind == "choice":
                self.assertTrue(problems.judge(problem, problem.fields["choice"]).right)
                self.assertGreaterEqual(len(problem.fields.get("wrong", [])), 1)
                for letter, reply in problem.fields["wrong"]:
                    self.assertIn(reply, problems.judge(problem, letter).text)

        self.for_each(check)

    def test_mistakes_are_no_right_answers_and_are_told(self):
        def check(problem):
            for expression, reply in problem.fields.get("mistake", []):
                value = quantities.evaluate(expression, problem.inputs())
                verdict = problems.judge_number(problem, repr(float(value)))
                self.assertFalse(verdict.right, expression)
                self.assertIn(reply, verdict.text)

        self.for_each(check)

    def test_workings_are_folded_and_filled_in(self):
        def check(problem):
            self.assertNotIn("<details>", problem.statement)
            left = re.sub(r"\$\$.*?\$\$|\$.*?\$|`[^`]*`", "", problem.working(), flags=re.DOTALL)
            self.assertNotRegex(left, r"\{\w+\}")
            self.assertGreater(len(problem.working()), 40)

        self.for_each(check)

    def test_programs_know_the_same_numbers(self):
        checked = []

        def check(problem):
            if "program" not in problem.fields:
                return
            chapter, *flags = shlex.split(problem.fields["program"])
            program = BIN / catalog.find_chapter(chapter)
            if program.is_file():
                run = self.answer_of(program, flags)
                # The file is the project's own, as this one is.
                found = eval(problem.fields["check"], {"__builtins__": {}, "max": max, "sum": sum}, {"run": run})
                self.assertAlmostEqual(found / problem.value(), 1, delta=1e-3)
                checked.append(problem.id)

        self.for_each(check)
        if not checked:
            self.skipTest("no program is built")

    def answer_of(self, program, flags):
        """What a program prints as JSON, or the summary of its run."""
        with tempfile.TemporaryDirectory() as folder:
            metrics = pathlib.Path(folder) / "metrics.jsonl"
            asked = [] if any(flag.endswith("json") for flag in flags) else ["--metrics", str(metrics)]
            done = subprocess.run([program, *flags, *asked], cwd=ROOT, capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(metrics.read_text().splitlines()[-1] if asked else done.stdout)


class OtherWork(unittest.TestCase):
    def test_every_chapter_has_a_prediction(self):
        for chapter in catalog.chapters():
            with self.subTest(chapter):
                together = "\n".join(texts(chapter))
                names = re.findall(r"^(\w+) = predict\(", together, re.MULTILINE)
                self.assertGreaterEqual(len(names), 1)
                for name in names:
                    self.assertIn(f"{name}.check(", together)

    def test_every_chapter_has_a_broken_trainer(self):
        for chapter in catalog.chapters():
            with self.subTest(chapter):
                cases = mend.read_cases(chapter)
                self.assertGreaterEqual(len(cases), 1)
                for case in cases:
                    self.assertIn(case.exercise, catalog.read_manifest(chapter))
                    self.assertGreaterEqual(len(case.hints), 1)
                    self.assertTrue(any(case.id in text for text in texts(chapter)), f"no text names {case.id}")


if __name__ == "__main__":
    unittest.main()
