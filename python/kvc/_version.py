"""The version of the package: that of CMakeLists.txt."""

__version__ = "0.1.0"
