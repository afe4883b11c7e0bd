"""kvc.compile: what it takes, what it refuses, and its cache."""

import copy
import multiprocessing
import os
import pathlib
import pickle
import tempfile
import threading
import unittest
from decimal import Decimal
from fractions import Fraction

import kvc
from kvc import _cache

from ..support import Case, compiled, environment

TEXT = """kvc.policy @short {
  %sinks  = kvc.param "sinks" = 4 : index
  %budget = kvc.budget
  %first  = arith.minui %sinks, %budget : index
  %recent = arith.subi %budget, %first : index
  %t      = kvc.position : tensor<?x?xi32>
  %end    = kvc.broadcast %first : index to tensor<?x?xi32>
  %sink   = arith.cmpi ult, %t, %end : tensor<?x?xi32>
  kvc.keep %sink protect_last(%recent) : tensor<?x?xi1>
}
"""


def compile_in(folder):
    return str(kvc.compile(TEXT, head_dim=16, group=2, dtype="f32", cache_dir=folder).path)


class TestCompile(Case):
    def test_name_file_and_text(self):
        shipped = kvc.policies()["streaming_llm"]
        by_name = compiled("streaming_llm")
        self.assertEqual(by_name.name, "streaming_llm")
        for same in (shipped, str(shipped), shipped.read_text()):
            self.assertEqual(compiled(same).path, by_name.path)
        self.assertEqual(compiled(TEXT).name, "short")

    def test_what_else_is_another_entry(self):
        base = compiled(TEXT)
        self.assertEqual(base.manifest.params, {"sinks": 4})
        others = [
            compiled(TEXT, params={"sinks": 5}),
            compiled(TEXT + "// a comment\n"),
            compiled(TEXT, arch="sm_90"),
            compiled(TEXT, dtype="bf16"),
            compiled(TEXT, group=1),
        ]
        self.assertEqual(len({policy.path for policy in [base, *others]}), 6)
        self.assertEqual(others[0].manifest.params, {"sinks": 5})
        self.assertIn(b".target sm_90", others[2].path.read_bytes())
        self.assertNotIn(b".target", base.path.read_bytes())

    def test_numbers_of_parameters(self):
        # A fraction of a policy's is read as a decimal, to its last digit.
        for value in (0.25, "0.25", Decimal("0.25"), Fraction(1, 4)):
            policy = compiled("adakv", params={"safeguard": value})
            self.assertEqual(policy.path, compiled("adakv", params={"safeguard": "0.25"}).path)
        self.assertEqual(compiled("critical_adakv", params={"epsilon": 1e-5}).name, "critical_adakv")
        for value in (True, None, Fraction(1, 3), "x" * 2):
            kind = kvc.CompileError if isinstance(value, str) else kvc.ArgumentError
            with self.assertRaises(kind):
                compiled("adakv", params={"safeguard": value})

    def test_the_compilers_line(self):
        with self.refused(kvc.CompileError, "<policy>:2:8: error: custom op 'kvc.nonsense' is unknown"):
            compiled("kvc.policy @x {\n  %a = kvc.nonsense\n}")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bad.mlir")
            path.write_text("kvc.policy @x {\n  %a = kvc.nonsense\n}")
            try:
                compiled(path)
            except kvc.CompileError as error:
                self.assertTrue(str(error).startswith(f"{path}:2:8: error: "), error)
                self.assertEqual((error.line, error.column), (2, 8))
        try:
            compiled("snapkv", dtype="f64")
        except kvc.CompileError as error:
            self.assertEqual(str(error), "dtype must be f32, f16 or bf16, got 'f64'")
            self.assertIsNone(error.line)
        for options, rule in (
            ({"head_dim": 0}, "head_dim must be 1 to 256, got 0"),
            ({"group": "two"}, "a shape is head_dim=N,group=N,dtype=T"),
            ({"arch": "--help"}, "--help"),
            ({"params": {"windows": 3}}, "has no parameter 'windows'"),
            ({"params": {"window": -3}}, "must be a non-negative number"),
        ):
            with self.refused(kvc.CompileError, rule):
                compiled("snapkv", **options)

    def test_what_is_no_policy(self):
        one = "a policy must be a text, a file or the name of one that is shipped, got "
        for policy, rule in (
            (None, f"{one}None"),
            (3, f"{one}3"),
            (b"knorm", f"{one}b'knorm'"),
            ("kno\0rm", f"{one}'kno\\x00rm'"),
            ("// \ud800\n", "the text of a policy must be one that UTF-8 has, got '\\ud800' at 3"),
        ):
            with self.refused(kvc.ArgumentError, rule):
                compiled(policy)
        with self.refused(kvc.CompileError, "<policy>: must have one kvc.policy, got 0"):
            compiled("\n")
        for options, rule in (
            ({"arch": 90}, "arch must be the name of a GPU or several, got 90"),
            ({"params": "window=3"}, "params must be a mapping of names to numbers, got 'window=3'"),
            ({"params": {3: 1}}, "params must be a mapping of names to numbers, got {3: 1}"),
            ({"cache_dir": 3}, "the cache of compiled policies must be a folder, got 3"),
        ):
            with self.refused(kvc.ArgumentError, rule):
                compiled("knorm", **options)
        with self.refused(kvc.ArgumentError, "a compiled policy must be a file, got None"):
            kvc.load(None)

    def test_not_found(self):
        with self.refused(kvc.NotFoundError, "one of ada_pyramidkv, "):
            compiled("snapvk")
        with self.refused(kvc.NotFoundError, "/nonexistent/p.mlir: a policy must be a file that can be read: No such"):
            compiled("/nonexistent/p.mlir")
        with self.refused(kvc.ArtifactError, "/nonexistent/p.so"):
            kvc.load("/nonexistent/p.so")

    def test_a_compiler_that_dies(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "bin/kvc-opt")
            program.parent.mkdir()
            for script, said in (
                ("kill -SEGV $$", "was ended by signal SIGSEGV"),
                ("exit 3", "failed with code 3 and gave no reason"),
            ):
                program.write_text(f"#!/bin/sh\n{script}\n")
                program.chmod(0o755)
                with environment(KVC_HOME=folder), self.refused(kvc.CompileError, said):
                    compiled(TEXT)
            program.chmod(0o644)
            with environment(KVC_HOME=folder), self.refused(kvc.CompileError, "cannot be run: Permission denied"):
                compiled(TEXT)

    def test_load(self):
        policy = compiled(TEXT)
        self.assertEqual(kvc.load(policy.path).manifest, policy.manifest)

    def test_copies(self):
        policy = compiled(TEXT)
        self.assertIs(copy.copy(policy), policy)
        self.assertIs(copy.deepcopy(policy), policy)
        other = pickle.loads(pickle.dumps(policy))
        self.assertEqual((other.path, other.manifest), (policy.path, policy.manifest))
        self.assertEqual(copy.deepcopy(policy.manifest), policy.manifest)


