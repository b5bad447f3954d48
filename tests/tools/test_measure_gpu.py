"""tools/measure_gpu.py, on programs that play the packed ones and Nsight Compute."""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import gpu_machine  # noqa: E402  (a folder of plain modules, not a package)
import measure_gpu  # noqa: E402

LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
STORES = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
EVENT = {"ladder": "toy", "rung": 1, "name": "naive", "right": True, "seed": 1,
         "status": "right", "rate": 12.5, "unit": "GB/s", "median_seconds": 0.002,
         "of_ceiling": 0.5, "ceiling": {"name": "cuBLAS", "rate": 25.0},
         "sizes": {"rows": 4, "columns": 5}, "metrics": {LOADS: 1024, STORES: 8, "x.ratio": 2}}
CSV = f"""a line of the program's own
==PROF== Profiling
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","naive_kernel","{LOADS}","sector","1,000"
"1","second_kernel","{LOADS}","sector","24"
"0","naive_kernel","{STORES}","sector","9"
"""
PROGRAM = f"""#!{sys.executable}
import json, sys, time
if "--list" in sys.argv:
    print("toy: a ladder\\n   1  naive   one\\n      kernels/toy/hopper/01_naive.cu\\n   2  middle   one\\n   3  hanging   none\\n\\nRun one: --kernel")
elif "toy/3" in sys.argv:
    print("begins", flush=True)
    time.sleep(60)
if "--metrics" in sys.argv:
    with open(sys.argv[sys.argv.index("--metrics") + 1], "w") as file:
        file.write(json.dumps({EVENT!r}) + "\\n")
"""
TESTS = """#!/bin/sh
case "$*" in
  *list_tests*) printf 'Suite.\\n  AreRightForAnyShape/toy_1  # GetParam() = 7\\n  AreRightForAnyShape/toy_2\\n';;
  *) echo passed;;
esac
"""
CLOCKS = """#!/bin/sh
case "$*" in
  *loop*) echo '1980, 2619, 350.1, 40, 0x0000000000000004'; exec sleep 60;;
  *) echo 'A GPU, 1.0';;
esac
"""


class Parts(unittest.TestCase):
    def test_sums_over_launches(self):
        self.assertEqual(gpu_machine.sums_of_csv(CSV), {LOADS: 1024.0, STORES: 9.0})

    def test_counters_are_compared(self):
        equal, different = measure_gpu.counter_rows(EVENT, gpu_machine.sums_of_csv(CSV))
        self.assertIn("| 1024 | 1024 | equal |", equal)
        self.assertIn("| 8 | 9 | DIFFERENT |", different)

    def test_a_metric_that_ncu_has_not_is_told(self):
        rows = list(measure_gpu.counter_rows(EVENT, {}))
        self.assertIn("not measured", rows[0])


