"""Checks that the accessors of kernels cost nothing on a GPU: the same instructions as plain pointers,
and one instruction each for the copies in the background and the tensor cores.

    zero_cost.py [NVCC]    compiles zero_cost.cu to PTX for sm_80; no GPU is needed

Ends with 77, which is "skipped", without nvcc.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
SKIPPED = 77


def compile_to_ptx(nvcc):
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "zero_cost.ptx"
        subprocess.run([nvcc, "--ptx", "-arch=sm_80", "-std=c++20", f"-I{ROOT}",
                        "-o", output, HERE / "zero_cost.cu"], check=True)
        return output.read_text(encoding="utf-8")


def instructions(ptx, kernel):
    """The instructions of one kernel, without what follows from its name."""
    body = re.search(rf"\.entry \w*{kernel}\w*\((.*?)^\}}", ptx, re.DOTALL | re.MULTILINE).group(1)
    body = re.sub(rf"\w*{kernel}\w*", "KERNEL", body)
    body = re.sub(r"\w*storage\w*", "STORAGE", body)  # dynamic shared memory
    body = re.sub(r"\$L\w+|__\w+_\d+", "LABEL", body)
    lines = (line.split("//")[0].strip() for line in body.splitlines())
    return [line for line in lines if line]


def main():
    if len(sys.argv) < 2 or not pathlib.Path(sys.argv[1]).is_file():
        print("skipped: there is no nvcc")
        sys.exit(SKIPPED)
    ptx = compile_to_ptx(sys.argv[1])
    accessors = instructions(ptx, "accessors_kernel")
    pointers = instructions(ptx, "pointers_kernel")
    for expected in ("ld.global.nc.f32", "ld.global.nc.v4.f32", "st.shared.v4.f32", "ld.shared.f32",
                     "st.global.f32"):
        if not any(expected in line for line in pointers):
            sys.exit(f"the plain kernel has no {expected}: this test compares the wrong thing")
    if accessors != pointers:
        for ours, plain in zip(accessors, pointers):
            if ours != plain:
                print(f"accessors: {ours}\npointers:  {plain}")
        sys.exit(f"the accessors cost instructions: {len(accessors)} lines of PTX, "
                 f"expected the {len(pointers)} of plain pointers")
    ours = instructions(ptx, "instructions_kernel")
    for expected in ("cp.async.cg.shared.global [%r", "cp.async.ca.shared.global [%r",
                     "cp.async.commit_group", "cp.async.wait_group 1",
                     "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
                     "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
                     "ldmatrix.sync.aligned.m8n8.x2.shared.b16",
                     "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
                     "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
                     "cvt.rn.bf16x2.f32"):
        count = sum(expected in line for line in ours)
        if count != 1:
            sys.exit(f"there are {count} of {expected}, expected 1")
    print(f"the same {len(pointers)} lines of PTX")


if __name__ == "__main__":
    main()