class TestCache(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_hit_and_miss(self):
        path = compile_in(self.folder)
        before = os.stat(path)
        self.assertEqual(compile_in(self.folder), path)
        self.assertEqual(os.stat(path).st_mtime_ns, before.st_mtime_ns)
        self.assertEqual(os.stat(path).st_ino, before.st_ino)

    def test_damage_is_compiled_again(self):
        path = pathlib.Path(compile_in(self.folder))
        whole = path.read_bytes()
        for damaged in (
            b"",
            whole[:100],
            whole[:-1],
            whole + b"x",
            whole[:500] + b"?" + whole[501:],
            b"x" * len(whole),
        ):
            self.assertNotEqual(damaged, whole)
            path.write_bytes(damaged)
            self.assertFalse(_cache.is_whole(path))
            compile_in(self.folder)
            self.assertEqual(path.read_bytes(), whole)

    def test_folders(self):
        with environment(KVC_CACHE_DIR=None, XDG_CACHE_HOME=self.folder):
            self.assertEqual(_cache.folder(None), pathlib.Path(self.folder, "kvc"))
        with environment(KVC_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME=self.folder):
            self.assertEqual(_cache.folder(None), pathlib.Path(self.folder, ".cache/kvc"))
        with environment(KVC_CACHE_DIR=f"{self.folder}/deep/er"):
            self.assertEqual(_cache.folder(None), pathlib.Path(self.folder, "deep/er"))
        pathlib.Path(self.folder, "file").touch()
        with self.refused(kvc.Error, f"must be a folder, got {self.folder}/file: File exists"):
            compile_in(f"{self.folder}/file")

    def test_another_compiler_is_another_key(self):
        with tempfile.TemporaryDirectory() as home:
            one, other = (pathlib.Path(home, name) for name in ("one", "other"))
            one.write_bytes(b"a compiler")
            other.write_bytes(b"another")
            keys = {_cache.key(_cache.compiler_identity(path), b"text", ["x"]) for path in (one, other)}
            self.assertEqual(len(keys), 2)
            before = _cache.compiler_identity(one)
            one.write_bytes(b"a compiler, built again")
            self.assertNotEqual(_cache.compiler_identity(one), before)
        # Lists of options are not run together.
        self.assertNotEqual(_cache.key("i", b"t", ["ab", "c"]), _cache.key("i", b"t", ["a", "bc"]))

    def test_several_processes(self):
        # Each asks for what none has made yet; some find it half made.
        context = multiprocessing.get_context("spawn")
        with context.Pool(3) as pool:
            paths = pool.map(compile_in, [self.folder] * 3)
        self.assertEqual(len(set(paths)), 1)
        self.assertTrue(_cache.is_whole(pathlib.Path(paths[0])))
        self.assertEqual(os.listdir(self.folder), [os.path.basename(paths[0])])

    def test_several_threads(self):
        found = []
        threads = [threading.Thread(target=lambda: found.append(compile_in(self.folder))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 3)
        self.assertEqual(len(set(found)), 1)


if __name__ == "__main__":
    unittest.main()
