import pathlib
import unittest

from text import kernel, loop
from checks import CHECKS, worst

PRODUCT = "HMMA.16816.F32.BF16 R4, R8, R12, R4"
# Of four warps: each has 16 rows and 16 columns, as two of the others.
TOGETHER = "HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8], R24"


def values(program):
    return {name: finding.value for name, finding in worst(program).items()}


def only(check, program):
    return values(program).get(check)


class LoopsWithProducts(unittest.TestCase):
    def test_slots(self):
        # Two products, three others, and the branch.
        program = loop(f"{PRODUCT}\n{PRODUCT}\nFADD R1, R1, R2\nFADD R2, R1, R2\nNOP")
        self.assertEqual(only("slots per HMMA", program), 3)
        self.assertIn("0010", worst(program)["slots per HMMA"].where)

    def test_the_worst_loop_counts(self):
        program = kernel(f"""
        .L_x_0:
        {PRODUCT}
        MOV R20, R21
        @P0 BRA `(.L_x_0)
        .L_x_1:
        {PRODUCT}
        FADD R1, R1, R2
        FADD R2, R1, R2
        @P0 BRA `(.L_x_1)
        EXIT""")
        self.assertEqual(only("slots per HMMA", program), 4)
        self.assertIn("0030", worst(program)["slots per HMMA"].where)
        self.assertEqual(only("moves per HMMA", program), 1)

    def test_loops_within_count_where_they_have_no_products(self):
        self.assertEqual(only("stores beside HMMA", kernel(f"""
        .L_x_0:
        {PRODUCT}
        STS [R30], R20
        .L_x_1:
        STS [R30], R20
        @P1 BRA `(.L_x_1)
        .L_x_2:
        STS [R30], R20
        STS [R30], R21
        STS [R30], R22
        .L_x_3:
        {PRODUCT}
        @P1 BRA `(.L_x_3)
        @P1 BRA `(.L_x_2)
        @P0 BRA `(.L_x_0)
        EXIT""")), 2)

    def test_moves(self):
        program = loop(f"""{PRODUCT}
        MOV R20, R21
        IMAD.MOV.U32 R21, RZ, RZ, R22
        IMAD.U32 R22, RZ, RZ, UR4
        UMOV UR5, UR6
        IMAD R23, R20, RZ, R22
        IMAD.X R24, RZ, RZ, R22, P1
        IMAD.MOV R25, RZ, RZ, -R22""")
        self.assertEqual(only("moves per HMMA", program), 4)

    def test_loads_and_stores(self):
        program = loop(f"""{PRODUCT}
        LDG.E.128 R20, desc[UR4][R2.64]
        LDGSTS.E.BYPASS.128 [R30], desc[UR4][R2.64]
        LDS.128 R24, [R30]
        LDSM.16.M88.4 R24, [R30]
        STS.64 [R30], R20
        STS [R30], R20""")
        self.assertEqual(only("loads beside HMMA", program), 1)
        self.assertEqual(only("stores beside HMMA", program), 2)
        # Its loads are not asked to be in flight: they must not be there.
        self.assertNotIn("loads in flight", values(program))

    def test_products_by_warpgroups(self):
        program = loop(f"""{TOGETHER}
        {PRODUCT}
        UMOV UR9, 0x40000040
        LDG.E.128 R20, desc[UR4][R2.64]
        STS [R30], R20
        FADD R1, R1, R20
        NOP
        NOP""")
        self.assertEqual(only("slots per HMMA", program), 3)
        self.assertEqual(only("moves per HMMA", program), 0.33)
        self.assertEqual(only("loads beside HMMA", program), 1)
        self.assertEqual(only("stores beside HMMA", program), 1)
        self.assertNotIn("loads in flight", values(program))

    def test_loops_without_products_have_none_of_it(self):
        self.assertFalse({"slots per HMMA", "moves per HMMA", "loads beside HMMA",
                          "stores beside HMMA"} & values(loop("STS [R4], R5")).keys())


