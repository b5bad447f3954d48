"""Measures chapter 09's kernels on a machine with a GPU.

    measure_gpu.py pack [FOLDER]           where the workbook builds: programs and their libraries
    measure_gpu.py run  [FOLDER [OUTPUT]]  where the GPU is: needs Python and the driver only

FOLDER is build/gpu_pack unless given; carry it and this file to the other machine. run writes
OUTPUT (gpu_results unless given): report.md, the tables and the JSON of every ladder, and the logs.
It tests every rung, with compute-sanitizer where that is installed; times every ladder; and, where
ncu is installed, compares what the emulator counts with what Nsight Compute measures. Exit code 1
when something is wrong.
"""

import csv
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = "09_kernels"
TESTS = ("test.kernels.simt.gpu", "test.chapters.09_kernels.gpu")
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
# The C library is the other machine's own; it must be as new as the one here.
OF_THE_SYSTEM = re.compile(r"^(ld-linux|lib(c|m|dl|rt|pthread)\.so)")
# What Nsight Compute counts over all instructions and the emulator over what is recorded.
NOT_COMPARED = ("smsp__sass_branch_targets", "smsp__thread_inst")


def say(text):
    print(text, flush=True)


# --- pack ----------------------------------------------------------------------------------------

def libraries_of(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [path for path in map(pathlib.Path, re.findall(r"=> (/\S+)", listed))
            if not OF_THE_SYSTEM.match(path.name)]


def build_programs(build):
    """For any processor of this kind, and with no library that is not used."""
    subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DULTRA_CUDA=ON", "-DULTRA_MPI=OFF", "-DULTRA_URING=OFF", "-DULTRA_NATIVE=OFF",
                    "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed"], check=True)
    subprocess.run(["cmake", "--build", build, "--target", f"{PROGRAM}_main", *TESTS], check=True)


def collect(build, folder):
    """Copies the programs of a build, stripped, and their libraries."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lib").mkdir(parents=True)
    programs = [build / "bin" / PROGRAM, *(build / "tests" / test for test in TESTS)]
    for program in programs:
        shutil.copy(program, folder)
        subprocess.run(["strip", folder / program.name], check=True)
        for library in libraries_of(program):
            shutil.copy(library, folder / "lib")


def pack(folder):
    build_programs(ROOT / "build/gpu")
    collect(ROOT / "build/gpu", folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    say(f"{folder}: {size / 1e6:.0f} MB. Next, on the machine with the GPU: "
        f"python3 measure_gpu.py run {folder.name}")


# --- run -----------------------------------------------------------------------------------------

def cublas_folders():
    """Where cuBLAS may be: the toolkit's folders, and those of Python's packages."""
    patterns = ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib"]
    patterns += [f"{path}/nvidia/*/lib" for path in sys.path if path.endswith("-packages")]
    found = []
    for pattern in patterns:
        found += [str(path.parent)
                  for path in pathlib.Path("/").glob(f"{pattern[1:]}/libcublas.so.*")]
    return list(dict.fromkeys(found))


class Machine:
    """Runs the packed programs and keeps what they say."""

    def __init__(self, folder, output):
        self.folder, self.output, self.failures = folder.resolve(), output, []
        self.output.mkdir(parents=True, exist_ok=True)
        libraries = [str(self.folder / "lib"), *cublas_folders()]
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(
            [*libraries, os.environ.get("LD_LIBRARY_PATH", "")])}

    def run(self, log, *words):
        """Runs a command with its output in OUTPUT/log; returns its text, also when it fails."""
        try:
            done = subprocess.run([str(word) for word in words], text=True, errors="replace",
                                  env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            code, text = done.returncode, done.stdout
        except OSError as error:
            code, text = error.errno, str(error)
        (self.output / log).write_text(text, encoding="utf-8")
        if code != 0:
            self.failures.append(f"{log}: exit code {code}: {text.strip().splitlines()[-1:]}")
        elif "[  SKIPPED ]" in text:
            self.failures.append(f"{log}: tests were skipped; is there a GPU?")
        say(f"{'FAILED' if code else 'done'}: {log}")
        return text

    def program(self, log, *words):
        return self.run(log, self.folder / PROGRAM, *words)

    def test(self):
        for test in TESTS:
            self.run(f"{test}.txt", self.folder / test)
        if shutil.which("compute-sanitizer"):
            for tool in SANITIZERS:
                self.run(f"sanitizer_{tool}.txt", "compute-sanitizer", "--tool", tool,
                         "--error-exitcode", "9", self.folder / TESTS[-1])

    def ladders(self):
        return re.findall(r"^(\w+): ", self.program("list.txt", "--list"), re.MULTILINE)

    def events(self, name, *words):
        path = self.output / f"{name}.jsonl"
        text = self.program(f"{name}.txt", *words, "--metrics", path)
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return text, [json.loads(line) for line in lines]

    def measured_counters(self, event):
        """What ncu says of one rung at the sizes of an emulated run."""
        rung = f"{event['ladder']}/{event['rung']}"
        sizes = "x".join(str(size) for size in event["sizes"].values())
        text = self.run(f"ncu_{event['ladder']}_{event['rung']:02}.csv", "ncu", "--csv",
                        "--print-units", "base", "--metrics", ",".join(event["metrics"]),
                        self.folder / PROGRAM, "--gpu", "--repetitions", "0", "--kernel", rung,
                        "--size", sizes, "--seed", event["seed"])
        return sums_of_csv(text)


def sums_of_csv(text):
    """Metric -> its sum over the launches that ncu lists; other lines are the program's own."""
    rows = [line for line in text.splitlines() if line.startswith('"')]
    sums = {}
    for row in csv.DictReader(io.StringIO("\n".join(rows))):
        value = float(row["Metric Value"].replace(",", "")) if row["Metric Value"] else 0.0
        sums[row["Metric Name"]] = sums.get(row["Metric Name"], 0.0) + value
    return sums


