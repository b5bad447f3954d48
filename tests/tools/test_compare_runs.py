"""Since when two runs differ: of checkpoints and metrics that this test writes itself."""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write_tensors(file, tensors):
    """A safetensors file of {name: (dtype, shape, bytes)}; where each begins."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values()))
    return 8 + len(text)


def floats(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


class CompareRuns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def save(self, run, step, table, states):
        """A checkpoint of a table [2, 2], of which two ranks wrote a row each; states by rank, as {begin: numbers}."""
        folder = self.folder / run / f"step-{step:08}"
        folder.mkdir(parents=True)
        begin = write_tensors(folder / "model.safetensors", {"table": ("F32", [2, 2], floats(*table))})
        for rank, pieces in enumerate(states):
            write_tensors(folder / f"optimizer-{rank:05}-of-{len(states):05}.safetensors",
                          {f"exp_avg/table@{at}": ("F32", [len(numbers)], floats(*numbers)) for at, numbers in pieces.items()})
        for rank in range(2):
            (folder / f"parts-{rank:05}-of-00002.json").write_text(
                json.dumps([{"file": "model.safetensors", "offset": begin + 8 * rank, "bytes": 8, "crc32": 0}]), encoding="utf-8")

    def compare(self, a, b):
        done = subprocess.run([sys.executable, "-B", ROOT / "tools/compare_runs.py", self.folder / a, self.folder / b],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_other_shards_of_the_same_numbers_are_equal(self):
        self.save("a", 1, [1, 2, 3, 4], [{0: [5, 6]}, {2: [7, 8]}])
        self.save("b", 1, [1, 2, 3, 4], [{0: [5, 6, 7]}, {3: [8]}])
        self.assertEqual(self.compare("a", "b"), (0, "All of 1 saved steps are equal in every bit, weights and states.\n"))

    def test_names_step_tensor_element_and_rank(self):
        for run, last in (("a", 4.0), ("b", 4.25)):
            self.save(run, 1, [1, 2, 3, 4], [{0: [5, 6]}, {2: [7, 8]}])
            self.save(run, 2, [1, 2, 3, last], [{0: [5, 6]}, {2: [7, last]}])
            self.save(run, 3, [9, 9, 9, last], [{0: [5, 6]}, {2: [7, 8]}])
        code, said = self.compare("a", "b")
        self.assertEqual(code, 1)
        self.assertIn("The first of 3 saved steps that differ is step 2; step 1 is equal in every bit.", said)
        self.assertIn("table: 1 of 4 elements, by up to 2.5e-01; the first is [1, 1], 4.0 of rank 1 and 4.25 of rank 1", said)
        self.assertIn("exp_avg of table: 1 of 4 elements; the first is 3, of rank 1 and of rank 1", said)

    def test_a_zero_with_a_sign_is_another_number(self):
        self.save("a", 1, [0.0, 2, 3, 4], [{0: [5]}])
        self.save("b", 1, [-0.0, 2, 3, 4], [{0: [5]}])
        self.assertEqual(self.compare("a", "b")[0], 1)

    def test_metrics_to_the_last_bit(self):
        for run, loss in (("a.jsonl", 2.5), ("b.jsonl", 2.5000000000000004)):
            lines = [{"event": "step", "step": step, "loss": loss if step == 2 else 3.0, "grad_norm": 1.0} for step in (1, 2)]
            (self.folder / run).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        code, said = self.compare("a.jsonl", "b.jsonl")
        self.assertEqual(code, 1)
        self.assertIn("is step 2", said)
        self.assertIn("loss: 2.5 and 2.5000000000000004", said)
        self.assertEqual(self.compare("a.jsonl", "a.jsonl")[0], 0)

    def test_what_is_no_run_is_said(self):
        self.save("a", 1, [1, 2, 3, 4], [{0: [5]}])
        self.save("later", 2, [1, 2, 3, 4], [{0: [5]}])
        (self.folder / "empty").mkdir()
        (self.folder / "text").write_text("a poem", encoding="utf-8")
        broken = self.folder / "broken/step-00000001"
        broken.mkdir(parents=True)
        (broken / "model.safetensors").write_bytes(b"nothing of the kind")
        for a, b, words in (("a", "nowhere", "there is no"), ("a", "text", "two folders of --checkpoint, or two files"),
                            ("a", "empty", "has no step-* of a checkpoint"), ("a", "later", "no step in common"),
                            ("text", "text", "no file of --metrics"), ("a", "broken", "is no safetensors file")):
            code, said = self.compare(a, b)
            self.assertEqual(code, 2, said)
            self.assertIn(words, said)


if __name__ == "__main__":
    unittest.main()
