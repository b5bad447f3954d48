# Kernels that run on a GPU and, from the same source, in the emulator (kernels/simt/simt.cuh).

# What the host's compiler makes of a kernel file for one executor (kChecked, kFast, kGpu): a source
# of two lines that includes it, so that one file can have two languages.
function(ultra_simt_wrapper out kernel executor)
  file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR} ${kernel})
  set(wrapper ${CMAKE_BINARY_DIR}/generated/simt/${relative}.${executor}.cpp)
  file(CONFIGURE OUTPUT ${wrapper} CONTENT
    "// Made by cmake/UltraSimt.cmake.\n#include \"${kernel}\"\n")
  # ccache may turn absolute paths into relative ones.
  file(RELATIVE_PATH from_build ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  # Messages and reports name files as the repository does. nvcc's pragmas mean nothing here, and the
  # built-in indices are unsigned where a kernel's are int.
  set_source_files_properties(${wrapper} PROPERTIES
    COMPILE_OPTIONS "-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=;-fmacro-prefix-map=${from_build}=;-Wno-unknown-pragmas;-Wno-sign-conversion"
    COMPILE_DEFINITIONS ULTRA_SIMT_EXECUTOR=${executor}
    OBJECT_DEPENDS ${kernel}
    SKIP_PRECOMPILE_HEADERS ON)
  set(${out} ${wrapper} PARENT_SCOPE)
endfunction()

# What compiles kernel files for each of the executors. The caller's folder must be the one that makes
# the target.
function(ultra_executor_sources out executors)
  set(sources "")
  foreach(file IN LISTS ARGN)
    get_filename_component(kernel ${file} ABSOLUTE)
    foreach(executor IN LISTS executors)
      if(NOT executor STREQUAL "kGpu")
        ultra_simt_wrapper(wrapper ${kernel} ${executor})
        list(APPEND sources ${wrapper})
      elseif(ULTRA_HAS_CUDA)
        list(APPEND sources ${kernel})
      endif()
    endforeach()
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# The sources of kernel files for every executor. `gpu_compiler` says who compiles them for the GPU where
# there is CUDA: NVCC; or HOST, which leaves what links but does not run on a GPU: enough for what no
# GPU will run, and quicker.
function(ultra_simt_sources out gpu_compiler)
  ultra_executor_sources(sources "kChecked;kFast" ${ARGN})
  set(gpu "")
  if(ULTRA_HAS_CUDA AND gpu_compiler STREQUAL "NVCC")
    ultra_executor_sources(gpu kGpu ${ARGN})
  elseif(ULTRA_HAS_CUDA)
    foreach(file IN LISTS ARGN)
      get_filename_component(kernel ${file} ABSOLUTE)
      ultra_simt_wrapper(wrapper ${kernel} kGpu)
      list(APPEND gpu ${wrapper})
    endforeach()
  endif()
  set(${out} ${sources} ${gpu} PARENT_SCOPE)
endfunction()

# Turns the kernel files of a list of sources into what compiles them; the others stay.
function(ultra_simt_expand out gpu_compiler)
  set(plain ${ARGN})
  set(kernels ${ARGN})
  list(FILTER plain EXCLUDE REGEX "\\.cu$")
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  ultra_simt_sources(kernel_sources ${gpu_compiler} ${kernels})
  set(${out} ${plain} ${kernel_sources} PARENT_SCOPE)
endfunction()

# Keeps what ptxas says of a target's kernels in the build folder's ptxas/, for tests/kernels/ptxas.
function(ultra_keep_ptxas_reports target)
  if(ULTRA_HAS_CUDA)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>)
    set(launcher ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/keep_ptxas_report.py
      ${CMAKE_BINARY_DIR}/ptxas ${CMAKE_CUDA_COMPILER_LAUNCHER})
    set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")
  endif()
endfunction()

# ultra_kernel_library(target EXECUTORS kChecked FILES files.cu... [ALSO kFast kGpu OF files.cu...])
#   A static library of kernels for some executors, and of others for other ones. kGpu is nvcc's, and
#   nobody's without CUDA.
function(ultra_kernel_library target)
  cmake_parse_arguments(ARG "" "" "EXECUTORS;FILES;ALSO;OF" ${ARGN})
  ultra_executor_sources(sources "${ARG_EXECUTORS}" ${ARG_FILES})
  ultra_executor_sources(more "${ARG_ALSO}" ${ARG_OF})
  add_library(${target} STATIC ${sources} ${more})
  target_link_libraries(${target} PUBLIC ultra_kernels ultra_options PRIVATE ultra_warnings)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  ultra_keep_ptxas_reports(${target})
endfunction()

# ultra_simt_kernels(target files.cu...)
#   A static library of the kernels for every executor.
function(ultra_simt_kernels target)
  ultra_kernel_library(${target} EXECUTORS kChecked kFast kGpu FILES ${ARGN})
endfunction()
