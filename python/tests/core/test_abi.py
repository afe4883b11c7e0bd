"""kvc/_abi.py says what the C headers say: a field that was added there and not here would be
taken for 0, and one out of place for another."""

import ctypes
import re
import unittest

from kvc import _abi, _library

from ..support import ROOT

HEADERS = ROOT / "runtime/include/kvc"
STRUCTURED = ("kvc.h", "cache.h", "attend.h")
INTEGERS = {
    "size_t": ctypes.c_size_t,
    "uint32_t": ctypes.c_uint32,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "unsigned": ctypes.c_uint,
    "int": ctypes.c_int,
    "float": ctypes.c_float,
    "kvc_dtype": ctypes.c_int,
    "kvc_target_kind": ctypes.c_int,
    "kvc_cache_kind": ctypes.c_int,
    "kvc_rows": _abi.Rows,
    "kvc_row_states": _abi.RowStates,
    "kvc_plane": _abi.Plane,
    "kvc_numbers": _abi.Numbers,
}
STRUCTS = {
    "kvc_target": _abi.Target,
    "kvc_plan_options": _abi.PlanOptions,
    "kvc_plan_info": _abi.PlanInfo,
    "kvc_rows": _abi.Rows,
    "kvc_row_states": _abi.RowStates,
    "kvc_layer_args": _abi.LayerArgs,
    "kvc_plane": _abi.Plane,
    "kvc_numbers": _abi.Numbers,
    "kvc_member_table": _abi.MemberTable,
    "kvc_cache_view": _abi.CacheView,
    "kvc_append_args": _abi.AppendArgs,
    "kvc_attend_args": _abi.AttendArgs,
}
# Structs that others point to.
POINTED = {name: ctypes.POINTER(STRUCTS[name]) for name in ("kvc_cache_view", "kvc_member_table")}


def text(*names):
    joined = "\n".join((HEADERS / name).read_text() for name in names)
    return re.sub(r"/\*.*?\*/", " ", joined, flags=re.S)


def fields(body):
    """ "const void *a, *b; int c;" as [("a", c_void_p), ...]."""
    found = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, names = re.fullmatch(r"(?:const\s+)?(?:struct\s+)?(\w+)\s*(.*)", declaration, re.S).groups()
        for name in names.split(","):
            pointer = "*" in name
            of = POINTED.get(kind, ctypes.c_void_p) if pointer else INTEGERS[kind]
            found.append((name.strip(" *\n"), of))
    return found


def parameter(declaration):
    """What a parameter is passed as."""
    kind = re.sub(r"\bconst\b", "", declaration)
    stars = kind.count("*")
    name = re.search(r"\w+", kind)[0]
    if name == "char":
        return ctypes.c_char_p
    if name in STRUCTS:
        return ctypes.POINTER(STRUCTS[name])
    if name == "size_t" and stars:
        return ctypes.POINTER(ctypes.c_size_t)
    if name in ("void", "kvc_module", "kvc_plan", "kvc_artifact"):
        return ctypes.c_void_p if stars == 1 else ctypes.POINTER(ctypes.c_void_p)
    return INTEGERS[name]


class TestAbi(unittest.TestCase):
    def test_structs(self):
        pattern = r"typedef struct \w+ \{(.*?)\} (\w+);"
        found = {name: body for body, name in re.findall(pattern, text(*STRUCTURED), re.S)}
        self.assertEqual(set(found), set(STRUCTS))
        for name, struct in STRUCTS.items():
            self.assertEqual(fields(found[name]), struct._fields_, name)

    def test_enumerators(self):
        pairs = re.findall(r"\bKVC_(\w+) = (-?\d+)", text(*STRUCTURED, "artifact.h"))
        self.assertGreater(len(pairs), 20)
        for name, value in pairs:
            self.assertEqual(getattr(_abi, name), int(value), name)
        self.assertEqual(_abi.ABI_VERSION, int(re.search(r"KVC_ABI_VERSION (\d+)u", text("kvc.h"))[1]))
        self.assertEqual(_abi.MAX_HEAD_DIM, int(re.search(r"KVC_MAX_HEAD_DIM (\d+)", text("cache.h"))[1]))
        self.assertEqual(_abi.PREPARED_ALIGNMENT, int(re.search(r"KVC_PREPARED_ALIGNMENT (\d+)", text("kvc.h"))[1]))
        self.assertIn("KVC_ALL_QUERIES UINT32_MAX", text("kvc.h"))
        self.assertEqual(_abi.ALL_QUERIES, 2**32 - 1)

    def test_functions(self):
        found = {}
        pattern = r"\b(kvc_status|uint32_t|size_t|int|void|const char \*)\s*(kvc_\w+)\(([^)]*)\)"
        for result, name, parameters in re.findall(pattern, text(*STRUCTURED, "host.h")):
            results = {"void": None, "kvc_status": _abi.Status, "const char *": ctypes.c_char_p}
            kinds = [] if parameters == "void" else [parameter(p) for p in parameters.split(",")]
            found[name] = (results[result] if result in results else INTEGERS[result], kinds)
        self.assertEqual(found, _abi.FUNCTIONS)

    def test_every_failure_has_an_exception(self):
        body = re.search(r"typedef enum kvc_status \{(.*?)\}", text("kvc.h"), re.S)[1]
        failures = {int(value) for value in re.findall(r"= (-\d+)", body)}
        self.assertEqual(set(_library.ERRORS), failures)


if __name__ == "__main__":
    unittest.main()
