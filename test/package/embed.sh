#!/usr/bin/env bash
# embed.sh BUILD SOURCE C CXX: installs the build, builds examples/embed and the program
# of docs/caches.md against the installation with find_package, runs them.
set -euo pipefail
build=$1 source=$2
work=$build/test/package
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$source/examples/embed" -B "$work/embed" -G Ninja \
  -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$3" \
  -DCMAKE_CXX_COMPILER="$4" >/dev/null
cmake --build "$work/embed" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
output=$("$work/embed/embed")
echo "$output"
grep -q 'head 0 keeps 96 of 512 tokens, from row 0:' <<<"$output"
grep -q 'head 1 keeps 96 of 512 tokens, from row 104:.* 511$' <<<"$output"
grep -q 'token 512 sees 97 and 97 rows, the last of token 512; 513 tokens now' <<<"$output"
# A policy of the engine's own, beside its CMakeLists.txt.
mkdir "$work/own"
sed 's/@knorm/@mine/' "$source/policies/knorm.mlir" >"$work/own/mine.mlir"
cat >"$work/own/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(own LANGUAGES C CXX)
find_package(kvc REQUIRED)
kvc_add_policy(mine mine.mlir SHAPES head_dim=64,group=4,dtype=f32)
END
cmake -S "$work/own" -B "$work/own/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_C_COMPILER="$3" -DCMAKE_CXX_COMPILER="$4" >/dev/null
cmake --build "$work/own/build" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
# A project without C++ links the shared runtime.
mkdir "$work/c"
cat >"$work/c/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(c LANGUAGES C)
find_package(kvc REQUIRED)
add_executable(c c.c)
target_link_libraries(c PRIVATE kvc::shared)
END
cat >"$work/c/c.c" <<'END'
#include "kvc/kvc.h"

#include <string.h>

int main(void) {
  kvc_target target = {sizeof target, KVC_HOST, 0, 1, 0};
  kvc_module *module;
  char error[200];
  kvc_status status = kvc_module_load("nothing.so", &target, &module);
  kvc_last_error(error, sizeof error);
  return status == KVC_OK || !strstr(error, "nothing.so");
}
END
cmake -S "$work/c" -B "$work/c/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_C_COMPILER="$3" >/dev/null
cmake --build "$work/c/build" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/c/build/c"
KVC_HOME=$work/prefix CC=$3 CXX=$4 python3 "$source/test/docs/run_blocks.py" \
  "$source/docs/caches.md" "$source" "$work/docs"