class Divisions(unittest.TestCase):
    def test_a_helper(self):
        self.assertEqual(only("divisions", loop("CALL.REL.NOINC `($__cuda_sm20_rem_s64)")), 1)

    def test_a_float_division_is_one_with_its_slow_path(self):
        self.assertEqual(only("divisions", loop("""
        MUFU.RCP R6, R5
        FCHK P1, R4, R5
        @!P1 BRA `(.L_x_5)
        CALL.REL.NOINC `($__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath)
        .L_x_5:""")), 1)

    def test_an_integer_division_in_place(self):
        divide = """
        I2F.U32.RP R6, R5
        MUFU.RCP R6, R6
        IADD3 R7, R6, 0xffffffe, RZ
        F2I.FTZ.U32.TRUNC.NTZ R7, R7"""
        self.assertEqual(only("divisions", loop(divide)), 1)
        self.assertEqual(only("divisions", loop(divide + divide)), 2)

    def test_a_reciprocal_alone_is_none(self):
        self.assertEqual(only("divisions", loop("""
        I2F.U32 R6, R5
        MUFU.RCP R6, R6
        FMUL R7, R6, R7
        MUFU.RCP R8, R9
        F2I.TRUNC.NTZ R8, R8""")), 0)

    def test_outside_of_innermost_loops_it_may_stand(self):
        program = kernel("""
        CALL.REL.NOINC `($__cuda_sm20_div_s64)
        .L_x_0:
        CALL.REL.NOINC `($__cuda_sm20_div_s64)
        .L_x_1:
        FADD R1, R1, R2
        @P1 BRA `(.L_x_1)
        @P0 BRA `(.L_x_0)
        EXIT""")
        self.assertEqual(only("divisions", program), 0)


class NarrowLoads(unittest.TestCase):
    def test_one_and_two_bytes(self):
        self.assertEqual(only("narrow loads", loop("""
        LDG.E.U16.CONSTANT R4, desc[UR4][R2.64]
        LDG.E.U8 R5, desc[UR4][R2.64+0x2]
        LDG.E.S16 R6, desc[UR4][R2.64+0x4]
        LDG.E R7, desc[UR4][R2.64+0x8]
        LDS.U16 R8, [R9]""")), 3)


