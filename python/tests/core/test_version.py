"""One version for the project: CMake's is the package's."""

import re
import unittest

import kvc

from ..support import ROOT


class TestVersion(unittest.TestCase):
    def test_is_cmakes(self):
        text = (ROOT / "CMakeLists.txt").read_text()
        self.assertEqual(kvc.__version__, re.search(r"project\(kvc VERSION ([\d.]+)", text)[1])


if __name__ == "__main__":
    unittest.main()
