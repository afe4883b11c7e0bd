"""Models on tensors that stand in for a GPU's: a process of its own, which finds no other driver."""

import os
import pathlib
import subprocess
import sys
import unittest

from ..support import HOME, Case

DRIVER = HOME / "test/fake_cuda"


class TestGPU(Case):
    @unittest.skipUnless((DRIVER / "libcuda.so.1").exists(), "only a build folder has the driver's stand-in")
    def test_same_as_on_the_cpu(self):
        result = subprocess.run(
            [sys.executable, "-m", "unittest", "tests.transformers.gpu"],
            cwd=pathlib.Path(__file__).parents[2],
            env=os.environ | {"LD_LIBRARY_PATH": f"{DRIVER}:{os.environ.get('LD_LIBRARY_PATH', '')}"},
            capture_output=True,
            text=True,
        )
        self.assertEqual(result.returncode, 0, result.stderr[-8000:])


if __name__ == "__main__":
    unittest.main()
