"""What the wheels install compiles and runs policies by itself."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kvc_compiler
import numpy as np

import kvc
from kvc import _home

PACKAGE = pathlib.Path(kvc.__file__).parent
COMPILER = pathlib.Path(kvc_compiler.__file__).parent
GLIBC = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so")


class TestWheels(unittest.TestCase):
    def setUp(self):
        self.assertNotIn("KVC_HOME", os.environ)

    def test_places(self):
        self.assertEqual(_home.library(), PACKAGE / "native/lib/libkvc.so")
        self.assertEqual(_home.compiler(), COMPILER / "bin/kvc-opt")
        self.assertEqual(_home.policies(), PACKAGE / "native/share/kvc/policies")
        self.assertGreater(len(kvc.policies()), 20)

    def test_golden(self):
        # With an empty PATH: there is no linker and no compiler but those of the wheel.
        program = (
            "import json, sys, numpy as np, kvc\n"
            "policy = kvc.compile(sys.argv[1], head_dim=32, group=2, dtype='f32', cache_dir=sys.argv[2])\n"
            "random = np.random.default_rng(0)\n"
            "q, k, v = (random.standard_normal((1, h, n, 32), np.float32) for h, n in ((4, 32), (2, 99), (2, 99)))\n"
            "kept = policy.plan(kv_heads=2, max_tokens=99).evict(q, k, v, budget=40)\n"
            "print(json.dumps([kept[0, h].indices.tolist() for h in range(2)]))\n"
        )
        for policy, total in (("snapkv", 80), ("adakv", 80), ("streaming_llm", 80)):
            with self.subTest(policy), tempfile.TemporaryDirectory() as folder:
                bare = {"PATH": "/nowhere", "HOME": folder}
                command = [sys.executable, "-c", program, policy, folder]
                done = subprocess.run(command, env=bare, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                heads = json.loads(done.stdout)
                self.assertEqual(sum(map(len, heads)), total)
                for head in heads:
                    self.assertTrue((np.diff(head) > 0).all())

    def test_libraries(self):
        # Nothing but glibc is taken from the machine.
        listed = subprocess.run(
            [COMPILER / "bin/kvc-opt"], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, text=True
        ).stdout.splitlines()
        self.assertGreater(len(listed), 2)
        for line in listed:
            self.assertTrue(pathlib.Path(line.split()[0]).name.startswith(GLIBC), line)
        self.assertEqual([path.name for path in (COMPILER / "bin").iterdir()], ["kvc-opt"])
        listed = subprocess.run(
            [sys.executable, "-c", "import kvc; kvc._library.load(); print(open('/proc/self/maps').read())"],
            capture_output=True,
            text=True,
        ).stdout
        self.assertIn(str(PACKAGE / "native/lib/libkvc.so"), listed)
        self.assertNotIn("LLVM", listed)

    def test_same_as_the_build(self):
        # LLVM and the linker inside do what those of the machine do.
        with tempfile.TemporaryDirectory() as folder:
            for policy in ("snapkv", "critical_adakv", "ems"):
                made = []
                for program in (COMPILER / "bin/kvc-opt", os.environ["KVC_OPT_OF_BUILD"]):
                    out = pathlib.Path(folder, f"{len(made)}.so")
                    command = [program, kvc.policies()[policy], "--emit=library", "--chip=sm_90", "-o", out]
                    subprocess.run([*command, "--shape=head_dim=64,group=4,dtype=bf16"], check=True)
                    made.append(out.read_bytes())
                self.assertEqual(*made)

    def test_the_linker_inside(self):
        # By its name the program is ld.lld.
        command = ["ld.lld", "/nowhere.o", "-o", "/dev/null"]
        done = subprocess.run(command, executable=COMPILER / "bin/kvc-opt", capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "ld.lld: error: cannot open /nowhere.o: No such file or directory\n")

    def test_compile_error(self):
        with self.assertRaises(kvc.CompileError) as caught:
            kvc.compile("kvc.policy @p {\n  kvc.pull\n}\n", head_dim=16, group=2)
        self.assertEqual(str(caught.exception), "<policy>:2:3: error: custom op 'kvc.pull' is unknown")


if __name__ == "__main__":
    unittest.main()
