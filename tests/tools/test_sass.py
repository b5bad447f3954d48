"""Machine code as tests/kernels/sass reads it, on listings as nvdisasm writes them."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernels/sass"))
import disassembly  # noqa: E402  (a folder of plain modules, not a package)
import hopper  # noqa: E402


def listing(*lines):
    """A kernel of these instructions and labels."""
    text = [".text.a_kernel:"]
    for place, line in enumerate(lines):
        text.append(f"{line}:" if line.startswith(".L_x_")
                    else f"        /*{16 * place:04x}*/                   {line} ;")
    return "\n".join(text) + "\n"


LOOP = (".L_x_1", "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, gsb0",
        "WARPGROUP.DEPBAR.LE gsb0, 0x1")
BACK = ("@!P1 BRA `(.L_x_1)", "EXIT")


class Reading(unittest.TestCase):
    def body(self, *lines):
        return disassembly.parse(listing(*lines))["a_kernel"]

    def test_predicates_and_opcodes(self):
        entry = self.body("@!UP0 UTMALDG.2D [UR8], [UR4]")[0]
        self.assertEqual((entry.predicate, entry.opcode), ("@!UP0", "UTMALDG.2D"))

    def test_a_loop_ends_with_its_conditional_branch(self):
        body = self.body("MOV R1, R2", *LOOP, *BACK, ".L_x_2", "NOP", "BRA `(.L_x_1)")
        [loop] = disassembly.loops_with(body, "HGMMA")
        self.assertEqual([entry.opcode for entry in loop],
                         [".L_x_1", "HGMMA.64x128x16.F32.BF16", "WARPGROUP.DEPBAR.LE", "BRA"])
        self.assertEqual(disassembly.loops_with(body, "MUFU"), [])

    def test_powers_behind_the_wait_are_a_fault(self):
        powers = ["MUFU.EX2 R1, R1"] * hopper.ATTENTION_POWERS
        wait = ["WARPGROUP.DEPBAR.LE gsb0, 0x0"]
        good = disassembly.parse(listing(*LOOP, *powers, *wait, *BACK))
        bad = disassembly.parse(listing(*LOOP, *wait, *powers, *BACK))
        self.assertEqual(list(hopper.faults_of_attention(good, "x.cu")), [])
        [fault] = hopper.faults_of_attention(bad, "x.cu")
        self.assertIn("does not run beside", fault)

    def test_a_turn_that_is_passed_on_too_late_is_a_fault(self):
        begin, multiply, to_pass = "BAR.SYNC R1, 0x100", LOOP[1], "BAR.ARV R2, 0x100"
        waits = ["WARPGROUP.DEPBAR.LE gsb0, 0x1", "WARPGROUP.DEPBAR.LE gsb0, 0x0"]
        good = disassembly.parse(listing(LOOP[0], begin, multiply, multiply, to_pass, *waits, *BACK))
        late = disassembly.parse(listing(LOOP[0], begin, multiply, waits[0], to_pass, waits[1], *BACK))
        self.assertEqual(list(hopper.faults_of_turns(good, "x.cu")), [])
        [fault] = hopper.faults_of_turns(late, "x.cu")
        self.assertIn("'multiply', 'wait', 'pass'", fault)

    def test_a_fence_of_the_gpu_is_a_fault_inside_a_loop_only(self):
        inside = disassembly.parse(listing(*LOOP, "MEMBAR.ALL.GPU", *BACK))
        outside = disassembly.parse(listing("CCTL.IVALL", *LOOP, *BACK))
        [fault] = hopper.faults_of_steps(inside, "x.cu")
        self.assertIn("MEMBAR.ALL.GPU", fault)
        self.assertEqual(list(hopper.faults_of_steps(outside, "x.cu")), [])

    def test_a_kernel_without_products_is_the_wrong_one(self):
        with self.assertRaises(SystemExit):
            hopper.expect_products(disassembly.parse(listing("EXIT")), "x.cu")


if __name__ == "__main__":
    unittest.main()
