"""Reports of ptxas: kept by the compiler's launcher, and read by the test that finds spills."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernels/ptxas"))
import no_spills  # noqa: E402  (a folder of plain modules, not a package)

KERNEL = "_ZN5ultra12_GLOBAL__N_112tiled_kernelEPKf"
CLEAN = f"""ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{KERNEL}' for 'sm_80'
ptxas info    : Function properties for {KERNEL}
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8192 bytes smem, 388 bytes cmem[0]
"""
SPILLING = CLEAN.replace("sm_80", "sm_90a").replace(
    "0 bytes stack frame, 0 bytes spill stores", "16 bytes stack frame, 24 bytes spill stores")


class Reading(unittest.TestCase):
    def test_registers_and_shared_memory(self):
        [kernel] = no_spills.parse(CLEAN)
        self.assertEqual((kernel.architecture, kernel.faults), ("sm_80", []))
        self.assertEqual((kernel.registers, kernel.shared_bytes), (40, 8192))
        self.assertEqual(no_spills.demangle([KERNEL])[KERNEL], "tiled_kernel")

    def test_spills_name_architecture_and_bytes(self):
        clean, spilling = no_spills.parse(CLEAN + SPILLING)
        self.assertEqual(clean.faults, [])
        self.assertEqual(spilling.architecture, "sm_90a")
        self.assertEqual(spilling.faults, ["16 bytes of stack frame", "24 bytes of spill stores"])

    def test_lost_performance_is_a_fault(self):
        lost = ("ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions "
                "are serialized due to insufficient register resources\n")
        source = ROOT / "kernels/ladders/matmul/matmul_fp32/01_naive.cu"
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / f"{source.relative_to(ROOT)}.txt"
            report.parent.mkdir(parents=True)
            report.write_text(lost + CLEAN, encoding="utf-8")  # as ptxas orders them
            [fault] = no_spills.check(pathlib.Path(folder), [source])
        self.assertIn("serialized", fault)

    def test_template_arguments_stay_in_the_name(self):
        self.assertEqual(
            no_spills.short_name("void a::(anonymous namespace)::x_kernel<128, (a::(anonymous "
                                 "namespace)::Kind)1>(float const*)"),
            "x_kernel<128, (Kind)1>")

    def test_a_source_without_a_report_is_a_fault(self):
        source = ROOT / "kernels/ladders/matmul/matmul_fp32/01_naive.cu"
        with tempfile.TemporaryDirectory() as folder:
            [fault] = no_spills.check(pathlib.Path(folder), [source])
        self.assertIn("kernels/ladders/matmul/matmul_fp32/01_naive.cu", fault)
        self.assertIn("What to do", fault)

    def test_the_sources_are_the_rungs(self):
        names = {str(path.relative_to(ROOT)) for path in no_spills.kernel_sources()}
        self.assertIn("kernels/ladders/matmul/matmul_fp32/01_naive.cu", names)
        self.assertIn("solutions/09_kernels/coalesced_matmul.cu", names)
        self.assertFalse({n for n in names if n.startswith(("kernels/simt/", "exercises/"))})


class Keeping(unittest.TestCase):
    """The launcher around a compiler that is a shell command."""

    def launch(self, script):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, ROOT / "cmake/keep_ptxas_report.py", folder, "sh", "-c", script],
                cwd=ROOT, capture_output=True, text=True, check=False)
            # For sh the script stands where nvcc has the source: it names the report.
            reports = [path for path in pathlib.Path(folder).rglob("*.txt") if path.is_file()]
            return done, [path.read_text(encoding="utf-8") for path in reports]

    def test_the_report_is_kept_and_the_rest_is_said(self):
        done, reports = self.launch("echo 'ptxas info : Used 4 registers' >&2; echo careful >&2")
        self.assertEqual((done.returncode, done.stderr), (0, "careful\n"))
        self.assertEqual(reports, ["ptxas info : Used 4 registers\n"])

    def test_what_does_not_compile_leaves_no_report(self):
        done, reports = self.launch("echo wrong >&2; exit 3")
        self.assertEqual((done.returncode, done.stderr, reports), (3, "wrong\n", []))


if __name__ == "__main__":
    unittest.main()
