"""Checks what ptxas says of every kernel: no spilled registers, no stack frame, no lost speed.

    no_spills.py [REPORTS]    the build's folder ptxas/ (cmake/keep_ptxas_report.py fills it)

Prints one line per kernel and architecture. Covers the ladders in kernels/ and the solutions of
exercises. Ends with 77, which is "skipped", when the build has no CUDA.
"""

import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77
ADVICE = ("What to do: index register arrays by constants only, take smaller tiles per thread, or "
          "grant more registers (__launch_bounds__)")
COMPILING = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
PROPERTIES = re.compile(r"Function properties for (\S+)")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
LOST = re.compile(r"\(C\d+\).*|.*Potential Performance Loss.*")


@dataclass
class Kernel:
    """What ptxas says of one kernel for one architecture."""

    name: str
    architecture: str
    registers: int = 0
    shared_bytes: int = 0
    faults: list = field(default_factory=list)


def parse(report):
    """The kernels of one report, in its order; a function's faults count for its kernel."""
    kernels, function = [], ""
    for line in report.splitlines():
        if found := COMPILING.search(line):
            kernels.append(Kernel(found.group(1), found.group(2)))
            function = found.group(1)
        elif found := PROPERTIES.search(line):
            function = found.group(1)
        if not kernels:
            continue
        kernel = kernels[-1]
        if found := FRAME.search(line):
            names = ("of stack frame", "of spill stores", "of spill loads")
            inside = "" if function == kernel.name else f" in {function}"
            kernel.faults += [f"{count} bytes {name}{inside}"
                              for count, name in zip(found.groups(), names) if int(count) > 0]
        if found := USED.search(line):
            kernel.registers = int(found.group(1))
            shared = SHARED.search(line)
            kernel.shared_bytes = int(shared.group(1)) if shared else 0
    return kernels


def lost_speed(report):
    """The lines that speak of serialised wgmma. ptxas writes them before all kernels; they name
    theirs."""
    return [found.group(0).strip() for found in LOST.finditer(report)]


def short_name(demangled):
    """`void a::(anonymous namespace)::x_kernel<(a::Kind)1>(float*)` -> `x_kernel<(Kind)1>`."""
    plain = re.sub(r"(?:\w+|\(anonymous namespace\))::", "", demangled)
    found = re.search(r"(\w+_kernel\b(?:<.*>)?)\(", plain)
    return found.group(1) if found else demangled


def demangle(names):
    """The short names of mangled ones; the mangled ones where there is no c++filt."""
    filt = shutil.which("c++filt")
    if filt is None or not names:
        return {name: name for name in names}
    done = subprocess.run([filt], input="\n".join(names), text=True, capture_output=True,
                          check=True)
    return {name: short_name(line) for name, line in zip(names, done.stdout.splitlines())}


def kernel_sources():
    """The rungs: what is compiled for a GPU and meant to be quick there. What rungs share on the
    host's side, in a .cu because it needs CUDA's headers, has no kernel. What is for Blackwell is no
    rung, and has a test of its own (tests/kernels/sass/blackwell.py)."""
    sources = [*ROOT.glob("kernels/**/*.cu"), *ROOT.glob("solutions/*/*.cu")]
    core = (ROOT / "kernels/simt", ROOT / "kernels/device")
    return sorted(path for path in sources if "__global__" in path.read_text(encoding="utf-8")
                  and path.parent.name != "blackwell"
                  and not any(path.is_relative_to(c) for c in core))


def read_report(reports, source):
    """The report of a source and what is wrong with the report itself."""
    relative = source.relative_to(ROOT)
    path = reports / f"{relative}.txt"
    if not path.is_file():
        return "", f"{relative}: there is no {path}. What to do: build it, as ./workbook test does"
    if path.stat().st_mtime < source.stat().st_mtime:
        return "", f"{relative}: it has changed since its report. What to do: build it again"
    return path.read_text(encoding="utf-8"), ""


def check(reports, sources):
    """Prints the table; returns the faults, one line each."""
    faults = []
    print(f"{'kernel':<52} {'file':<44} {'for':<7} {'registers':>9} {'static shared':>13}")
    for source in sources:
        text, missing = read_report(reports, source)
        kernels = parse(text)
        names = demangle([kernel.name for kernel in kernels])
        relative = str(source.relative_to(ROOT))
        if missing or not kernels:
            faults.append(missing or f"{relative}: ptxas reports no kernel. What to do: launch one "
                          "in it, or move the file")
        faults += [f"{relative}: {line}" for line in lost_speed(text)]
        for kernel in kernels:
            print(f"{names[kernel.name]:<52} {relative:<44} {kernel.architecture:<7} "
                  f"{kernel.registers:>9} {kernel.shared_bytes:>13}")
            where = f"{relative}: {names[kernel.name]} for {kernel.architecture}"
            faults += [f"{where}: {fault}. {ADVICE}" for fault in kernel.faults]
    return faults


def main():
    if len(sys.argv) < 2:
        print("skipped: this build has no CUDA")
        sys.exit(SKIPPED)
    faults = check(pathlib.Path(sys.argv[1]), kernel_sources())
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
