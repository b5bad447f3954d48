"""The text that programs train on by default is the one that was committed."""

import hashlib
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import make_text  # noqa: E402  (a plain module, not a package)

SHA256 = "e19b0e9db33cce1a34be1973ed7a7919e77eb40d573e091a068be5058d9f078d"


class WorkbooksText(unittest.TestCase):
    def test_is_what_every_loss_without_data_was_measured_on(self):
        text = make_text.TEXT.read_bytes()
        self.assertEqual(len(text), 999_938)
        self.assertEqual(hashlib.sha256(text).hexdigest(), SHA256)

    def test_is_a_text(self):
        make_text.TEXT.read_text(encoding="utf-8")


if __name__ == "__main__":
    unittest.main()
