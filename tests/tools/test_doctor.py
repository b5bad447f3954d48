"""doctor: what a machine has and lacks, seen through fake programs and a fake /proc."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from blas_kernels import better_kernels  # noqa: E402  (after the path)

PACKAGES = [line.split() for line in (ROOT / "tools/packages.txt").read_text(encoding="utf-8").splitlines()
            if line.strip() and not line.startswith("#")]
TWO_GPUS = ("NVIDIA H100 80GB HBM3, 81559 MiB, 550.54, 345 MHz, 1980 MHz\n"
            "NVIDIA H100 80GB HBM3, 81559 MiB, 550.54, 345 MHz, 1980 MHz")
MATRIX = " \tGPU0\tGPU1\n GPU0\tX\t{0}\n GPU1\t{0}\tX\n\nLegend:\n  X    = Self\n  OK   = Status Ok"


class Doctor(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.bin = pathlib.Path(temporary.name, "bin")
        self.node = pathlib.Path(temporary.name, "node")
        self.bin.mkdir()
        (self.node / "dev/shm").mkdir(parents=True)
        self.file("proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n")
        self.file("proc/loadavg", "0.05 0.1 0.1 1/100 1\n")
        self.fake("dpkg-query", "\n".join(f"{name} installed" for _, name in PACKAGES))
        self.fake("mpirun", "mpirun (Open MPI) 4.1.4\n\nReport bugs to its authors")

    def file(self, path, text):
        (self.node / path).parent.mkdir(parents=True, exist_ok=True)
        (self.node / path).write_text(text, encoding="utf-8")

    def fake(self, name, output, code=0):
        answer = self.bin / f"{name}.answer"
        answer.write_text(output + "\n", encoding="utf-8")
        self.script(name, f"cat {answer}; exit {code}")

    def script(self, name, script):
        (self.bin / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n", encoding="utf-8")
        (self.bin / name).chmod(0o755)

    def fake_gpus(self, access):
        (self.bin / "gpus").write_text(TWO_GPUS + "\n", encoding="utf-8")
        (self.bin / "matrix").write_text(MATRIX.format(access) + "\n", encoding="utf-8")
        self.script("nvidia-smi", f'[ "$1" = topo ] && exec cat {self.bin}/matrix; exec cat {self.bin}/gpus')

    def doctor(self, code=0):
        done = subprocess.run([sys.executable, "-B", str(ROOT / "tools/doctor.py")], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": str(self.bin), "WORKBOOK_DOCTOR_ROOT": str(self.node)})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def line(self, text, what):
        found = [line for line in text.splitlines() if line[10:].startswith(f"{what} ")]
        self.assertEqual(len(found), 1, f"{what}: {text}")
        return found[0]

    def test_a_machine_that_has_what_is_needed(self):
        text = self.doctor()
        self.assertIn("ok      packages          all there", text)
        self.assertIn("ok      MPI               mpirun (Open MPI) 4.1.4", text)
        self.assertIn("16 GiB free", self.line(text, "memory"))
        self.assertIn("--device emulated", self.line(text, "GPU"))
        self.assertIn("0 missing", text)
        self.assertLessEqual(len(text.splitlines()), 24, "one screen")

    def test_packages_that_are_missing_are_named_by_what_needs_them(self):
        self.fake("dpkg-query", "\n".join(f"{name} installed" for _, name in PACKAGES if name not in ("cmake", "openmpi-bin")))
        text = self.doctor(code=1)
        self.assertIn("missing packages: build   cmake: ./workbook setup installs them", text)
        self.assertIn("missing packages: mpi     openmpi-bin:", text)
        self.assertIn("2 missing", text)

    def test_no_debian(self):
        (self.bin / "dpkg-query").unlink()
        self.assertIn("use the container", self.line(self.doctor(), "packages"))

    def test_another_mpi_and_none(self):
        self.fake("mpirun", "HYDRA build details:")
        self.assertIn("tried with Open MPI only", self.line(self.doctor(), "MPI"))
        (self.bin / "mpirun").unlink()
        self.assertIn("ranks are threads", self.line(self.doctor(), "MPI"))

    def test_gpus_with_and_without_access_to_each_other(self):
        self.fake_gpus("OK")
        self.fake("nvcc", "Cuda compilation tools, release 13.0, V13.0.48")
        text = self.doctor()
        self.assertIn("NVIDIA H100 80GB HBM3, 81559 MiB, driver 550.54, 345 MHz of 1980 MHz", self.line(text, "GPU 1"))
        self.assertIn("13.0", self.line(text, "CUDA Toolkit"))
        self.assertIn("between all GPUs", self.line(text, "peer access"))
        self.fake_gpus("CNS")
        self.assertIn("2 of 2 ways are closed", self.line(self.doctor(), "peer access"))

    def test_a_gpu_without_a_toolkit(self):
        self.fake_gpus("OK")
        self.assertIn("no nvcc in PATH", self.line(self.doctor(code=1), "CUDA Toolkit"))

    def test_a_busy_machine_with_little_memory_and_varying_clocks(self):
        self.file("proc/loadavg", "64.00 1 1 1/1 1\n")
        self.file("proc/meminfo", "MemAvailable: 1048576 kB\n")
        self.file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
        text = self.doctor()
        self.assertIn("1 GiB free of 8", self.line(text, "memory"))
        self.assertIn("governor powersave", self.line(text, "clocks"))
        self.assertIn("others compute", self.line(text, "load"))

    def test_kernels_of_a_processor_that_is_newer_than_openblas(self):
        old, new = "flags\t\t: fpu sse2 avx fma avx2", "flags\t\t: fpu fma avx2 avx512f avx512dq avx512bw avx512vl amx_tile"
        for chosen, cpuinfo, better in [("Prescott", old, "Haswell"), ("Prescott", new, "SkylakeX"), ("Haswell", new, ""),
                                        ("Prescott", "flags : fpu sse2", ""), ("Prescott", "Features : asimd", ""), ("", new, "")]:
            self.assertEqual(better_kernels(chosen, cpuinfo), better, (chosen, cpuinfo))


if __name__ == "__main__":
    unittest.main()
