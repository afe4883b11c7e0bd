# The only wrapper around add_library: warnings, sanitizers, and which headers a target
# can include.

# kvc_headers(name scope folders...) lets a target and those that link it include the
# files of these folders by their names from the project's root. The root itself is on nobody's
# path: what a target does not link it cannot include, so the link lines are the layers.
function(kvc_headers name scope)
  set(room ${PROJECT_BINARY_DIR}/rooms/${name})
  foreach(folder ${ARGN})
    get_filename_component(parent ${room}/${folder} DIRECTORY)
    file(MAKE_DIRECTORY ${parent})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${room}/${folder} SYMBOLIC)
  endforeach()
  target_include_directories(${name} ${scope} $<BUILD_INTERFACE:${room}>)
endfunction()

# The options of a library or program of the folder it stands in.
function(kvc_target_options name)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  kvc_headers(${name} PUBLIC ${folder})
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wno-unused-parameter
    -Werror=switch # or a new kind of an op would be computed as another
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
