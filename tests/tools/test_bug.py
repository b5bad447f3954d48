"""The gallery of bugs: what ./workbook bug says, and what the page, README and the chapters say of it."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "exercises"))
import bug  # noqa: E402  (after the path)
import catalog  # noqa: E402

PAGE = bug.PAGE.read_text(encoding="utf-8")
HEADER = {"Bug": "A fault", "Thread": "https://a.thread", "Program": "04_zero", "Ranks": "--dp 2",
          "Shows": "loss first equal; rest x 2", "Check": "test.a A.B"}


def exercises(*arguments):
    done = subprocess.run([sys.executable, ROOT / "tools" / "exercises", *arguments], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def anchor(heading):
    """As a page of Markdown makes it of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


class Command(unittest.TestCase):
    def test_the_list_has_all(self):
        code, output, _ = exercises("bug")
        self.assertEqual(code, 0)
        for known in bug.read_bugs():
            self.assertIn(f"  {known.name} ", output)
            self.assertIn(known.title, output)

    def test_it_is_built_before_it_runs(self):
        code, output, _ = exercises("bug-targets", "MEGABLOCKS-86")
        self.assertEqual(code, 0)
        self.assertEqual(output.split(), ["08_expert_parallel_main", "bug.megablocks-86", "bug.megablocks-86.check"])

    def test_an_unknown_name_gets_near_ones(self):
        for command in ("bug-targets", "bug"):
            code, output, error = exercises(command, "megablocks-68")
            self.assertEqual((code, output), (2, ""))
            self.assertRegex(error, r"^workbook: there is no bug 'megablocks-68': did you mean megablocks-86[^\n]*"
                                    r"\./workbook bug lists all \d+\n$")


class Headers(unittest.TestCase):
    def read(self, **changes):
        fields = {key: value for key, value in (HEADER | changes).items() if value is not None}
        with tempfile.TemporaryDirectory() as folder:
            patch = pathlib.Path(folder, "a-1.patch")
            patch.write_text("".join(f"{key}: {value}\n" for key, value in fields.items())
                             + "\n--- a.cpp\n+++ a.cpp\n@@ -1 +1 @@\n-int a;\n+int b;\n")
            read = bug.read_bug(patch)
            self.changes = read.changes()
            return read

    def refused(self, says, **changes):
        with self.assertRaises(catalog.UsageError) as raised:
            self.read(**changes)
        self.assertIn(says, str(raised.exception))
        self.assertIn("a-1.patch: ", str(raised.exception))

    def test_what_is_wrong_is_said(self):
        self.refused("the header lacks the line 'Check: ...'", Check=None)
        self.refused("there is no field 'Says'; it has Bug, Thread,", Says="nothing")
        self.refused("cannot read 'rest twice' of Shows", Shows="loss first equal; rest twice")

    def test_flags_are_those_of_all_and_its_own(self):
        known = self.read(Both="--steps 2 --tied-embeddings")
        self.assertIn(" --steps 2 ", known.flags("Both"))
        self.assertTrue(known.flags("Both", "Ranks").endswith(" --tied-embeddings --dp 2"))
        self.assertEqual(self.changes, ["+++ a.cpp", "-int a;", "+int b;"])

    def test_a_symptom_that_is_not_there_is_named(self):
        def training(gradient):
            return bug.Training(0, "", {"loss, step 1": 2.0, "gradient of norms": gradient,
                                        "norm that is reported": 1.0})

        known = self.read()
        self.assertEqual(bug.missing(known, [training(1.0), training(1.0), training(2.0)]), "")
        self.assertIn("Shows has 'rest x 2'", bug.missing(known, [training(1.0), training(1.0), training(1.9)]))
        self.assertIn("without the bug, gradient of norms is 1.1 on two ranks",
                      bug.missing(known, [training(1.0), training(1.1), training(2.0)]))


class Texts(unittest.TestCase):
    def test_the_page_tells_of_all_and_of_no_other(self):
        known = {f"{one.name}: {one.title[0].lower()}{one.title[1:]}" for one in bug.read_bugs()}
        told = {f"{name}: {title[0].lower()}{title[1:]}"
                for name, title in re.findall(r"(?m)^### (\S+): (.+)$", PAGE)}
        self.assertEqual(told, known)

    def test_each_links_its_threads_and_says_what_finds_it(self):
        for one in bug.read_bugs():
            with self.subTest(one.name):
                story = re.search(rf"(?ms)^### {re.escape(one.name)}: .*?(?=^##|\Z)", PAGE)[0]
                for thread in one.fields["Thread"]:
                    self.assertIn(f"]({thread})", story)
                self.assertIn("**Why the loss looked right.**", story)
                self.assertIn("**What finds it.**", story)

    def test_the_counts_are_those_of_the_page(self):
        losses = gradients = 0
        for one in bug.read_bugs():
            block = bug.block_pattern(one).search(PAGE)[0]
            rows = re.findall(r"(?m)^(loss, step|gradient of|first moment of)\b(.*)$", block)
            right = [" x " not in row and not row.endswith("-") for _, row in rows]
            losses += right[0]
            gradients += right[0] and all(is_right for is_right, (kind, _) in zip(right, rows) if " of" in kind)
        count = len(bug.read_bugs())
        self.assertIn(f"| bugs rebuilt | {count} |\n| whose first loss is that of one rank | {losses} |\n"
                      f"| whose first gradient is, too | {gradients} |", PAGE)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        self.assertIn(f"Each of [these {count} real bugs](docs/bugs_that_shipped.md) of distributed training "
                      "fails a check here", readme)

    def test_the_chapter_of_each_leads_to_it(self):
        headings = {anchor(heading) for heading in re.findall(r"(?m)^##+ (.+)$", PAGE)}
        for folder in sorted(path for path in bug.PATCHES.iterdir() if path.is_dir()):
            with self.subTest(folder.name):
                texts = "\n".join(path.read_text(encoding="utf-8")
                                  for path in (ROOT / "chapters" / folder.name).rglob("*.md"))
                links = re.findall(r"docs/bugs_that_shipped\.md#([\w-]+)\)", texts)
                self.assertTrue(links, "no text of this chapter links the page")
                self.assertLessEqual(set(links), headings)


if __name__ == "__main__":
    unittest.main()
