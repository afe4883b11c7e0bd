"""Tests of the package: `python3 -m unittest discover -s python/tests -t python`.

They need NumPy and KVC_HOME, a build folder or an installation; those in tests/torch need
torch, too.
"""
