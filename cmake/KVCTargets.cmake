# The only wrapper around add_library: warnings, sanitizers and the include root.

function(kvc_target_options name)
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wno-unused-parameter
    $<$<BOOL:${KVC_WERROR}>:-Werror>)
  if(KVC_SANITIZE OR KVC_FUZZ)
    # "function" reads what stands in front of a callee: in front of a host kernel,
    # which kvc-opt has made, there may be nothing.
    target_compile_options(${name} PRIVATE -fsanitize=address,undefined
      -fno-sanitize=vptr,function -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${name} PUBLIC -fsanitize=address,undefined
      -fno-sanitize=vptr)
  endif()
  if(KVC_FUZZ)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# kvc_library(name SOURCES... ) makes a static library.
function(kvc_library name)
  add_library(${name} STATIC ${ARGN})
  kvc_target_options(${name})
endfunction()
