"""Checks that the kernels for Blackwell compile, and to the instructions that they are about. They
have never run: this is all that is known of them.

    blackwell.py [NVCC]    compiles them for sm_100a; no GPU is needed

Ends with 77, which is "skipped", without an nvcc that knows sm_100a.
"""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import disassembly  # noqa: E402  (a folder of plain modules, not a package)

SKIPPED = 77
ARCHITECTURE = "sm_100a"
# tcgen05.alloc, tcgen05.mma, tcgen05.commit, tcgen05.ld
OPCODES = ("UTCATOMSWS", "UTCHMMA", "UTCBAR", "LDTM")


def knows_architecture(nvcc):
    """Whether this nvcc compiles for it: since CUDA 12.8."""
    found = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True, check=True)
    return "compute_100" in found.stdout


def compile_kernel(nvcc, source, cubin):
    """What nvcc and ptxas say."""
    command = [nvcc, "-std=c++20", f"-arch={ARCHITECTURE}", "-cubin", "-Xptxas=-v,-warn-spills",
               f"-I{disassembly.ROOT}", "-o", str(cubin), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{source}: does not compile for {ARCHITECTURE}:\n{done.stderr}")
    return done.stderr


def faults_of(nvcc, nvdisasm, source):
    """What is wrong with one kernel file."""
    name = source.relative_to(disassembly.ROOT)
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "kernel.cubin"
        report = compile_kernel(nvcc, source, cubin)
        if "0 bytes spill stores" not in report:
            yield f"{name}: spills registers, expected none:\n{report}"
        if nvdisasm is None:
            print(f"{name}: compiles; no nvdisasm to look inside")
            return
        listing = subprocess.run([nvdisasm, str(cubin)], capture_output=True, text=True,
                                 check=True).stdout
    opcodes = [entry.opcode for body in disassembly.parse(listing).values() for entry in body]
    print(f"{name}: {len(opcodes)} instructions")
    for wanted in OPCODES:
        if not any(opcode.startswith(wanted) for opcode in opcodes):
            yield f"{name}: has no {wanted}, expected the instructions of tensor memory"


def main():
    nvcc = sys.argv[1] if len(sys.argv) > 1 else ""
    if not pathlib.Path(nvcc).is_file() or not knows_architecture(nvcc):
        print(f"skipped: there is no nvcc that knows {ARCHITECTURE} (CUDA 12.8 or later)")
        sys.exit(SKIPPED)
    nvdisasm = disassembly.find_nvdisasm(nvcc)
    faults = [fault for source in sorted(disassembly.ROOT.glob("kernels/ladders/*/*/blackwell/*.cu"))
              for fault in faults_of(nvcc, nvdisasm, source)]
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
