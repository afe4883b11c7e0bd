import unittest

from text import function
from disassembly import Unreadable
from operands import reads_and_writes
from warpgroups import columns


def run(kind, first, count):
    return {f"{kind}{first + k}" for k in range(count)}


class Products(unittest.TestCase):
    def check(self, text, reads, writes):
        self.assertEqual(reads_and_writes(function(text).instructions[0]), (reads, writes), text)

    def test_both_operands_in_shared_memory(self):
        self.check("HGMMA.64x96x16.F32.BF16 R24, gdesc[UR8], R24",
                   run("R", 24, 48) | run("UR", 8, 4), run("R", 24, 48))
        self.check("HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0",
                   run("UR", 4, 4), run("R", 24, 4))

    def test_the_left_one_in_registers(self):
        # The words of its descriptor are left out.
        self.check("HGMMA.64x128x16.F32.BF16 R24, R136, gdesc[UR8].tnspB, R24, gsb0",
                   run("R", 24, 64) | run("R", 136, 4) | run("UR", 10, 2), run("R", 24, 64))

    def test_sums_that_begin_elsewhere(self):
        self.check("HGMMA.64x16x16.F32 R24, gdesc[UR4], R40, UP1",
                   run("R", 40, 8) | run("UR", 4, 4) | {"UP1"}, run("R", 24, 8))

    def test_sums_of_two_bytes(self):
        self.check("HGMMA.64x64x16.F16 R24, gdesc[UR4], R24",
                   run("R", 24, 16) | run("UR", 4, 4), run("R", 24, 16))

    def test_a_guard(self):
        self.check("@P0 HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT",
                   run("UR", 4, 4) | {"P0"}, run("R", 24, 4))

    def test_waits_have_no_registers(self):
        self.check("WARPGROUP.DEPBAR.LE gsb0, 0x0", set(), set())

    def test_shapes(self):
        widest = function("HGMMA.64x256x16.F32 R24, gdesc[UR4], RZ").instructions[0]
        self.assertEqual(columns(widest), 256)
        for shape in ("", ".F32", ".128x64x16.F32", ".64x12x16.F32", ".64x0x16.F32"):
            with self.assertRaisesRegex(Unreadable, "must have a shape 64xNxK"):
                columns(function(f"HGMMA{shape} R24, gdesc[UR4], RZ").instructions[0])


if __name__ == "__main__":
    unittest.main()
