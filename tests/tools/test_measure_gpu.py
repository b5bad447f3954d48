"""tools/measure_gpu.py, on programs that play the packed ones and Nsight Compute."""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import measure_gpu  # noqa: E402  (a folder of plain modules, not a package)

LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
STORES = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
EVENT = {"ladder": "toy", "rung": 1, "name": "naive", "right": True, "seed": 1,
         "sizes": {"rows": 4, "columns": 5}, "metrics": {LOADS: 1024, STORES: 8, "x.ratio": 2}}
CSV = f"""a line of the program's own
==PROF== Profiling
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","naive_kernel","{LOADS}","sector","1,000"
"1","second_kernel","{LOADS}","sector","24"
"0","naive_kernel","{STORES}","sector","9"
"""
PROGRAM = f"""#!{sys.executable}
import json, sys
if "--list" in sys.argv:
    print("toy: a ladder\\n  1 naive\\n\\nRun one: --kernel LADDER")
else:
    print("the table of", sys.argv[sys.argv.index("--kernel") + 1])
if "--metrics" in sys.argv:
    with open(sys.argv[sys.argv.index("--metrics") + 1], "w") as file:
        file.write(json.dumps({EVENT!r}) + "\\n")
"""


class MeasureGpu(unittest.TestCase):
    def test_sums_over_launches(self):
        self.assertEqual(measure_gpu.sums_of_csv(CSV), {LOADS: 1024.0, STORES: 9.0})

    def test_counters_are_compared(self):
        equal, different = measure_gpu.counter_rows(EVENT, measure_gpu.sums_of_csv(CSV))
        self.assertIn("| 1024 | 1024 | equal |", equal)
        self.assertIn("| 8 | 9 | DIFFERENT |", different)

    def test_a_metric_that_ncu_has_not_is_told(self):
        rows = list(measure_gpu.counter_rows(EVENT, {}))
        self.assertIn("not measured", rows[0])

    def write_program(self, path, text):
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def test_a_whole_run(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.write_program(folder / "09_kernels", PROGRAM)
            for test in measure_gpu.TESTS:
                self.write_program(folder / test, "#!/bin/sh\necho passed\n")
            tools = folder / "tools"
            tools.mkdir()
            self.write_program(tools / "nvidia-smi", "#!/bin/sh\necho 'A GPU, 1.0'\n")
            self.write_program(tools / "ncu", f"#!/bin/sh\ncat <<'END'\n{CSV}END\n")
            self.write_program(tools / "compute-sanitizer", "#!/bin/sh\nexit 9\n")
            done = subprocess.run(
                [sys.executable, ROOT / "tools/measure_gpu.py", "run", folder, folder / "results"],
                env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
                capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1, "the sanitizer found something")
            report = (folder / "results/report.md").read_text(encoding="utf-8")
            [event] = [json.loads(line) for line in
                       (folder / "results/gpu_toy.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertEqual(event["ladder"], "toy")
        for part in ("# Measured on A GPU", "the table of toy", "| 1024 | 1024 | equal |",
                     "sanitizer_racecheck.txt: exit code 9"):
            self.assertIn(part, report)

    def test_a_folder_that_is_not_packed(self):
        with tempfile.TemporaryDirectory() as name:
            done = subprocess.run([sys.executable, ROOT / "tools/measure_gpu.py", "run", name],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("measure_gpu.py pack", done.stderr)


if __name__ == "__main__":
    unittest.main()
