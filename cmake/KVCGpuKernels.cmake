# Kernels in C++ for GPUs: clang compiles them for NVPTX, no CUDA toolkit is needed.
# Without a clang that knows NVPTX there is no GPU executor and no kvc_attend on GPUs;
# policies run there all the same. KVC_PTX_FROM takes another build's PTX, and no clang.
set(KVC_NVPTX_FLAGS --target=nvptx64-nvidia-cuda --cuda-feature=+ptx80)
set(KVC_GPU_KERNELS OFF)
if(KVC_BUILD_GPU AND KVC_PTX_FROM)
  # Its own PTX would be made of itself.
  file(REAL_PATH "${KVC_PTX_FROM}" from)
  file(REAL_PATH "${PROJECT_BINARY_DIR}" own)
  if(from STREQUAL own)
    message(FATAL_ERROR "KVC_PTX_FROM must be another build folder, got this one: ${KVC_PTX_FROM}")
  endif()
  set(KVC_GPU_KERNELS ON)
elseif(KVC_BUILD_GPU)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(KVC_NVPTX_CLANG ${CMAKE_CXX_COMPILER})
  else()
    find_program(KVC_NVPTX_CLANG NAMES clang++-22 clang++)
  endif()
  if(KVC_NVPTX_CLANG)
    execute_process(COMMAND ${KVC_NVPTX_CLANG} ${KVC_NVPTX_FLAGS} -march=sm_90a -x c++ -S /dev/null
      -o /dev/null RESULT_VARIABLE nvptx_result OUTPUT_QUIET ERROR_QUIET)
    if(nvptx_result EQUAL 0)
      set(KVC_GPU_KERNELS ON)
    endif()
  endif()
endif()
if(NOT KVC_GPU_KERNELS)
  message(STATUS "kernels for GPUs in C++ are left out: no clang with NVPTX")
endif()

# kvc_ptx(source output definitions... [CHIP chip]) compiles a file of kernels to PTX in the
# build folder of where it is called, for sm_80 where nothing else is said.
function(kvc_ptx source output)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" CHIP "")
  if(NOT arg_CHIP)
    set(arg_CHIP sm_80)
  endif()
  if(KVC_PTX_FROM)
    file(RELATIVE_PATH folder ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_BINARY_DIR})
    set(made ${KVC_PTX_FROM}/${folder}/${output})
    if(NOT EXISTS ${made})
      message(FATAL_ERROR "KVC_PTX_FROM must be a build folder with kernels for GPUs, ${made} is missing")
    endif()
    add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${output}
      COMMAND ${CMAKE_COMMAND} -E copy ${made} ${output} DEPENDS ${made} VERBATIM)
    return()
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
