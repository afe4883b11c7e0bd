"""lit configuration: every .mlir and .test file is a test."""
import os
import shutil
import sys

import lit.formats

config.name = "kvc"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".test"]
config.excludes = ["variants", "Inputs", "random", "fuzz"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.kvc_build, "test", "lit")
path = [config.kvc_bin, config.llvm_tools]
config.environment["PATH"] = os.pathsep.join(path + [os.environ["PATH"]])
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
        config.available_features.add("sanitized")
# Tests run beside each other, a core each: BLAS threads that wait spin.
config.environment["OPENBLAS_NUM_THREADS"] = "1"
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input-filter=error"
# Not by its name: that may be a script that looks for it anew each time.
python = sys.executable
config.substitutions += [
    ("%policies", os.path.join(config.kvc_source, "policies")),
    ("%variants", os.path.join(config.kvc_source, "test", "variants")),
    ("%models", os.path.join(config.kvc_source, "models")),
    ("%layers", python + " " + os.path.join(config.test_source_root, "Inputs", "layers.py")),
    ("%python", python),
    ("%tools", os.path.join(config.kvc_source, "tools")),
    ("%build", config.kvc_build),
    ("%inputs", os.path.join(config.test_source_root, "Inputs")),
]
if shutil.which("apt-get") and os.geteuid() == 0:
    config.available_features.add("apt")
if "avx2" in open("/proc/cpuinfo").read().split():
    config.available_features.add("avx2")
if config.chromium:
    config.available_features.add("chromium")
    config.substitutions.append(("%chromium", config.chromium))
if config.fake_cuda:
    config.available_features.add("gpu-executor")
    config.substitutions.append(("%fake_cuda", config.fake_cuda))
if config.ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", config.ptxas))
