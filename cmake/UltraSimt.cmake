# Kernels that run on a GPU and, from the same source, in the emulator (kernels/simt/simt.cuh).
#
# ultra_simt_kernels(target files.cu...)
#   A static library of the kernels, compiled once for each side: by nvcc where there is CUDA, and by
#   the host's compiler for the emulator, instrumented and bare. The host's compiler gets a source of
#   two lines that includes the kernel file, so that one file can have two languages.
function(ultra_simt_kernels target)
  set(sources "")
  if(ULTRA_HAS_CUDA)
    set(sources ${ARGN})
  endif()
  foreach(kernel IN LISTS ARGN)
    get_filename_component(path ${kernel} ABSOLUTE)
    file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR} ${path})
    foreach(side IN ITEMS instrumented bare)
      set(wrapper ${CMAKE_BINARY_DIR}/generated/simt/${relative}.${side}.cpp)
      file(CONFIGURE OUTPUT ${wrapper} CONTENT
        "// Made by cmake/UltraSimt.cmake.\n#include \"${relative}\"\n")
      list(APPEND ${side}_sources ${wrapper})
    endforeach()
  endforeach()
  # ccache may turn absolute paths into relative ones.
  file(RELATIVE_PATH from_build ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  # Messages and reports name files as the repository does. nvcc's pragmas mean nothing here, and the
  # built-in indices are unsigned where a kernel's are int.
  set_property(SOURCE ${instrumented_sources} ${bare_sources} APPEND PROPERTY COMPILE_OPTIONS
    -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/= -fmacro-prefix-map=${from_build}= -Wno-unknown-pragmas -Wno-sign-conversion)
  set_property(SOURCE ${bare_sources} APPEND PROPERTY COMPILE_DEFINITIONS ULTRA_SIMT_BARE)
  add_library(${target} STATIC ${sources} ${instrumented_sources} ${bare_sources})
  target_link_libraries(${target} PUBLIC ultra_kernels ultra_options PRIVATE ultra_warnings)
endfunction()
