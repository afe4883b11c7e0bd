import unittest

from text import function
from operands import reads_and_writes


def of(text):
    reads, writes = reads_and_writes(function(text).instructions[0])
    return " ".join(sorted(reads)), " ".join(sorted(writes))


class Operands(unittest.TestCase):
    def check(self, text, reads, writes):
        self.assertEqual(of(text), (reads, writes), text)

    def test_arithmetic(self):
        self.check("FFMA R4, R5, -R6, |R7|", "R5 R6 R7", "R4")
        self.check("MOV R4, RZ", "", "R4")
        self.check("@P2 IADD3 R4, P0, P1, R5, R6.reuse, RZ", "P2 R5 R6", "P0 P1 R4")
        self.check("IADD3.X R5, R6, R7, RZ, P0, !PT", "P0 R6 R7", "R5")
        self.check("SEL R4, R5, R6, P3", "P3 R5 R6", "R4")
        self.check("ISETP.GE.AND P0, PT, R4, UR5, !P1", "P1 R4 UR5", "P0")
        self.check("PLOP3.LUT P0, PT, P1, P2, PT, 0x80, 0x8", "P1 P2", "P0")
        self.check("FCHK P0, R4, R5", "R4 R5", "P0")
        self.check("VOTE.ANY R4, PT, P2", "P2", "R4")
        self.check("VOTE.ALL P1, P2", "P2", "P1")
        self.check("SHFL.BFLY PT, R4, R5, 0x1, 0x1f", "R5", "R4")
        self.check("R2UR UR4, R6", "R6", "UR4")
        self.check("P2R R4, PR, RZ, 0x1", "P0 P1 P2 P3 P4 P5 P6", "R4")

    def test_wide_results(self):
        self.check("IMAD.WIDE R2, R4, 0x4, R6", "R4 R6 R7", "R2 R3")
        self.check("IMAD.WIDE.U32 R2, R4, R5, c[0x0][0x10]", "R4 R5", "R2 R3")
        self.check("IMAD.WIDE.U32 R2, P0, R4, R5, R8", "R4 R5 R8 R9", "P0 R2 R3")
        self.check("CS2R R4, SRZ", "", "R4 R5")
        self.check("DADD R4, R6, R8", "R6 R7 R8 R9", "R4 R5")

    def test_memory(self):
        self.check("LDG.E.128 R4, desc[UR8][R2.64]", "R2 R3 UR8", "R4 R5 R6 R7")
        self.check("LDG.E.U16 R4, desc[UR8][R2.64]", "R2 R3 UR8", "R4")
        self.check("STG.E.64 desc[UR8][R2.64], R4", "R2 R3 R4 R5 UR8", "")
        self.check("STS.128 [R2+0x40], R4", "R2 R4 R5 R6 R7", "")
        self.check("LDSM.16.MT88.4 R4, [R2]", "R2", "R4 R5 R6 R7")
        self.check("LDGSTS.E.128 [R2], desc[UR4][R6.64], P0", "P0 R2 R6 R7 UR4", "")
        self.check("ATOMG.E.ADD.STRONG.GPU PT, R4, desc[UR4][R2.64], R6", "R2 R3 R6 UR4", "R4")
        self.check("RED.E.ADD.STRONG.GPU desc[UR4][R2.64], R6", "R2 R3 R6 UR4", "")

    def test_matrix_products(self):
        self.check("HMMA.16816.F32.BF16 R4, R8, R12, RZ", "R10 R11 R12 R13 R8 R9", "R4 R5 R6 R7")
        self.check("HMMA.16816.F32 R4, R8.reuse, R12, R4",
                   "R10 R11 R12 R13 R4 R5 R6 R7 R8 R9", "R4 R5 R6 R7")
        self.check("HMMA.1688.F32.TF32 R4, R8, R12, R16",
                   "R10 R11 R12 R13 R16 R17 R18 R19 R8 R9", "R4 R5 R6 R7")


if __name__ == "__main__":
    unittest.main()
