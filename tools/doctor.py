#!/usr/bin/env python3
"""What this machine has of what the workbook can use, in one screen; ./workbook doctor.

A line says ok, note (works, but slower, or not all of it) or missing (with what to do). Exit code 1 when something
is missing without which `./workbook test` cannot run; an MPI or a GPU that is not there is a note.
Standard library only.
"""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

from blas_kernels import better_kernels, chosen_kernels

ROOT = pathlib.Path(__file__).resolve().parents[1]
NEEDED_GIB = {"memory": 8, "disk": 30}
NEEDED_SHARED_GIB = 1
NEEDED_FILES = 1024
GIB = 2**30
NODE = pathlib.Path(os.environ.get("WORKBOOK_DOCTOR_ROOT", "/"))  # another, in tests


def output_of(*command):
    """What a program prints, or None: it is not there, or fails."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout if done.returncode == 0 else None


def read(path):
    """A file of /proc or /sys, or empty."""
    try:
        return (NODE / path).read_text(encoding="utf-8")
    except OSError:
        return ""


def first_line(text):
    return text.strip().splitlines()[0] if text and text.strip() else ""


def machine():
    cores = len(os.sched_getaffinity(0))
    memory = re.search(r"^MemAvailable:\s+(\d+) kB", read("proc/meminfo"), re.MULTILINE)
    free = int(memory[1]) * 1024 / GIB if memory else 0
    disk = shutil.disk_usage(ROOT).free / GIB
    yield ("ok" if cores >= 2 else "note", "cores", f"{cores}" + ("" if cores >= 2 else ": two are what times are given for"))
    yield enough("memory", free, "close other programs")
    yield enough("disk", disk, f"free some space at {ROOT}")
    shared = shutil.disk_usage(NODE / "dev/shm").total / GIB if (NODE / "dev/shm").is_dir() else 0
    yield ("ok" if shared >= NEEDED_SHARED_GIB else "note", "shared memory",
           f"{shared:.1f} GiB" + ("" if shared >= NEEDED_SHARED_GIB else ": MPI's ranks want 1; in a container --shm-size 1g"))


def enough(what, gib, advice):
    needed = NEEDED_GIB[what]
    good = gib >= needed
    return ("ok" if good else "note", what, f"{gib:.0f} GiB free" + ("" if good else f" of {needed} that a whole test takes: {advice}"))


def packages():
    listed = output_of("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n")
    if listed is None:
        yield ("note", "packages", "this is no Debian or Ubuntu: use the container (Containerfile)")
        return
    there = {line.split()[0].split(":")[0] for line in listed.splitlines() if line.endswith(" installed")}
    lacking = {}
    for line in (ROOT / "tools/packages.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            group, package = line.split()
            if package not in there:
                lacking.setdefault(group, []).append(package)
    if not lacking:
        yield ("ok", "packages", "all there")
    for group, names in lacking.items():
        yield ("missing", f"packages: {group}", f"{' '.join(names)}: ./workbook setup installs them")


def mpi():
    said = first_line(output_of("mpirun", "--version"))
    if not said:
        yield ("note", "MPI", "no mpirun: ranks are threads; ./workbook run NN --mpi installs Open MPI")
        return
    known = "Open MPI" in said
    yield ("ok" if known else "note", "MPI", said + ("" if known else ": tried with Open MPI only"))


def blas():
    chosen = chosen_kernels()
    better = better_kernels(chosen, read("proc/cpuinfo"))
    if better:
        yield ("note", "OpenBLAS", f"does not know this processor ({chosen}): ./workbook takes {better}; elsewhere set OPENBLAS_CORETYPE={better}")
    elif chosen:
        yield ("ok", "OpenBLAS", f"kernels for {chosen}")


def gpus():
    found = output_of("nvidia-smi", "--query-gpu=name,memory.total,driver_version,clocks.sm,clocks.max.sm",
                      "--format=csv,noheader")
    names = found.strip().splitlines() if found else []
    if not names:
        yield ("note", "GPU", "none: --device cuda needs one; --device emulated runs the same kernels without")
    for number, line in enumerate(names):
        name, memory, driver, clock, highest = (word.strip() for word in line.split(","))
        yield ("ok", f"GPU {number}", f"{name}, {memory}, driver {driver}, {clock} of {highest}")
    toolkit = re.search(r"release ([\d.]+)", output_of("nvcc", "--version") or "")
    if toolkit:
        yield ("ok", "CUDA Toolkit", toolkit[1])
    elif names:
        yield ("missing", "CUDA Toolkit", "there is a GPU and no nvcc in PATH: install the toolkit, or use the container's stage cuda")
    if len(names) > 1:
        yield peers(output_of("nvidia-smi", "topo", "-p2p", "r") or "")


def peers(matrix):
    """Which pairs of GPUs read each other's memory."""
    rows = [line.split() for line in matrix.splitlines() if re.match(r"\s*GPU\d+\s+\S*(X|OK|CNS|NS|TNS|DR|U)\b", line)]
    cells = [cell for row in rows for cell in row[1:] if cell != "X"]
    if not cells:
        return ("note", "peer access", "not known: nvidia-smi topo -p2p r says nothing")
    closed = sum(cell != "OK" for cell in cells)
    if closed == 0:
        return ("ok", "peer access", "between all GPUs")
    return ("note", "peer access", f"{closed} of {len(cells)} ways are closed: messages go through the host's memory")


def limits():
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    unlimited = files == resource.RLIM_INFINITY
    good = unlimited or files >= NEEDED_FILES
    yield ("ok" if good else "note", "open files", ("no limit" if unlimited else f"{files}") + ("" if good else ": ulimit -n 4096"))
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    free = locked == resource.RLIM_INFINITY
    yield ("ok" if free else "note", "locked memory",
           "no limit" if free else f"{locked // 1024} KiB: networks with RDMA want ulimit -l unlimited")


def clocks():
    governor = read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
    if governor and governor != "performance":
        yield ("note", "clocks", f"governor {governor}: times vary; performance is steadier")
    elif governor:
        yield ("ok", "clocks", "governor performance")
    load = read("proc/loadavg").split()
    if load:
        busy = float(load[0]) > 0.5 * len(os.sched_getaffinity(0))
        yield ("note" if busy else "ok", "load", load[0] + (": others compute; times will be longer" if busy else ""))


def main():
    lines = [line for part in (machine, packages, blas, mpi, gpus, limits, clocks) for line in part()]
    for state, what, text in lines:
        print(f"  {state:<8}{what:<18}{text}")
    missing = sum(state == "missing" for state, _, _ in lines)
    notes = sum(state == "note" for state, _, _ in lines)
    print(f"\n{missing} missing, {notes} to note." + ("" if missing else " ./workbook run can begin."))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
