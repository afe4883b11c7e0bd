import unittest

from text import function
from disassembly import Unreadable
from flow import Flow


def loops(body):
    """Of each loop: first address of its header, depth, opcodes of its own."""
    flow = Flow(function(body))
    return [(flow.where(loop)[-4:], loop.depth, [one.base for one in flow.own(loop)])
            for loop in flow.loops]


class Loops(unittest.TestCase):
    def test_none(self):
        # The branch to itself behind the end is padding that nothing reaches.
        self.assertEqual(loops("""
        MOV R1, RZ
        @P0 BRA `(.L_x_1)
        EXIT
        .L_x_1:
        EXIT
        .L_x_2:
        BRA `(.L_x_2)
        NOP"""), [])

    def test_a_loop_of_several_blocks(self):
        self.assertEqual(loops("""
        MOV R1, RZ
        .L_x_1:
        @P0 BRA `(.L_x_2)
        FADD R1, R1, R2
        .L_x_2:
        FMUL R1, R1, R2
        @P1 BRA `(.L_x_1)
        EXIT"""), [("0010", 1, ["BRA", "FADD", "FMUL", "BRA"])])

    def test_a_loop_within_a_loop(self):
        self.assertEqual(loops("""
        .L_x_1:
        MOV R1, RZ
        .L_x_2:
        FADD R1, R1, R2
        @P0 BRA `(.L_x_2)
        MOV R2, R1
        @!P1 BRA `(.L_x_1)
        EXIT"""), [("0000", 1, ["MOV", "MOV", "BRA"]), ("0010", 2, ["FADD", "BRA"])])

    def test_two_ways_back_are_one_loop(self):
        self.assertEqual(loops("""
        .L_x_1:
        FADD R1, R1, R2
        @P0 BRA `(.L_x_1)
        FMUL R1, R1, R2
        @P1 BRA `(.L_x_1)
        EXIT"""), [("0000", 1, ["FADD", "BRA", "FMUL", "BRA"])])

    def test_a_way_back_from_behind_the_end(self):
        # Slow paths lie behind the kernel's code.
        self.assertEqual(loops("""
        .L_x_1:
        FCHK P0, R1, R2
        @P0 BRA `(.L_x_3)
        .L_x_2:
        FADD R1, R1, R2
        @P1 BRA `(.L_x_1)
        EXIT
        .L_x_3:
        CALL.REL.NOINC `(helper)
        BRA `(.L_x_2)"""), [("0000", 1, ["FCHK", "BRA", "FADD", "BRA", "CALL", "BRA"])])

    def test_branches_with_a_condition_among_operands(self):
        self.assertEqual(loops("""
        .L_x_1:
        FADD R1, R1, R2
        BRA P0, `(.L_x_1)
        FMUL R1, R1, R2
        BRA.U !UP0, `(.L_x_1)
        EXIT"""), [("0000", 1, ["FADD", "BRA", "FMUL", "BRA"])])

    def test_repetitions_for_parted_lanes_are_left_out(self):
        self.assertEqual(loops("""
        .L_x_1:
        BRA.DIV UR4, `(.L_x_3)
        SHFL.BFLY PT, R1, R1, 0x1, 0x1f
        .L_x_2:
        @P0 BRA `(.L_x_1)
        EXIT
        .L_x_3:
        WARPSYNC.COLLECTIVE R4, `(.L_x_4)
        .L_x_4:
        SHFL.BFLY PT, R1, R1, 0x1, 0x1f
        BRA `(.L_x_2)"""), [("0000", 1, ["BRA", "SHFL", "BRA"])])

    def test_lanes_meet_where_bssy_says(self):
        # BSYNC in the block behind the end goes back into the loop, to a label that no branch has.
        self.assertEqual(loops("""
        .L_x_1:
        BSSY B0, `(.L_x_2)
        @P0 BRA `(.L_x_3)
        BSYNC B0
        .L_x_2:
        FADD R1, R1, R2
        @P1 BRA `(.L_x_1)
        EXIT
        .L_x_3:
        MOV R3, RZ
        BSYNC B0
        EXIT"""), [("0000", 1, ["BSSY", "BRA", "BSYNC", "FADD", "BRA", "MOV", "BSYNC"])])

    def test_an_indexed_branch_back(self):
        self.assertEqual(len(loops("""
        .L_x_1:
        BRX R4 -0x70 (*"BRANCH_TARGETS .L_x_1,.L_x_2"*)
        .L_x_2:
        EXIT""")), 1)

    def test_a_guarded_exit_goes_on(self):
        self.assertEqual(len(loops("""
        .L_x_1:
        @P0 EXIT
        BRA `(.L_x_1)""")), 1)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(Unreadable, "a loop must have one entry, found a second"):
            Flow(function("""
            @P0 BRA `(.L_x_2)
            .L_x_1:
            FADD R1, R1, R2
            .L_x_2:
            FMUL R1, R1, R2
            @P1 BRA `(.L_x_1)
            EXIT"""))
        with self.assertRaisesRegex(Unreadable, "must have its label in the function"):
            Flow(function("BRA `(.L_x_9)"))
        with self.assertRaisesRegex(Unreadable, "a branch must name its targets"):
            Flow(function("BRX R4 -0x70"))


if __name__ == "__main__":
    unittest.main()
