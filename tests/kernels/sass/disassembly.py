"""A kernel's machine code (SASS): compiled by nvcc, taken apart by nvdisasm."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[3]
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
FUNCTION = re.compile(r"^\.text\.(\S+):$")
LABEL = re.compile(r"^(\.L_x_\d+):$")
TARGET = re.compile(r"BRA\S* .*`\((\.L_x_\d+)\)")


@dataclass
class Instruction:
    """One instruction, or a label that branches lead to."""

    text: str  # without its predicate; a label's name
    predicate: str = ""

    @property
    def opcode(self):
        return self.text.split()[0]

    @property
    def target(self):
        """The label that it branches to; empty for any other instruction."""
        found = TARGET.search(self.text)
        return found.group(1) if found else ""


def parse(listing):
    """Mangled name -> instructions and labels, in order."""
    functions, body = {}, None
    for line in listing.splitlines():
        if found := FUNCTION.match(line):
            body = functions.setdefault(found.group(1), [])
        elif body is None:
            continue
        elif found := LABEL.match(line):
            body.append(Instruction(found.group(1)))
        elif found := INSTRUCTION.match(line):
            predicate, text = re.fullmatch(r"(@!?U?P\w+\s+)?(.*)", found.group(1)).groups()
            body.append(Instruction(text, (predicate or "").strip()))
    return functions


def loops_with(body, opcode):
    """The smallest loops that hold an instruction: from a label to the conditional branch back to it.

    A wait that spins lies behind the kernel's end, and comes back without a condition."""
    places = {entry.text: place for place, entry in enumerate(body)
              if entry.text.startswith(".L_x_")}
    found = []
    for end, entry in enumerate(body):
        first = places.get(entry.target, end)
        if first < end and entry.predicate and any(
                inside.opcode.startswith(opcode) for inside in body[first:end]):
            found.append((first, end))
    smallest = [one for one in found
                if not any(one != other and one[0] <= other[0] and other[1] <= one[1]
                           for other in found)]
    return [body[first:end + 1] for first, end in smallest]


def find_nvdisasm(nvcc):
    """In the PATH, beside nvcc, or in a Python environment of build/ that has Triton; else None."""
    folders = [pathlib.Path(nvcc).parent]
    folders += ROOT.glob("build/*/lib/python3*/site-packages/triton/backends/nvidia/bin")
    return shutil.which("nvdisasm") or shutil.which(
        "nvdisasm", path=os.pathsep.join(str(folder) for folder in folders))


def disassemble(nvcc, nvdisasm, source):
    """The functions of a source for an H100."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "kernel.cubin"
        subprocess.run([nvcc, "--cubin", "-arch=sm_90a", "-std=c++20", "-O3", f"-I{ROOT}",
                        "-o", cubin, source], check=True)
        listing = subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True,
                                 text=True).stdout
    return parse(listing)
