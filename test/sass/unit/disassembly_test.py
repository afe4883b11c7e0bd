import unittest

from text import function, listing
import disassembly


class Reading(unittest.TestCase):
    def test_parts_of_an_instruction(self):
        load, branch = function("""
        .L_x_3:
        @!P0 LDG.E.128.CONSTANT R4, desc[UR6][R2.64+0x10]
        @PT BRA `(.L_x_3)""").instructions
        self.assertEqual((load.address, load.opcode, load.base), (0, "LDG.E.128.CONSTANT", "LDG"))
        self.assertEqual(load.operands, ("R4", "desc[UR6][R2.64+0x10]"))
        self.assertEqual((load.guard, load.negated), ("P0", True))
        # What always runs has no guard.
        self.assertEqual((branch.address, branch.guard, branch.targets), (16, "", (".L_x_3",)))

    def test_never_is_a_guard(self):
        self.assertEqual(function("@!PT LDS RZ, [RZ]").instructions[0].guard, "PT")

    def test_targets_of_an_indexed_branch(self):
        branch = function("""
        .L_x_0:
        BRX R4 -0x70 (*"BRANCH_TARGETS .L_x_0,.L_x_1"*)
        .L_x_1:
        EXIT""").instructions[0]
        self.assertEqual((branch.targets, branch.operands), ((".L_x_0", ".L_x_1"), ("R4 -0x70",)))

    def test_helpers_are_functions_of_their_own(self):
        found = disassembly.read(listing("""
        CALL.REL.NOINC `($__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath)
        EXIT
        $__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath:
        RET.REL.NODEC R2 `(kernel)"""))
        self.assertEqual([len(one.instructions) for one in found.values()], [2, 1])

    def test_what_is_no_disassembly(self):
        with self.assertRaisesRegex(disassembly.Unreadable, "must have an instruction, found none"):
            disassembly.read("nvdisasm info: nothing here\n")
        with self.assertRaisesRegex(disassembly.Unreadable, "behind the label of its function"):
            disassembly.read("        /*0000*/   EXIT ;\n")


if __name__ == "__main__":
    unittest.main()
