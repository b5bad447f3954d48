"""tools/plan_here.py: from a plan to the flags of a run, with a program that only pretends."""

import json
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import plan_here  # noqa: E402

LAYOUT = {"layout": "dp 2, ZeRO-1", "dp": 2, "pp": 1, "cp": 1, "tp": 1, "zero": 1, "hybrid_shard": 0,
          "schedule": "1f1b", "recompute": "none", "micro_batch": 4, "step_seconds": 0.5,
          "memory": {"parameters": 4e6, "gradients": 4e6, "optimizer": 4e6}}

PROGRAM = """#!/usr/bin/env python3
import json, sys
words = sys.argv[1:]
if "--profile-machine" in words:
    print("{}")
elif "--plan" in words:
    print(json.dumps({"layouts": [LAYOUT]}))
elif ["--dp", "2", "--zero", "1"] == words[words.index("--dp"):][:4]:
    steps = [{"event": "step", "tokens_per_second": 4096.0}] * 6
    states = {"parameters": 4e6, "gradients": 4e6, "optimizer": 4e6}
    with open(words[-1], "w") as file:
        for event in [*steps, {"event": "summary", "ranks": [{"peak_bytes": states}]}]:
            file.write(json.dumps(event) + "\\n")
else:
    sys.exit("error: other flags")
"""


class PlanHere(unittest.TestCase):
    def run_with(self, program):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "program"
            path.write_text(program, encoding="utf-8")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
            return subprocess.run([sys.executable, TOOLS / "plan_here.py", path], check=False,
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def test_sets_the_run_beside_the_plan(self):
        done = self.run_with(PROGRAM.replace("LAYOUT", repr(LAYOUT)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("dp 2, ZeRO-1", done.stdout)
        self.assertRegex(done.stdout, r"milliseconds of a step +500\.0 +500\.0 +\+0\.0 %")
        self.assertRegex(done.stdout, r"MB of states on a rank +12\.000 +12\.000 +\+0\.0 %")

    def test_says_what_the_program_said_when_it_fails(self):
        done = self.run_with("#!/bin/sh\necho 'error: no ranks' >&2; exit 2\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no plan for this machine: error: no ranks", done.stderr)

    def test_flags_name_what_is_not_the_default(self):
        layout = json.loads(json.dumps(LAYOUT))
        layout.update(pp=2, tp=2, sequence_parallel=True, recompute="full", schedule="zb-v", hybrid_shard=4)
        self.assertEqual(plan_here.flags_of(layout),
                         ["--dp", "2", "--pp", "2", "--tp", "2", "--zero", "1", "--hybrid-shard", "4",
                          "--schedule", "zb-v", "--recompute", "full", "--sp", "on", "--micro-batch", "4"])


if __name__ == "__main__":
    unittest.main()
