"""Tests of the package, a folder for each set of packages that they need:

core     NumPy:  python3 -m unittest discover -s python/tests/core -t python
torch    and torch
transformers    and transformers, torch

KVC_HOME names a build folder or an installation. `tools/test` runs core, `tools/test --python`
all, in environments that it makes.
"""
