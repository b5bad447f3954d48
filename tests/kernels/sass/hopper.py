"""Checks what ptxas has made of the rungs for Hopper: what must overlap does, and no step of a loop
waits for the whole GPU.

    hopper.py [NVCC]    compiles rungs for sm_90a; no GPU is needed

Ends with 77, which is "skipped", without nvcc or nvdisasm.
"""

import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import disassembly  # noqa: E402  (a folder of plain modules, not a package)

SKIPPED = 77
PRODUCT, POWER, WAIT = ("HGMMA", "QGMMA"), "MUFU.EX2", "WARPGROUP.DEPBAR"
SLOW = ("MEMBAR.ALL.GPU", "MEMBAR.SC", "CCTL")
ATTENTION = ("kernels/ladders/attention/attention_bf16/hopper/04_warpgroups.cu",
             "kernels/ladders/attention/attention_bf16/hopper/05_ping_pong.cu",
             "kernels/ladders/attention/attention_bf16/hopper/06_persistent.cu")
TURNS = ATTENTION[1:]
# Rungs whose output leaves through TMA, but for a softmax's logarithms.
STORED_BY_TMA = ("kernels/ladders/attention/attention_bf16/hopper/06_persistent.cu",
                 "kernels/ladders/matmul/matmul_bf16/hopper/12_cluster_multicast.cu")
STORE, STAGE, PLAIN_STORE = "UTMASTG", "STSM", "STG"
MOST_PLAIN_STORES = 2  # the logarithms of a thread's two rows
GRADIENTS = "kernels/ladders/attention/attention_backward_bf16/hopper/02_one_kernel.cu"
GRADIENT_POWERS = 32  # a thread has 32 scores of a tile of 64 x 64
KEYS, QUERIES, PRODUCTS = 64, 64, 5  # of a warpgroup in one step
EIGHT_BITS = "kernels/ladders/matmul/matmul_fp8/02_tensor_cores.cu"
EIGHT_BITS_WGMMA = "kernels/ladders/matmul/matmul_fp8/hopper/03_wgmma.cu"
GROUP = (64, 128, 128)  # rows and columns of a warpgroup's sums, products in a sum before its promotion
ATTENTION_POWERS = 66  # a thread has 64 scores of a tile of 64 x 128, and two rows to shrink


def expect_products(functions, source):
    """Ends the test where no loop multiplies."""
    if not any(disassembly.loops_with(body, PRODUCT) for body in functions.values()):
        sys.exit(f"{source}: no loop multiplies: this test looks at the wrong thing")


def product_loops(body, source):
    """The loops that multiply; a kernel without one is the wrong kernel."""
    expect_products({"": body}, source)
    return disassembly.loops_with(body, PRODUCT)


def powers_between_waits(loop):
    """For each wait of a loop, how many powers of 2 stand between the one before and it."""
    counts, powers = [], 0
    for entry in loop:
        if entry.opcode.startswith(POWER):
            powers += 1
        elif entry.opcode.startswith(WAIT):
            counts.append(powers)
            powers = 0
    return counts


def faults_of_attention(functions, source):
    """The softmax of a tile lies between the wait for its scores and that for the product beside it."""
    for name, body in functions.items():
        for loop in product_loops(body, source):
            found = powers_between_waits(loop)
            if found != [0, ATTENTION_POWERS]:
                yield (f"{source}: {name}: powers before the waits of a tile: {found}, expected "
                       f"[0, {ATTENTION_POWERS}]: the softmax does not run beside the product")


def multiplications(loop):
    """What the products of a loop multiply, in elements m x n x k."""
    shapes = [re.match(r"[HQ]GMMA\.(\d+)x(\d+)x(\d+)", entry.opcode) for entry in loop]
    return sum(math.prod(map(int, shape.groups())) for shape in shapes if shape)


def faults_of_gradients(functions, source):
    """A step makes each of five products once, takes its powers beside one of them, and leaves
    atomic sums to others."""
    for name, body in functions.items():
        if not any(entry.opcode.startswith(PRODUCT) for entry in body):
            continue
        head_dim = int(re.search(r"ILi(\d+)E", name).group(1))
        expected = PRODUCTS * KEYS * QUERIES * head_dim
        for loop in product_loops(body, source):
            powers = powers_between_waits(loop)
            if powers != [0, GRADIENT_POWERS, 0]:
                yield (f"{source}: {name}: powers before the waits of a step: {powers}, expected "
                       f"[0, {GRADIENT_POWERS}, 0]: they do not run beside a product")
            if multiplications(loop) != expected:
                yield (f"{source}: {name}: a step multiplies {multiplications(loop)} elements, "
                       f"expected {expected}: five products, each once")
            if any(entry.opcode.startswith("RED") for entry in loop):
                yield f"{source}: {name}: those who multiply also add to global memory"
        if not any(entry.opcode.startswith("REDG.E.ADD.F32x4") for entry in body):
            yield f"{source}: {name}: no REDG of four floats: d_q is not added in vectors"


