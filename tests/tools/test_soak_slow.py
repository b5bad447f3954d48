"""tests/soak sees what it is there for: lost checkpoints, wrong numbers, errors, leftovers.

Its trainings are those of a stand-in here, which counts instead of training and has one fault.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOAK = pathlib.Path(__file__).resolve().parents[1] / "soak" / "soak.py"

STAND_IN = r"""#!/usr/bin/python3
import json, os, pathlib, shutil, struct, subprocess, sys, time

flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
folder = pathlib.Path(flags["--checkpoint"])
folder.mkdir(parents=True, exist_ok=True)
fault = os.environ["FAULT"] if "--resume" in flags else ""
old = sorted(folder.glob("step-*"))
first = int(old[-1].name[5:]) if old else 0
if fault == "forgets" and first > 5:
    shutil.rmtree(old[-1])
    time.sleep(60)  # until its kill
if fault == "begins anew" and first > 5:
    print(f"Goes on from '{folder}/step-00000001'", flush=True)
if fault == "leaves a process":
    subprocess.Popen(["/usr/bin/sleep", "60"], start_new_session=True)
if fault == "leaves folders":
    for number in range(5):
        (folder / f".unfinished-{number}-{os.getpid()}").mkdir()

def loss(step):
    return (1 + 1e-9 * (fault == "wrong loss" and step > 5)) / step

def write(step):
    staging = folder / f".{step}-{os.getpid()}"
    staging.mkdir()
    rows = [[n, loss(n)] for n in range(1, step + 1)]
    record = {"step_columns": ["step", "loss"], "steps": rows}
    (staging / "training.json").write_text(json.dumps(record))
    header = json.dumps({"w": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}).encode()
    weight = step * (1 + 1e-9 * (fault == "wrong weights"))
    (staging / "model.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header + struct.pack("<d", weight))
    staging.rename(folder / f"step-{step:08}")

for stale in folder.glob(".[0-9]*"):
    shutil.rmtree(stale)
for step in range(first + 1, int(flags["--steps"]) + 1):
    if fault == "fails" and step > 5:
        sys.exit("error: no more")
    time.sleep(0.01)
    write(step)
"""


class SoakSeesFaults(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.write_tool("trainer", STAND_IN)
        self.write_tool("mpirun", '#!/bin/sh\nshift 5\nexec "$@"\n')

    def write_tool(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def soak(self, fault, *arguments):
        """(exit code, all that it says) of a soak whose trainer has this fault."""
        environment = dict(os.environ, FAULT=fault, PATH=f"{self.folder}:{os.environ['PATH']}")
        done = subprocess.run(
            [sys.executable, str(SOAK), "--program", str(self.folder / "trainer"), "--kills", "8",
             "--steps", "60", "--longest-life", "0.3", "--end-limit", "5", "--seed", "1",
             "--folder", str(self.folder / "soak"), *arguments],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def figures(self):
        return json.loads((self.folder / "soak" / "figures.json").read_text())["figures"]

    def test_a_sound_training_passes_and_its_figures_are_written(self):
        report = self.folder / "soak.md"
        code, output = self.soak("", "--report", str(report))
        self.assertEqual(code, 0, output)
        figures = self.figures()
        self.assertGreaterEqual(sum(figures["kills"].values()), 8)
        self.assertGreaterEqual(figures["trainings"], 1)
        self.assertIn(f"| kills | {sum(figures['kills'].values())} |", report.read_text())

    def test_what_is_through_is_not_done_again(self):
        self.soak("")
        before = self.figures()
        code, output = self.soak("")
        self.assertEqual(code, 0, output)
        self.assertIn("Goes on after", output)
        self.assertEqual(self.figures(), before)
        code, output = self.soak("", "--steps", "61")
        self.assertEqual(code, 1, output)
        self.assertIn("is of another soak", output)

    def test_every_fault_is_found_and_named(self):
        for fault, message in {
                "forgets": "the newest checkpoint is of step",
                "begins anew": "it went on from step 1, not from",
                "wrong loss": "differ by 1.0e-09 of their value",
                "wrong weights": "the last weights differ by 1.0e-09",
                "fails": "it ended by itself with 1",
                "leaves a process": "these processes are left: {",
                "leaves folders": "unfinished folders pile up"}.items():
            with self.subTest(fault):
                folder = str(self.folder / fault.replace(" ", "_"))
                arguments = ["--end-limit", "0.5"] if fault == "leaves a process" else []
                code, output = self.soak(fault, "--folder", folder, *arguments)
                self.assertEqual(code, 1, output)
                self.assertIn(message, output)
                self.assertIn("Seed: 1", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
