# Finds LLVM and MLIR 22 and declares how a compiler library is made.

find_package(MLIR 22.1 CONFIG QUIET HINTS /usr/lib/llvm-22/lib/cmake/mlir)
if(NOT MLIR_FOUND)
  message(FATAL_ERROR "MLIR 22 is missing: install libmlir-22-dev "
    "mlir-22-tools llvm-22-dev, or configure with -DKVC_BUILD_COMPILER=OFF")
endif()
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# What every translation unit that includes LLVM headers needs. LLVM of the
# distribution is built with RTTI and without exceptions.
add_library(kvc_llvm INTERFACE)
target_include_directories(kvc_llvm SYSTEM INTERFACE
  ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
# What mlir-tblgen writes.
target_include_directories(kvc_llvm INTERFACE ${PROJECT_BINARY_DIR})
# The packages' own targets ask for libLLVM.so, so these are the files; of each the linker takes
# what is used.
file(GLOB archives ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
if(KVC_STATIC_LLVM AND KVC_SHARED_LLVM)
  message(FATAL_ERROR "KVC_STATIC_LLVM and KVC_SHARED_LLVM exclude each other")
endif()
if(KVC_STATIC_LLVM)
  foreach(name lldELF lldCommon zstd z)
    find_library(KVC_ARCHIVE_${name} lib${name}.a HINTS ${LLVM_LIBRARY_DIR})
    if(NOT KVC_ARCHIVE_${name})
      message(FATAL_ERROR "KVC_STATIC_LLVM needs lib${name}.a: install liblld-22-dev libzstd-dev zlib1g-dev")
    endif()
    list(APPEND archives ${KVC_ARCHIVE_${name}})
  endforeach()
  target_link_libraries(kvc_llvm INTERFACE ${archives})
  target_link_options(kvc_llvm INTERFACE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
  set(KVC_LLVM_INSIDE ON)
else()
  # What archives need of others libLLVM.so needs as well, so it is there.
  find_library(KVC_ZSTD NAMES zstd libzstd.so.1)
  find_library(KVC_ZLIB NAMES z libz.so.1)
  if(archives AND KVC_ZSTD AND KVC_ZLIB AND NOT KVC_SHARED_LLVM AND NOT KVC_SANITIZE
     AND NOT KVC_FUZZ)
    set(KVC_LLVM_INSIDE ON)
  else()
    set(KVC_LLVM_INSIDE OFF)
    message(STATUS "kvc-opt takes the shared libraries of LLVM and MLIR")
  endif()
  # A program whose property KVC_LLVM_INSIDE is on has LLVM and MLIR inside. It starts in 5 ms for
  # 40, and is linked as soon.
  set(inside $<BOOL:$<TARGET_PROPERTY:KVC_LLVM_INSIDE>>)
  target_link_libraries(kvc_llvm INTERFACE
    $<${inside}:-Wl$<COMMA>--start-group;${archives};-Wl$<COMMA>--end-group;${KVC_ZSTD};${KVC_ZLIB}>
    $<$<NOT:${inside}>:MLIR;LLVM>)
  target_link_options(kvc_llvm INTERFACE $<${inside}:-Wl$<COMMA>--gc-sections>)
endif()

# kvc_tablegen(target td (gen-flags output)...) runs mlir-tblgen over one file; several
# flags of an output are one text.
function(kvc_tablegen target td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  set(args ${ARGN})
  while(args)
    list(POP_FRONT args flags output)
    separate_arguments(flags)
    mlir_tablegen(${output} ${flags} -I${PROJECT_SOURCE_DIR} -I${MLIR_INCLUDE_DIRS})
  endwhile()
  add_public_tablegen_target(${target})
endfunction()

# kvc_precompile_mlir(target kind) takes cmake/mlir-headers.h as it was parsed for the
# first target of that kind: kinds differ in compile flags. The headers are two
# thirds of the compiler's build.
function(kvc_precompile_mlir target kind)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE") # as libraries are compiled, not -fPIE
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  get_property(first GLOBAL PROPERTY KVC_MLIR_HEADERS_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY KVC_MLIR_HEADERS_${kind} ${target})
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/mlir-headers.h)
    target_compile_options(${target} PRIVATE
      $<$<CXX_COMPILER_ID:Clang>:-fpch-instantiate-templates>)
  endif()
endfunction()

# kvc_compiler_library(name DEPENDS targets... SOURCES files... LINK libs...)
function(kvc_compiler_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;SOURCES;LINK" ${ARGN})
  kvc_library(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE -fno-exceptions)
  kvc_precompile_mlir(${name} compiler)
  target_link_libraries(${name} PUBLIC kvc_llvm ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()
