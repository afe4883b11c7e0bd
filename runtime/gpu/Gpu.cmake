# Adds the executor on a GPU to kvc_executor. No CUDA toolkit, neither to build nor
# to run: the kernels are C++ that clang compiles for NVPTX, one file of PTX for each
# element type; driver and cuBLASLt are opened at run time.
set(gpu ${CMAKE_CURRENT_LIST_DIR})
set(gpu_ptx_dir ${CMAKE_CURRENT_BINARY_DIR}/gpu)
file(MAKE_DIRECTORY ${gpu_ptx_dir})
file(GLOB gpu_kernels CONFIGURE_DEPENDS ${gpu}/kernels/*)
foreach(type f32 f16 bf16)
  string(TOUPPER ${type} upper)
  set(ptx ${gpu_ptx_dir}/kernels_${type}.ptx)
  # Everything is inlined: a call would put a kernel's arguments on the stack.
  add_custom_command(OUTPUT ${ptx}
    COMMAND ${KVC_NVPTX_CLANG} ${KVC_NVPTX_FLAGS} -std=c++20 -O3 -ffreestanding
      -mllvm -inline-threshold=1000000 -Wall -Wextra -DKVC_ONLY_${upper}
      -I${PROJECT_SOURCE_DIR} -S ${gpu}/kernels/Kernels.cpp -o ${ptx}
    DEPENDS ${gpu_kernels} VERBATIM)
  list(APPEND gpu_ptx ${ptx})
endforeach()
set_source_files_properties(gpu/Ptx.cpp PROPERTIES OBJECT_DEPENDS "${gpu_ptx}"
  COMPILE_DEFINITIONS "KVC_PTX_DIR=\"${gpu_ptx_dir}\"")

target_sources(kvc_executor PRIVATE
  gpu/Ptx.cpp gpu/CublasLt.cpp gpu/Products.cpp gpu/Queue.cpp gpu/Events.cpp gpu/RopeTable.cpp
  gpu/GpuWeights.cpp gpu/GpuActivations.cpp gpu/GpuCache.cpp gpu/GpuCompressor.cpp gpu/GpuChunkedPrompt.cpp
  gpu/GpuEngine.cpp)
target_compile_definitions(kvc_executor PRIVATE KVC_GPU)
