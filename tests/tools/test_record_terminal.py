"""docs/figures/record_terminal.py shows what a terminal showed, in its order."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "docs/figures/record_terminal.py"


class Recording(unittest.TestCase):
    def setUp(self):
        try:
            for end in os.openpty():
                os.close(end)
        except OSError as error:
            self.skipTest(f"this machine has no terminals: {error}")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = pathlib.Path(folder.name) / "recording.svg"

    def record(self, script, *options):
        return subprocess.run([sys.executable, str(TOOL), "--output", str(self.output), *options, "--", "bash", "-c", script],
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    def texts(self):
        """The lines of the picture: (row's y, text, whether it is gone at the end)."""
        picture = xml.dom.minidom.parse(str(self.output))
        return [(float(one.getAttribute("y")), one.firstChild.data, one.getAttribute("class") == "gone")
                for one in picture.getElementsByTagName("text")]

    def test_lines_that_are_overwritten_are_gone_at_the_end(self):
        done = self.record(r"""echo 'a < b & c'; printf 'step 1'; sleep 1; printf '\r\033[Kstep 2\n'; echo 'größer'""")
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = self.texts()
        self.assertEqual([text for _, text, gone in shown if not gone], ["a < b & c", "step 2", "größer"])
        self.assertEqual([text for _, text, gone in shown if gone], ["step 1"])
        rows = {text: y for y, text, _ in shown}
        self.assertEqual(rows["step 1"], rows["step 2"])
        self.assertLess(rows["a < b & c"], rows["step 2"])

    def test_long_pauses_are_shortened_and_the_true_time_is_told(self):
        self.assertEqual(self.record("echo one; sleep 4; echo two").returncode, 0)
        picture = self.output.read_text(encoding="utf-8")
        length = float(re.search(r"animation: k0 ([\d.]+)s", picture)[1])
        self.assertLess(length, 3 * 1.2 + 6.0 + 0.1)  # pauses, before the first line too, and the last screen
        self.assertGreaterEqual(int(re.search(r"<title>.* (\d+) seconds; pauses are shortened</title>", picture)[1]), 4)

    def test_the_first_rows_alone(self):
        self.assertEqual(self.record("seq 9; yes | head -n 1", "--rows", "3").returncode, 0)
        self.assertEqual([text for _, text, _ in self.texts()], ["1", "2", "3"])

    def test_a_command_that_fails_leaves_no_picture(self):
        done = self.record("echo something; exit 3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with exit code 3; nothing was written", done.stderr)
        self.assertFalse(self.output.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