def counter_rows(event, measured):
    """Lines of a table: one per sum that is not 0 on either side; ratios follow from sums."""
    for name, emulated in event["metrics"].items():
        found = measured.get(name)
        if not name.endswith(".sum") or name.startswith(NOT_COMPARED):
            continue
        if emulated or found:
            verdict = "equal" if found == emulated else "DIFFERENT"
            shown = "not measured" if found is None else f"{found:.0f}"
            yield (f"| {event['ladder']}/{event['rung']:02} {event['name']} | `{name}` | "
                   f"{emulated:.0f} | {shown} | {verdict} |")


def run(folder, output):
    machine = Machine(folder, output)
    device = machine.run("device.txt", "nvidia-smi", "--format=csv,noheader",
                         "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit")
    machine.test()
    report = [f"# Measured on {device.strip()}", ""]
    counters = []
    for ladder in machine.ladders():
        text, _ = machine.events(f"gpu_{ladder}", "--gpu", "--kernel", ladder)
        report += [f"## {ladder}", "", "```text", text.strip(), "```", ""]
        if shutil.which("ncu"):
            _, events = machine.events(f"emulated_{ladder}", "--emulate", "--kernel", ladder)
            for event in events:
                if event["right"]:
                    counters += counter_rows(event, machine.measured_counters(event))
    report += ["## The emulator's counters and Nsight Compute's", "",
               "| rung | metric | emulator | ncu | |", "|---|---|---|---|---|", *counters, "",
               "## What failed", "",
               *(f"- {failure}" for failure in machine.failures or ["nothing"])]
    (output / "report.md").write_text("\n".join(report) + "\n", encoding="utf-8")
    say(f"{output / 'report.md'}: {len(machine.failures)} failures")
    return 1 if machine.failures else 0


def main():
    command, paths = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    folder = pathlib.Path(paths[0]) if paths else ROOT / "build/gpu_pack"
    if command == "pack" and len(paths) <= 1:
        pack(folder)
    elif command == "run" and len(paths) <= 2:
        if not (folder / PROGRAM).is_file():
            sys.exit(f"{folder} has no {PROGRAM}. What to do: make it with measure_gpu.py pack")
        sys.exit(run(folder, pathlib.Path(paths[1] if len(paths) > 1 else "gpu_results")))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
