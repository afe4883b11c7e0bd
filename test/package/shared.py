"""shared.py LIBKVC LLVM_BIN: what libkvc.so exports and needs, and that the C ABI can be
called through it by a program that is neither C nor C++."""
import ctypes
import re
import subprocess
import sys

library, tools = sys.argv[1:]


def output(tool, *options):
    return subprocess.run([f"{tools}/{tool}", *options, library], check=True,
                          capture_output=True, text=True).stdout


exported = {line.split()[-1] for line in output("llvm-nm", "-D", "--defined-only").splitlines()}
strangers = {name for name in exported if not name.startswith("kvc_")}
assert not strangers, f"exports {strangers}"
declared = set()
for header in ("kvc.h", "cache.h", "attend.h", "host.h"):
    with open(f"{sys.path[0]}/../../runtime/include/kvc/{header}") as file:
        declared |= set(re.findall(r"\b(kvc_\w+)\((?!\*)", re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)))
assert declared == exported, f"declared and exported differ in {declared ^ exported}"
needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("llvm-readelf", "-d")))
system = {name for name in needed if re.match(r"(libc|libm|libdl|libpthread|ld-linux.*)\.so", name)}
assert needed == system, f"needs {needed - system}"

kvc = ctypes.CDLL(library)
assert kvc.kvc_abi_version() == 2


class Target(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("kind", ctypes.c_int), ("device", ctypes.c_int),
                ("threads", ctypes.c_uint), ("seed", ctypes.c_uint64)]


class Artifact(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_char * 8), ("version", ctypes.c_uint32), ("image_count", ctypes.c_uint32),
                ("kernel_count", ctypes.c_uint64), ("manifest", ctypes.c_char_p),
                ("manifest_size", ctypes.c_uint64), ("images", ctypes.c_void_p), ("kernels", ctypes.c_void_p)]


manifest = (b'{"format": 2, "policy": "none", "queries": 0, "window": 0, "lse_buffer": null, "scores": null,'
            b'"params": {}, "buffers": [], "variants": [{"head_dim": 64, "group": 1, "dtype": "f32", "vector": 4,'
            b'"kernels": [{"name": "k", "kind": "rows", "phase": "select", "block": 32, "grid": ["1", "1", "1"],'
            b'"args": [], "skipped_with_lse": false}]}]}')
artifact = Artifact(b"kvc-art", 4, 0, 0, manifest, len(manifest), None, None)


def refusal(kind):
    module = ctypes.c_void_p()
    target = Target(ctypes.sizeof(Target), kind, 0, 1, 0)
    assert kvc.kvc_module_open(ctypes.byref(artifact), ctypes.byref(target), ctypes.byref(module)) < 0
    text = ctypes.create_string_buffer(200)
    kvc.kvc_last_error(text, 200)
    return text.value.decode()


host, ptx, unknown = 0, 2, 7
text = refusal(host)
assert text == ("the host target must be enabled before it is opened: call kvc_enable_host (kvc/host.h)"), text
kvc.kvc_enable_host()
text = refusal(host)
assert text == "artifact has no host kernel 'k'", text
text = refusal(ptx)
assert text == ("the PTX target must be enabled before it is opened: call kvc_enable_ptx (kvc/ptx.h)"), text
text = refusal(unknown)
assert text == "target.kind must be 0 (host), 1 (CUDA) or 2 (PTX), got 7", text
artifact.version = 1
text = refusal(host)
assert text == "this runtime reads artifact version 4, got version 1; compile the policy again", text
print(f"{len(exported)} functions, needs {', '.join(sorted(needed))}")
