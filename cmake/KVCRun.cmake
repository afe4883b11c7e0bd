# What the executor, the evaluation and kvc-run are built with, beyond the runtime's
# own needs. None of it is LLVM or CUDA.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(OpenBLAS REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

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
