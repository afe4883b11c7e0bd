import unittest

import text  # finds the modules
from forms import Missing, kernels_with_forms, only_forms

GPU = """
    gpu.func @a_d128(%arg0: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    gpu.func @a_d128_warpgroups(%arg0: i64) kernel attributes {kvc.warpgroups_of = "a_d128"} {
    gpu.func @b_d128(%arg0: i64) kernel {
"""
HEAD = ".version 8.0\n.target sm_90a\n"
# Braces within are not in the first column.
KERNEL = """.visible .entry {0}(
	.param .u64 {0}_param_0
)
.maxntid 64, 1, 1
{{
	{{ .reg .b32 t; }}
	ret;

}}
"""


class Forms(unittest.TestCase):
    def test_which_kernels_have_one(self):
        self.assertEqual(kernels_with_forms(GPU), ["a_d128"])
        self.assertEqual(kernels_with_forms("gpu.func @a()"), [])

    def test_others_are_left_out(self):
        ptx = HEAD + KERNEL.format("b_d128") + KERNEL.format("a_d128") + KERNEL.format("a_d128x")
        form = KERNEL.format("a_d128").replace("entry a_d128(", "entry a_d128_warpgroups(")
        self.assertEqual(only_forms(ptx, ["a_d128"]), HEAD + form)

    def test_a_form_that_is_not_there(self):
        with self.assertRaisesRegex(Missing, "must have a form of a_d128, it has none"):
            only_forms(HEAD + KERNEL.format("b_d128"), ["a_d128"])


if __name__ == "__main__":
    unittest.main()
