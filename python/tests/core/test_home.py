"""Where libkvc.so, kvc-opt and the policies are looked for."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import kvc
from kvc import _home

from ..support import HOME, Case, environment


def run(code, **variables):
    """A Python of its own: a library is loaded once per process."""
    values = {name: value for name, value in {**os.environ, **variables}.items() if value is not None}
    result = subprocess.run([sys.executable, "-c", code], env=values, capture_output=True, text=True)
    return result.stdout + result.stderr


class TestHome(Case):
    def test_named(self):
        self.assertEqual(_home.library().name, "libkvc.so")
        self.assertIn(HOME.absolute(), _home.library().parents)
        self.assertEqual(_home.compiler(), HOME.absolute() / "bin/kvc-opt")
        self.assertIn("snapkv", kvc.policies())

    def test_named_wrongly_is_not_looked_for_elsewhere(self):
        path = f"{HOME}/bin{os.pathsep}{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as folder, environment(KVC_HOME=folder, PATH=path):
            for find, what in (
                (_home.library, "libkvc.so"),
                (_home.compiler, "kvc-opt"),
                (_home.policies, "the shipped policies"),
            ):
                with self.refused(
                    kvc.NotFoundError,
                    f"KVC_HOME must be a build folder or an installation of kvc, got '{folder}' without {what}",
                ):
                    find()

    def test_beside(self):
        # What the wheel of the compiler brings: found without KVC_HOME.
        with tempfile.TemporaryDirectory() as folder:
            beside = pathlib.Path(folder, "kvc_compiler")
            (beside / "bin").mkdir(parents=True)
            (beside / "__init__.py").touch()
            (beside / "bin/kvc-opt").touch()
            more = {"PATH": "/nowhere", "PYTHONPATH": os.pathsep.join([folder, *sys.path])}
            said = run("import kvc; print(kvc._home.compiler())", KVC_HOME=None, **more)
            self.assertEqual(said, f"{beside}/bin/kvc-opt\n")

    def test_by_path(self):
        # Also by a link to the program from another folder.
        with tempfile.TemporaryDirectory() as folder:
            real = pathlib.Path(folder, "kvc/bin/kvc-opt")
            real.parent.mkdir(parents=True)
            real.write_text("#!/bin/sh\n")
            real.chmod(0o755)
            library = pathlib.Path(folder, "kvc/lib/libkvc.so")
            library.parent.mkdir()
            library.touch()
            links = pathlib.Path(folder, "links")
            links.mkdir()
            (links / "kvc-opt").symlink_to(real)
            with environment(KVC_HOME=None, PATH=links):
                self.assertTrue(_home.compiler().samefile(real))
                self.assertTrue(_home.library().samefile(library))

    def test_carried_by_the_package(self):
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder, "native/lib/libkvc.so")
            library.parent.mkdir(parents=True)
            library.touch()
            with environment(KVC_HOME=None), mock.patch.object(_home, "__file__", f"{folder}/_home.py"):
                self.assertEqual(_home.library(), library)

    def test_nowhere(self):
        with environment(KVC_HOME=None, PATH="/nonexistent"):
            with self.refused(kvc.NotFoundError, "libkvc.so was not found: set KVC_HOME to a build folder"):
                _home.library()

    def test_no_library(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "lib").mkdir()
            pathlib.Path(folder, "lib/libkvc.so").write_text("no library")
            said = run("import kvc\ntry: kvc.load('x.so')\nexcept kvc.NotFoundError as e: print(e)", KVC_HOME=folder)
            self.assertIn("libkvc.so cannot be loaded: ", said)
            self.assertEqual(len(said.splitlines()), 1, said)

    def test_import_needs_nothing(self):
        said = run("import sys, kvc; print('torch' in sys.modules)", KVC_HOME="/nonexistent")
        self.assertEqual(said, "False\n")


if __name__ == "__main__":
    unittest.main()
