# What the executor, the evaluation and kvc-run are built with, beyond the runtime's
# own needs. None of it is LLVM or CUDA.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(OpenBLAS REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

# The executor's GPU kernels are compiled by clang. Without one that knows NVPTX
# there is no GPU executor; policies run on GPUs all the same.
set(KVC_NVPTX_FLAGS --target=nvptx64-nvidia-cuda -march=sm_80 --cuda-feature=+ptx80)
if(NOT KVC_BUILD_GPU)
  set(KVC_NVPTX_CLANG "")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(KVC_NVPTX_CLANG ${CMAKE_CXX_COMPILER})
else()
  find_program(KVC_NVPTX_CLANG NAMES clang++-22 clang++)
endif()
if(KVC_NVPTX_CLANG)
  execute_process(COMMAND ${KVC_NVPTX_CLANG} ${KVC_NVPTX_FLAGS} -x c++ -S /dev/null
    -o /dev/null RESULT_VARIABLE nvptx_result OUTPUT_QUIET ERROR_QUIET)
  if(nvptx_result)
    set(KVC_NVPTX_CLANG "")
  endif()
endif()
if(NOT KVC_NVPTX_CLANG)
  message(STATUS "kvc-run is built without the GPU executor")
endif()

# kvc_precompile_json(target) takes the JSON library and the formatter as they were
# parsed for the first target: half of the time of files that include them. Every file
# includes what it needs all the same.
function(kvc_precompile_json target)
  get_property(first GLOBAL PROPERTY KVC_JSON_HEADERS)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY KVC_JSON_HEADERS ${target})
    target_precompile_headers(${target} PRIVATE <nlohmann/json.hpp> <fmt/format.h>)
  endif()
endfunction()