class LoadsInFlight(unittest.TestCase):
    def check(self, body, value):
        self.assertEqual(only("loads in flight", loop(body)), value)

    def test_one_after_the_other(self):
        self.check("""
        LDG.E R4, desc[UR4][R2.64]
        FADD R10, R10, R4
        LDG.E R5, desc[UR4][R2.64+0x4]
        FADD R10, R10, R5""", 1)

    def test_four_at_once(self):
        self.check("""
        LDG.E R4, desc[UR4][R2.64]
        LDG.E R5, desc[UR4][R2.64+0x4]
        LDG.E.64 R6, desc[UR4][R2.64+0x8]
        LDG.E.128 R12, desc[UR4][R2.64+0x10]
        FADD R10, R10, R15
        FADD R10, R10, R4
        FADD R10, R10, R7""", 4)

    def test_a_straggler_costs_half(self):
        self.check("""
        LDG.E R4, desc[UR4][R2.64]
        LDG.E R5, desc[UR4][R2.64+0x4]
        LDG.E R6, desc[UR4][R2.64+0x8]
        FADD R10, R4, R5
        LDG.E R7, desc[UR4][R2.64+0xc]
        FADD R10, R6, R7""", 2)

    def test_the_next_trip_waits(self):
        # The first trip has nothing to wait for.
        self.check("""
        FADD R10, R10, R4
        LDG.E R4, desc[UR4][R2.64]
        LDG.E R5, desc[UR4][R2.64+0x4]
        FADD R11, R11, R12""", 2)

    def test_what_must_wait_for_another_load_does_not_stream(self):
        # A search: where it goes on depends on what it read.
        self.check("""
        IMAD.WIDE R2, R6, 0x4, R8
        LDG.E R4, desc[UR4][R2.64]
        ISETP.GT.AND P1, PT, R4, R5, PT
        SEL R6, R6, R7, P1""", None)

    def test_rows_of_a_list(self):
        # The list streams, its rows wait for it.
        self.check("""
        LDG.E R6, desc[UR4][R12.64]
        IMAD.WIDE R2, R6, 0x4, R8
        LDG.E R4, desc[UR4][R2.64]
        FADD R10, R10, R4""", 1)

    def test_loads_that_nobody_reads_within(self):
        self.check("LDG.E R4, desc[UR4][R2.64]", None)
        self.check("LDS R4, [R2]\nFADD R10, R10, R4", None)

    unrolled = """
        .L_x_0:
        LDG.E R4, desc[UR4][R2.64]
        LDG.E R5, desc[UR4][R2.64+0x4]
        LDG.E R6, desc[UR4][R2.64+0x8]
        LDG.E R7, desc[UR4][R2.64+0xc]
        FADD R10, R4, R5
        FADD R10, R6, R7
        @P0 BRA `(.L_x_0)"""

    def test_the_rest_of_an_unrolled_loop_is_left_out(self):
        rest = """
        .L_x_1:
        LDG.E R4, desc[UR4][R2.64]
        FADD R10, R10, R4
        @P0 BRA `(.L_x_1)"""
        self.assertEqual(only("loads in flight", kernel(f"{self.unrolled}{rest}\nEXIT")), 4)
        # Behind the rest comes a loop of its own.
        again = rest.replace("x_1", "x_2")
        self.assertEqual(only("loads in flight", kernel(f"{self.unrolled}{rest}{again}\nEXIT")), 1)

    def test_a_loop_that_does_something_else_is_no_rest(self):
        other = """
        .L_x_2:
        MOV R11, R10
        .L_x_1:
        LDG.E R4, desc[UR4][R2.64]
        {}
        @P0 BRA `(.L_x_1)
        {}
        EXIT"""
        for within, behind in (("FADD R10, R10, R4\nSTS [R11], R10", ""),
                               ("LDG.E.64 R8, desc[UR4][R8.64]\nFADD R10, R4, R8", ""),
                               # In a loop of its own.
                               ("FADD R10, R10, R4", "@P1 BRA `(.L_x_2)")):
            program = kernel(self.unrolled + other.format(within, behind))
            self.assertLess(only("loads in flight", program), 4, within)

    def test_a_register_that_is_written_again_is_no_load(self):
        self.check("""
        LDG.E R4, desc[UR4][R2.64]
        MOV R4, RZ
        FADD R10, R10, R4""", None)


class WholeKernels(unittest.TestCase):
    def test_early_accesses(self):
        wait = "ACQBULK\nPREEXIT\nLDG.E R0, [R2.64]\nEXIT"
        self.assertEqual(only("early accesses", kernel("S2R R0, SR_TID.X\n" + wait)), 0)
        self.assertEqual(only("early accesses", kernel("LDG.E R0, [R2.64]\nSTG.E [R2.64], R1\n" + wait)), 2)
        self.assertIsNone(only("early accesses", kernel("LDG.E R0, [R2.64]\nEXIT")))

    def test_spills(self):
        self.assertEqual(only("spills", kernel("STL [R1], R4\nLDL.64 R4, [R1]\nEXIT")), 2)
        self.assertEqual(only("spills", kernel("EXIT")), 0)

    def test_serial_products(self):
        program = kernel(f"{TOGETHER}\nEXIT")
        self.assertEqual(only("serial products", program), 0)
        program.serialised = 1
        self.assertEqual(only("serial products", program), 1)
        # Nothing else has such products.
        self.assertIsNone(only("serial products", kernel(f"{PRODUCT}\nEXIT")))

    def test_occupancy(self):
        plain, products = kernel("EXIT", 96, 3), kernel(f"{PRODUCT}\nEXIT", 128, 3)
        self.assertEqual(only("blocks an SM", kernel(f"{TOGETHER}\nEXIT", 128, 1)), 1)
        self.assertEqual(only("warps an SM", plain), 9)
        self.assertEqual(only("blocks an SM", products), 3)
        self.assertNotIn("blocks an SM", values(plain))
        self.assertNotIn("warps an SM", values(products))

    def test_every_check_is_tested_here(self):
        text = pathlib.Path(__file__).read_text()
        self.assertEqual([name for name in CHECKS if f'only("{name}"' not in text], [])


if __name__ == "__main__":
    unittest.main()
