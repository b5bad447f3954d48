"""tools/tokenize_text.py as far as it needs no package; tests/peers/test_tokens.py has the rest."""

import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import tokenize_text  # noqa: E402


class Pieces(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.text = pathlib.Path(self.folder.name) / "text"

    def pieces(self, content, size):
        self.addCleanup(setattr, tokenize_text, "PIECE", tokenize_text.PIECE)
        tokenize_text.PIECE = size
        self.text.write_bytes(content.encode())
        return list(tokenize_text.pieces_of(self.text))

    def test_are_the_text_and_end_between_two_lines(self):
        seed = random.SystemRandom().randrange(2**32)
        draw = random.Random(seed)
        content = "".join(draw.choice(("a", "é", " ", "\n", "\n\n", "\r\n", "x y\n")) for _ in range(3000))
        found = self.pieces(content, 40)
        self.assertEqual("".join(piece for piece, _ in found), content, f"seed {seed}")
        self.assertEqual(sum(size for _, size in found), len(content.encode()))
        self.assertGreater(len(found), 3)
        for (before, _), (after, _) in zip(found, found[1:]):
            self.assertTrue(before.endswith("\n") and not before[-2].isspace(), f"seed {seed}")
            self.assertFalse(after[0].isspace(), f"seed {seed}")

    def test_of_a_text_without_lines_are_one(self):
        self.assertEqual(len(self.pieces("word " * 100, 10)), 1)

    def test_of_an_empty_text_are_none(self):
        self.assertEqual(self.pieces("", 10), [])

    def test_of_no_text_are_refused(self):
        for content, part in ((None, "does not exist"), (b"caf\xe9 au lait", "is not UTF-8")):
            if content:
                self.text.write_bytes(content)
            with self.assertRaisesRegex(tokenize_text.Refused, part):
                list(tokenize_text.pieces_of(self.text))


class Tool(unittest.TestCase):
    def test_says_in_one_line_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-S", ROOT / "tools/tokenize_text.py", folder,
                                   "text", "out.bin"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertRegex(done.stderr, "^error: .*(tokenizers is not installed|no tokenizer.json)")

    def test_hides_no_module_of_python(self):
        self.assertFalse((ROOT / "tools" / "tokenize.py").exists())


if __name__ == "__main__":
    unittest.main()