def faults_of_turns(functions, source):
    """A turn begins before a tile's products, and is passed on before anything is waited for."""
    kinds = {"BAR.SYNC": "begin", PRODUCT: "multiply", "BAR.ARV": "pass", WAIT: "wait"}
    expected = ["begin", "multiply", "pass", "wait", "wait"]
    for name, body in functions.items():
        for loop in product_loops(body, source):
            steps = [kind for entry in loop for opcode, kind in kinds.items()
                     if entry.opcode.startswith(opcode)]
            found = [kind for place, kind in enumerate(steps)
                     if kind != "multiply" or steps[place - 1] != "multiply"]
            if found != expected:
                yield f"{source}: {name}: the order of a tile is {found}, expected {expected}"


def faults_of_stores(functions, source):
    """Sums are staged by whole matrices and stored by TMA; at most a row's logarithm is not."""
    for name, body in functions.items():
        for opcode in (STORE, STAGE):
            if not any(entry.opcode.startswith(opcode) for entry in body):
                yield f"{source}: {name}: no {opcode}: the output does not leave through TMA"
        wide = [entry.opcode for entry in body if entry.opcode.startswith(PLAIN_STORE)]
        if len(wide) > MOST_PLAIN_STORES:
            yield (f"{source}: {name}: {len(wide)} {PLAIN_STORE}, expected at most "
                   f"{MOST_PLAIN_STORES}")


def faults_of_steps(functions, source):
    """No step of a product fences the GPU or throws the first-level cache away."""
    for name, body in functions.items():
        loops = disassembly.loops_with(body, PRODUCT) + disassembly.loops_with(body, "UTMALDG")
        for entry in (entry for loop in loops for entry in loop):
            if entry.opcode.startswith(SLOW):
                yield f"{source}: {name}: {entry.opcode} in a loop, expected none"


def faults_of_eight_bits(functions, source):
    """What matmul.md says of mma.sync in fp8: for an H100 it is a conversion and a product of fp16."""
    for name, body in functions.items():
        found = {opcode: any(entry.opcode.startswith(opcode) for entry in body)
                 for opcode in ("F2FP.F16.E4M3", "HMMA", "QMMA")}
        if found != {"F2FP.F16.E4M3": True, "HMMA": True, "QMMA": False}:
            yield (f"{source}: {name}: instructions {found}: products of fp8 are not turned into "
                   "fp16 any more; correct the rung's comment and matmul.md")


def faults_of_groups(functions, source):
    """Nothing is converted; a group is multiplied at a stretch, waited for once, and promoted by one
    multiplication and addition for each of a thread's 64 sums."""
    for name, body in functions.items():
        for entry in body:
            if entry.opcode.startswith(("HMMA", "HGMMA", "F2FP.F16.E4M3")):
                yield f"{source}: {name}: {entry.opcode}: a product that is not of fp8"
        for loop in product_loops(body, source):
            opcodes = [entry.opcode for entry in loop]
            found = {"multiplied": multiplications(loop),
                     "waits": sum(opcode.startswith(WAIT) for opcode in opcodes),
                     "promotions": sum(opcode.startswith("FFMA") for opcode in opcodes)}
            expected = {"multiplied": math.prod(GROUP), "waits": 1,
                        "promotions": GROUP[0] * GROUP[1] // 128}
            if found != expected:
                yield f"{source}: {name}: a group: {found}, expected {expected}"


def main():
    nvcc = sys.argv[1] if len(sys.argv) > 1 else ""
    if not pathlib.Path(nvcc).is_file():
        print("skipped: there is no nvcc")
        sys.exit(SKIPPED)
    nvdisasm = disassembly.find_nvdisasm(nvcc)
    if nvdisasm is None:
        print("skipped: there is no nvdisasm. What to do: install CUDA's, or Triton's as "
              "tests/kernels/sass/requirements.txt says")
        sys.exit(SKIPPED)
    faults = []
    for path in sorted(disassembly.ROOT.glob("kernels/ladders/*/*/hopper/*.cu")):
        if "__global__" not in path.read_text(encoding="utf-8"):
            continue
        source = str(path.relative_to(disassembly.ROOT))
        functions = disassembly.disassemble(nvcc, nvdisasm, path)
        print(f"{source}: {', '.join(str(len(body)) for body in functions.values())} instructions")
        expect_products(functions, source)
        faults += faults_of_steps(functions, source)
        if source in ATTENTION:
            faults += faults_of_attention(functions, source)
        if source in TURNS:
            faults += faults_of_turns(functions, source)
        if source == GRADIENTS:
            faults += faults_of_gradients(functions, source)
        if source == EIGHT_BITS_WGMMA:
            faults += faults_of_groups(functions, source)
        if source in STORED_BY_TMA:
            faults += faults_of_stores(functions, source)
    faults += faults_of_eight_bits(
        disassembly.disassemble(nvcc, nvdisasm, disassembly.ROOT / EIGHT_BITS), EIGHT_BITS)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
