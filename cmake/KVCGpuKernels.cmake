# Kernels in C++ for GPUs: clang compiles them for NVPTX, no CUDA toolkit is needed.
# Without a clang that knows NVPTX there is no GPU executor and no kvc_attend on GPUs;
# policies run there all the same.
set(KVC_NVPTX_FLAGS --target=nvptx64-nvidia-cuda --cuda-feature=+ptx80)
if(NOT KVC_BUILD_GPU)
  set(KVC_NVPTX_CLANG "")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(KVC_NVPTX_CLANG ${CMAKE_CXX_COMPILER})
else()
  find_program(KVC_NVPTX_CLANG NAMES clang++-22 clang++)
endif()
if(KVC_NVPTX_CLANG)
  execute_process(COMMAND ${KVC_NVPTX_CLANG} ${KVC_NVPTX_FLAGS} -march=sm_90a -x c++ -S /dev/null
    -o /dev/null RESULT_VARIABLE nvptx_result OUTPUT_QUIET ERROR_QUIET)
  if(nvptx_result)
    set(KVC_NVPTX_CLANG "")
  endif()
endif()
if(NOT KVC_NVPTX_CLANG)
  message(STATUS "kernels for GPUs in C++ are left out: no clang with NVPTX")
endif()

# kvc_ptx(source output definitions... [CHIP chip]) compiles a file of kernels to PTX in the
# build folder of where it is called, for sm_80 where nothing else is said.
function(kvc_ptx source output)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" CHIP "")
  if(NOT arg_CHIP)
    set(arg_CHIP sm_80)
  endif()
  list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND -D OUTPUT_VARIABLE definitions)
  # Everything is inlined: a call would put a kernel's arguments on the stack.
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${output}
    COMMAND ${KVC_NVPTX_CLANG} ${KVC_NVPTX_FLAGS} -march=${arg_CHIP} -std=c++20 -O3 -ffreestanding
      -mllvm -inline-threshold=1000000 -Wall -Wextra ${definitions}
      -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/runtime/include
      -MD -MF ${output}.d -S ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${output}
    DEPFILE ${CMAKE_CURRENT_BINARY_DIR}/${output}.d
    DEPENDS ${source} VERBATIM)
endfunction()