class MeasureGpu(unittest.TestCase):
    """Whole runs in a folder of their own."""

    def setUp(self):
        name = tempfile.TemporaryDirectory()
        self.addCleanup(name.cleanup)
        self.folder = pathlib.Path(name.name)
        self.write_program(self.folder / "09_kernels", PROGRAM)
        for test in (*measure_gpu.STREAMS, *measure_gpu.TESTS, measure_gpu.OPERATIONS, measure_gpu.LAYOUTS):
            self.write_program(self.folder / test, TESTS)
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        self.write_program(self.tools / "nvidia-smi", CLOCKS)
        # Clocks that are held down would change what is measured.
        self.write_program(self.tools / "ncu", "#!/bin/sh\ncase \"$*\" in *'--clock-control none'*) ;; "
                           f"*) exit 1;; esac\ncat <<'END'\n{CSV}END\n")
        (self.folder / measure_gpu.EMULATED).mkdir()
        for rung in (1, 2):
            (self.folder / measure_gpu.EMULATED / f"toy_{rung}.jsonl").write_text(
                json.dumps({**EVENT, "rung": rung}), encoding="utf-8")
        self.write_program(self.tools / "compute-sanitizer", "#!/bin/sh\nexit 9\n")

    def write_program(self, path, text):
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def measure(self, *words):
        return subprocess.run(
            [sys.executable, ROOT / "tools/measure_gpu.py", *words, "--folder", self.folder,
             "--output", self.folder / "results"],
            env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False)

    def report(self):
        return (self.folder / "results/report.md").read_text(encoding="utf-8")

    def test_tests_have_a_process_each(self):
        self.assertEqual(self.measure("test").returncode, 0)
        self.assertEqual(self.report().count("| Suite.AreRightForAnyShape/toy_1 | right |"), 2)
        self.assertIn("# Measured on A GPU", self.report())

    def test_layouts_have_a_process_each(self):
        self.assertEqual(self.measure("gpu-tests").returncode, 0)
        self.assertIn("| Suite.AreRightForAnyShape/toy_1 | right |", self.report())

    def test_operations_have_a_process_for_each_group_and_run_on_the_gpu(self):
        self.write_program(self.folder / measure_gpu.OPERATIONS,
                           TESTS + 'test "$ULTRA_TEST_DEVICE" = cuda || exit 1\n')
        self.assertEqual(self.measure("gpu-tests").returncode, 0)
        self.assertEqual(self.report().count("| Suite | right |"), 1)

    def test_a_training_beside_one_that_cannot_run(self):
        training = {"mfu": 0.5, "tokens_per_second": 1000.0, "teraflops": 494.5, "peak_bytes": 2e10}
        self.write_program(self.folder / measure_gpu.TRAINING,
                           PROGRAM.replace(repr(EVENT), repr(training)))
        done = self.measure("train", "llama-1b", "--only", "vendor|eager")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("| train llama-1b vendor | 1000 | 494.5 | 50.0% | 20.0 | 1980 | 350 | "
                      "power cap | right |", self.report())

    def test_kernels_of_a_training(self):
        self.write_program(self.tools / "ncu", "#!/bin/sh\ncat <<'END'\n"
                           '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
                           '"0","void a::first<int>(int *)","gpu__time_duration.sum","ns","1,500,000"\n'
                           '"1","second(float)","gpu__time_duration.sum","ns","4,000,000"\n'
                           '"2","void a::first<float>(int *)","gpu__time_duration.sum","ns","500,000"\n'
                           "END\n")
        self.assertEqual(self.measure("profile", "llama-1b", "--only", "ours").returncode, 0)
        self.assertIn("| profile llama-1b ours | `second` | 1 | 4.00 |\n"
                      "| profile llama-1b ours | `a::first` | 2 | 2.00 |\n", self.report())

    def test_times_and_clocks_of_a_rung(self):
        done = self.measure("time", "toy", "--only", "toy/1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("| toy/01 naive | 2.0000 | 12.5 GB/s | 25.0: cuBLAS | 50.0% | 1980 | 350 | "
                      "power cap | right |", self.report())
        kept = json.loads((self.folder / "results/times.jsonl").read_text(encoding="utf-8"))
        self.assertEqual((kept["ladder"], kept["rate"], kept["ceiling"], kept["megahertz"]),
                         ("toy", 12.5, {"name": "cuBLAS", "rate": 25.0}, 1980.0))
        with tarfile.open(self.folder / "results.tar.gz") as archive:
            self.assertIn("results/report.md", archive.getnames())

    def test_a_ladder_is_timed_in_one_process_and_what_is_left_alone(self):
        self.measure("time", "toy", "--limit", "2")
        units = [json.loads(line)["unit"] for line in
                 (self.folder / "results/done.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertEqual(units, ["time toy", "time toy/2", "time toy/3"])

    def test_a_rung_is_timed_again_when_asked(self):
        self.measure("time", "toy", "--limit", "2")
        self.measure("time", "toy", "--only", "toy/1")
        self.assertEqual(self.report().count("| toy/01 naive |"), 1, "its ladder was timed")
        self.measure("time", "toy", "--only", "toy/1", "--again")
        self.assertEqual(self.report().count("| toy/01 naive |"), 2)

    def test_tests_run_beside_each_other_when_asked(self):
        # Each waits until the other has begun.
        self.write_program(self.folder / measure_gpu.LAYOUTS, TESTS.replace(
            "*) echo passed;;", f"*) touch {self.folder}/began_$$; i=0; "
            f"while test $(ls {self.folder}/began_* | wc -l) -lt 2; do sleep 0.1; i=$((i+1)); "
            "test $i -lt 100 || exit 1; done;;"))
        self.assertEqual(self.measure("gpu-tests", "--jobs", "2").returncode, 0, self.report())

    def test_a_rung_that_hangs_is_killed_and_the_rest_goes_on(self):
        done = self.measure("time", "toy", "--limit", "2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("| toy/03 | - | - | - | - | 1980 | 350 | power cap | KILLED", self.report())
        self.assertIn("time toy/3: KILLED: it took longer than its limit: begins", self.report())
        self.assertIn("toy/01 naive", self.report())

    def test_a_budget_ends_before_a_process_and_the_next_call_goes_on(self):
        self.assertEqual(self.measure("test", "--budget", "0").returncode, 3)
        self.assertNotIn("toy_1", self.report())
        self.measure("test")
        self.measure("test")
        self.assertEqual(self.report().count("| Suite.AreRightForAnyShape/toy_1 |"), 2,
                         "what is done is not done again")

    def test_what_the_sanitizer_finds(self):
        self.assertEqual(self.measure("sanitize", "racecheck").returncode, 1)
        self.assertIn("| racecheck | Suite.AreRightForAnyShape/toy_1 | FAILED: exit code 9 |",
                      self.report())

    def test_a_process_that_outlives_the_budget_begins_again_in_the_next_call(self):
        self.assertEqual(self.measure("time", "toy", "--budget", "3").returncode, 3)
        self.assertNotIn("KILLED", self.report())
        self.write_program(self.folder / "09_kernels", PROGRAM.replace("sleep(60)", "sleep(0)"))
        self.measure("time", "toy")
        self.assertIn("| toy/03 naive | 2.0000", self.report())
        self.assertEqual(self.report().count("| toy/01 naive |"), 1)

    def test_a_run_begins_with_streams_headlines_and_training(self):
        self.write_program(self.folder / measure_gpu.TRAINING, "#!/bin/sh\nexit 0\n")
        self.measure("run", "--limit", "1")
        done = [json.loads(line)["unit"] for line in
                (self.folder / "results/done.jsonl").read_text(encoding="utf-8").splitlines()]
        firsts = ["test test.common.gpu", "test test.kernels.simt.gpu Suite.AreRightForAnyShape/toy_1",
                  "time PyTorch's attention", "train gpt2-124m vendor", "train llama-1b ours",
                  "gpu-tests Suite", "time toy", "sanitize memcheck Suite.AreRightForAnyShape/toy_1",
                  "ncu toy/1"]
        self.assertEqual([unit for unit in done if unit in firsts], firsts)
        self.assertEqual(len(done), len(set(done)), "nothing is done twice")

    def test_counters_beside_each_other(self):
        self.measure("counters", "--only", "toy/1")
        self.assertIn("| 1024 | 1024 | equal |", self.report())

    def test_what_takes_long_takes_last_rungs_and_hoppers_unless_asked(self):
        self.measure("counters")
        self.assertNotIn("toy/02", self.report())
        self.measure("sanitize", "memcheck")
        self.assertNotIn("toy_2", self.report())
        self.measure("counters", "--only", "ncu")
        self.measure("sanitize", "memcheck", "--only", "toy_2")
        self.assertIn("toy/02", self.report())
        self.assertIn("toy_2", self.report())

    def test_a_pack_that_is_too_large_is_an_error(self):
        with unittest.mock.patch.object(measure_gpu, "MOST_BYTES", 10), \
                self.assertRaisesRegex(SystemExit, "too large to be carried"):
            measure_gpu.compress(self.folder / measure_gpu.EMULATED)
        with tarfile.open(self.folder / f"{measure_gpu.EMULATED}.tar.xz") as archive:
            self.assertIn(f"{measure_gpu.EMULATED}/toy_1.jsonl", archive.getnames())

    def test_words_that_cannot_be(self):
        for words in (["sanitize", "speed"], ["test", "toy"], ["time", "--only", "("], ["test", "--jobs", "0"], ["fly"]):
            self.assertEqual(self.measure(*words).returncode, 2, words)

    def test_a_folder_that_is_not_packed(self):
        (self.folder / "09_kernels").unlink()
        done = self.measure("time")
        self.assertEqual(done.returncode, 1)
        self.assertIn("measure_gpu.py pack", done.stderr)


if __name__ == "__main__":
    unittest.main()
