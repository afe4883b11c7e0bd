#!/usr/bin/env bash
# runtime-only.sh BUILD SOURCE C CXX: what an engine links is built and installed without
# the compiler, kvc-run and what those need, and C programs link it, the one of
# docs/attention.md among them. Its kernels for GPUs are BUILD's: they are the same
# files, and take half of the time. Most of the rest are headers, so that many files
# are compiled together.
set -euo pipefail
work=$1/test/runtime-only source=$2
rm -rf "$work"
mkdir -p "$work"
ptx=()
[ ! -e "$1/runtime/view_f32_32.ptx" ] || ptx=(-DKVC_PTX_FROM="$1")
# A folder without kernels, and the build's own, whose kernels would be made of themselves.
for from in "$work" "$work/wrong"; do
  if cmake -S "$source" -B "$work/wrong" -G Ninja -DKVC_BUILD_COMPILER=OFF -DKVC_BUILD_RUN=OFF \
    -DKVC_BUILD_TESTS=OFF -DCMAKE_C_COMPILER="$3" -DCMAKE_CXX_COMPILER="$4" \
    -DKVC_PTX_FROM="$from" >"$work/log" 2>&1; then
    echo "KVC_PTX_FROM took $from"
    exit 1
  fi
  grep -qE "KVC_PTX_FROM must be (a|another) build folder" "$work/log" || { cat "$work/log"; exit 1; }
done
cmake -S "$source" -B "$work/build" -G Ninja -DKVC_BUILD_COMPILER=OFF -DKVC_BUILD_RUN=OFF \
  -DKVC_BUILD_TESTS=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=32 -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
  -DCMAKE_C_COMPILER="$3" -DCMAKE_CXX_COMPILER="$4" "${ptx[@]}" \
  -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON >"$work/log"
cmake --build "$work/build" -j "${KVC_JOBS:-2}" >>"$work/log" || { cat "$work/log"; exit 1; }
cmake --install "$work/build" --prefix "$work/prefix" >>"$work/log"
[ ! -e "$work/prefix/bin" ] || { ls "$work/prefix/bin"; exit 1; }
cat >"$work/engine.c" <<'END'
#include "kvc/kvc.h"
#include <stdio.h>
int main(void) {
  kvc_target target = {.struct_size = sizeof target, .kind = KVC_CUDA};
  kvc_module *module;
  char text[200] = "opened what is not there";
  if (kvc_module_load("/nowhere/policy.so", &target, &module) != KVC_OK)
    kvc_last_error(text, sizeof text);
  return printf("ABI %u: %s\n", kvc_abi_version(), text) < 0;
}
END
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.24)
project(engine LANGUAGES C CXX)
find_package(kvc REQUIRED)
add_executable(static engine.c)
target_link_libraries(static PRIVATE kvc::runtime)
add_executable(shared engine.c)
target_link_libraries(shared PRIVATE kvc::shared)
END
cmake -S "$work" -B "$work/engine" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON -DCMAKE_C_COMPILER="$3" -DCMAKE_CXX_COMPILER="$4" >>"$work/log"
cmake --build "$work/engine" >>"$work/log" || { cat "$work/log"; exit 1; }
for program in static shared; do
  output=$("$work/engine/$program")
  echo "$program: $output"
  grep -q '^ABI 2: .*nowhere/policy.so' <<<"$output"
done
KVC_HOME=$work/prefix CC=$3 python3 "$source/test/docs/run_blocks.py" \
  "$source/docs/attention.md" "$source" "$work/docs"
