import os
import unittest
from unittest import mock

from text import listing
import toolchain
from toolchain import (Failed, Tools, blocks_of_an_sm, find, launch_bytes, read_kernels, run,
                       serialised, threads_of, used)

PTX = """
.visible .entry kernel(
	.param .u64 .ptr .align 1 kernel_param_0
)
.maxntid 64, 2, 1
{
	ret;
}
.visible .entry other()
{
	ret;
}
"""
SAID = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kernel' for 'sm_90'
ptxas info    : Function properties for kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 64 bytes smem
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Used 255 registers, 360 bytes cmem[0]
"""
SERIAL = ("ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are "
          "serialized due to non wgmma instructions reading accumulator registers of  a wgmma "
          "between start and end of the pipeline stage in the function 'other'\n")
LAUNCH = ".extern .shared .align 1024 .b8 kernel_memory[];"
BOTH = listing("EXIT") + listing("EXIT", "other")


class Texts(unittest.TestCase):
    def test_ptx_and_ptxas(self):
        self.assertEqual(threads_of(PTX), {"kernel": 128, "other": 0})
        self.assertEqual(used(SAID), {"kernel": (40, 64), "other": (255, 0)})

    def test_serialised_products(self):
        self.assertEqual(serialised(SAID), {})
        self.assertEqual(serialised(SERIAL + SAID), {"other": 1})
        kernel, other = read_kernels(BOTH, PTX, SERIAL + SAID, must_say_threads=False)
        self.assertEqual((kernel.serialised, other.serialised), (0, 1))
        with self.assertRaisesRegex(Failed, "must name the kernel whose products it serialises"):
            serialised(SERIAL.replace("in the function", "somewhere in"))

    def test_occupancy(self):
        # 128 threads are 4 warps: of 64 warps 16 blocks; of registers, 40 to a thread are 1280 to
        # a warp, 12 blocks; of shared memory with its KiB, 10 KiB give 20 blocks of 228 KiB.
        self.assertEqual(blocks_of_an_sm(128, 32, 0), 16)
        self.assertEqual(blocks_of_an_sm(128, 40, 0), 12)
        self.assertEqual(blocks_of_an_sm(128, 41, 0), 10)  # 48 are given
        self.assertEqual(blocks_of_an_sm(32, 32, 0), 32)
        self.assertEqual(blocks_of_an_sm(32, 32, 9 * 1024), 22)
        self.assertEqual(blocks_of_an_sm(0, 32, 0), 0)

    def test_kernels(self):
        kernel, other = read_kernels(BOTH, PTX, SAID, must_say_threads=False)
        self.assertEqual((kernel.name, kernel.threads, kernel.blocks), ("kernel", 128, 12))
        self.assertEqual((other.name, other.threads, other.blocks), ("other", 0, 0))
        read_kernels(BOTH, PTX + LAUNCH, SAID, must_say_threads=False)

    def test_memory_that_the_launch_gives(self):
        text = 'gpu.func @kernel(%a: i64) kernel attributes {kvc.shared_bytes = 102400 : i64} {\n'
        self.assertEqual(launch_bytes(text + "gpu.func @other() kernel {"), {"kernel": 102400})
        kernels = read_kernels(BOTH, PTX + LAUNCH, SAID, must_say_threads=False,
                               given=launch_bytes(text))
        self.assertEqual([kernel.blocks for kernel in kernels], [2, 0])

    def test_what_is_refused(self):
        for arguments, rule in (
                ((BOTH, PTX, SAID), "other: a kernel must say its threads"),
                ((listing("EXIT"), PTX, SAID, False), "other: ptxas and nvdisasm must know"),
                ((BOTH, PTX, SAID[:300], False), "other: ptxas and nvdisasm must know"),
                ((BOTH, PTX + LAUNCH, SAID), "kernel_memory: the launch must say its size"),
                ((BOTH, PTX + LAUNCH, SAID, True, {"other": 1}),
                 "kernel_memory: the launch must say its size"),
                ((BOTH, "", SAID), "the PTX must have a kernel, found none")):
            with self.assertRaisesRegex(Failed, rule):
                read_kernels(*arguments)


class Programs(unittest.TestCase):
    def test_a_variable_must_name_a_program(self):
        with mock.patch.dict(os.environ, {"KVC_NVDISASM": "/nowhere"}):
            with self.assertRaisesRegex(Failed, "KVC_NVDISASM must name a program, got '/nowhere'"):
                find("KVC_NVDISASM", "true")
        with mock.patch.dict(os.environ, {"KVC_NVDISASM": "true"}):
            self.assertTrue(find("KVC_NVDISASM", "nowhere").endswith("/true"))

    def test_path_and_other_places(self):
        self.assertTrue(find("KVC_NONE", "true").endswith("/true"))
        self.assertEqual(find("KVC_NONE", "nowhere", "/bin/nowhere", "/bin/sh"), "/bin/sh")
        self.assertIsNone(find("KVC_NONE", "nowhere", "/bin/nowhere"))

    def test_a_program_that_fails(self):
        with self.assertRaisesRegex(Failed, "sh failed with status 3: no such thing"):
            run(["sh", "-c", "echo no such thing >&2; exit 3"])
        with self.assertRaisesRegex(Failed, "sh failed with status 3: it said nothing"):
            run(["sh", "-c", "exit 3"])

    def test_the_release(self):
        with mock.patch.object(toolchain, "run", return_value="Cuda, release 13.0, V13.0.88"):
            self.assertEqual(Tools("ptxas", "nvdisasm").release, "13.0")
        with mock.patch.object(toolchain, "run", return_value="a version"):
            with self.assertRaisesRegex(Failed, "must name a release, said 'a version'"):
                Tools("ptxas", "nvdisasm").release


if __name__ == "__main__":
    unittest.main()
