"""The command, with programs in the place of kvc-opt, ptxas and nvdisasm that print what the
kernel of this test is made of."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from text import listing
import lint

PTX = ".visible .entry kernel()\n.maxntid 128, 1, 1\n{\n\tret;\n}\n"
SAID = "Compiling entry function 'kernel' for 'sm_90'\nUsed {} registers\n"
GATE = "# measured with ptxas {}\nkernel,check,limit,reason\nkernel,spills,{},why\n"
# What is for sm_90a has that behind its name.
PROGRAMS = {
    "kvc-opt": '''d=$(dirname "$0")
case "$*" in *--emit=gpu*) from=program.gpu ;; *) from=program.ptx ;; esac
while [ "$1" != -o ]; do shift; done; cp "$d/$from" "$2"''',
    "ptxas": '''d=$(dirname "$0")
[ "$1" != --version ] || { echo release 13.0; exit; }
case "$1" in *a) cat "$d/said.sm_90a" ;; *) cat "$d/said" ;; esac >&2; touch "$5"''',
    "nvdisasm": '''d=$(dirname "$0")
case "$2" in *.sm_90a.cubin) cat "$d/listing.sm_90a" ;; *) cat "$d/listing" ;; esac''',
}


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        self.bin, self.gates = self.build / "bin", self.build / "gates"
        self.bin.mkdir()
        for name, text in PROGRAMS.items():
            (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.bin / name).chmod(0o755)
        self.program("LDL R4, [R1]\nEXIT")
        (self.bin / "program.ptx").write_text(PTX)
        (self.bin / "program.gpu").write_text("gpu.func @kernel()\n")
        self.patch(mock.patch.object(lint, "GATES", self.gates))
        self.patch(mock.patch.dict(os.environ, {"KVC_PTXAS": str(self.bin / "ptxas"),
                                                "KVC_NVDISASM": str(self.bin / "nvdisasm")}))

    def patch(self, patcher):
        patcher.start()
        self.addCleanup(patcher.stop)

    def program(self, body, registers=32):
        (self.bin / "listing").write_text(listing(body))
        (self.bin / "said").write_text(SAID.format(registers))

    def gate(self, release, limit):
        self.gates.mkdir(exist_ok=True)
        (self.gates / "full.csv").write_text(GATE.format(release, limit))

    def run_lint(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = lint.main([str(argument) for argument in arguments])
        return status, out.getvalue() + err.getvalue()

    def check(self, expected, text):
        status, said = self.run_lint("check", self.build, "full")
        self.assertEqual(status, expected, said)
        self.assertIn(text, said)

    def test_goals_and_lines(self):
        self.check(1, "kernel: spills: 1 in 0000, must be at most 0")
        self.gate("13.0", 1)
        self.check(0, "1 kernels, 2 checks, 1 lines of the table")
        self.gate("13.0", 2)
        self.check(1, "better than its line, 2: the line must follow")
        self.program("EXIT")
        self.check(1, "meets the goal, 0: the line must go")

    def test_occupancy(self):
        self.program("EXIT", registers=255)
        self.check(1, "kernel: warps an SM: 8 in the kernel, must be at least 16")

    def form(self, body, said=""):
        """The kernel has one for sm_90a."""
        (self.bin / "program.gpu").write_text('{kvc.warpgroups_of = "kernel"}\n')
        (self.bin / "listing.sm_90a").write_text(listing(body, "kernel_warpgroups"))
        (self.bin / "said.sm_90a").write_text(
            said + SAID.format(128).replace("'kernel'", "'kernel_warpgroups'"))

    def test_forms_for_warpgroups(self):
        self.program("EXIT")
        self.check(0, "1 kernels")
        product = "HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0\nEXIT"
        self.form(product)
        # Both have spills and an occupancy; products by warpgroups may wait as well.
        self.check(0, "2 kernels, 5 checks, 0 lines of the table")
        self.form(product, "wgmma.mma_async instructions are serialized in the function "
                           "'kernel_warpgroups'\n")
        self.check(1, "kernel_warpgroups: serial products: 1 in the kernel, must be at most 0")
        (self.bin / "program.gpu").write_text('{kvc.warpgroups_of = "gone"}\n')
        self.check(1, "error: PTX for sm_90a must have a form of gone, it has none")

    def test_skipped(self):
        self.gate("12.9", 1)
        self.check(77, "skipped: full.csv was measured with ptxas 12.9, this one is 13.0")
        for name in ("ptxas", "nvdisasm"):
            with mock.patch.object(lint, "find_tools", return_value=(None, name)):
                self.check(77, f"skipped: no {name}")

    def test_a_table_is_read_where_there_is_no_tool(self):
        self.gate("13.0", "x")
        with mock.patch.object(lint, "find_tools", return_value=(None, "ptxas")):
            self.check(1, "must be a number with two decimals at most, got 'x'")

    def test_measure(self):
        measure = "measure", self.build, "full"
        status, said = self.run_lint(*measure)
        self.assertEqual(status, 1)
        self.assertIn("kernel: spills: 1 in 0000, was 0: needs a reason", said)
        self.assertFalse((self.gates / "full.csv").exists())
        self.assertEqual(self.run_lint(*measure, "--because", "a table, by index")[0], 0)
        self.assertEqual((self.gates / "full.csv").read_text(),
                         GATE.format("13.0", 1).replace("why", '"a table, by index"'))
        self.check(0, "1 lines")
        self.assertIn("1 kernel: a table, by index", self.run_lint("worst")[1])
        self.program("EXIT")
        self.assertEqual(self.run_lint(*measure)[0], 0)
        self.assertFalse((self.gates / "full.csv").exists())

    def test_a_file_is_left_whole_without_a_reason(self):
        self.gate("13.0", 2)
        self.program("LDL R4, [R1]\nEXIT", registers=255)
        status, said = self.run_lint("measure", self.build, "full")
        self.assertEqual(status, 1)
        self.assertIn("warps an SM: 8 in the kernel, was 16: needs a reason", said)
        self.assertEqual((self.gates / "full.csv").read_text(), GATE.format("13.0", 2))

    def test_show(self):
        self.program(".L_x_0:\nHMMA.16816.F32 R4, R8, R12, R4\n@P0 BRA `(.L_x_0)\nEXIT")
        status, said = self.run_lint("show", self.build, "full")
        self.assertEqual(status, 0)
        self.assertIn("the loop at 0000: 2 instructions, HMMA 1", said)
        self.assertIn("slots per HMMA: 2 in the loop at 0000 (goal 4)", said)

    def test_subjects(self):
        said = self.run_lint("subjects")[1].split()
        self.assertLess({"snapkv", "criticalkv-pruned", "executor"}, set(said))

    def test_what_is_refused(self):
        for arguments, expected, text in (
                ((), 2, "usage"), (("sevens",), 2, "usage"), (("check", "a"), 2, "usage"),
                (("show", self.build, "sevens"), 1, "a subject must be one of ada_pyramidkv"),
                (("worst", "x"), 1, "a count must be a number, got 'x'"),
                (("measure", self.build, "--because"), 1, "--because must have a text")):
            status, said = self.run_lint(*arguments)
            self.assertEqual(status, expected)
            self.assertIn(text if expected != 2 else "lint.py check", said)


if __name__ == "__main__":
    unittest.main()
