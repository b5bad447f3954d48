# CUDA, when the machine has the toolkit. ULTRA_HAS_CUDA says so; without it, every target that
# has a CUDA side builds its stub instead. No GPU is needed to build.
include(CheckLanguage)

set(ULTRA_HAS_CUDA OFF)

# The toolkit installs outside the usual PATH.
function(ultra_find_nvcc)
  if(CMAKE_CUDA_COMPILER OR DEFINED ENV{CUDACXX})
    return()
  endif()
  find_program(ULTRA_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(ULTRA_NVCC)
    set(CMAKE_CUDA_COMPILER ${ULTRA_NVCC} CACHE FILEPATH "The CUDA compiler")
  endif()
endfunction()

# 80: A100, and by the same code L4 and 4090; its PTX is for what is newer than this build, such as
# Blackwell. 90a: H100 with its architecture-specific instructions. What training takes is compiled for
# 75, too: a T4 trains with the generic kernels and cuBLASLt. 12.5 is the first toolkit that finds
# functions of the driver by their version (kernels/hopper).
macro(ultra_enable_cuda)
  set(default_architectures "80;90a-real")
  set(CMAKE_CUDA_ARCHITECTURES "${default_architectures}" CACHE STRING "GPU architectures")
  set(ULTRA_TRAINING_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
  if(CMAKE_CUDA_ARCHITECTURES STREQUAL default_architectures)
    list(PREPEND ULTRA_TRAINING_ARCHITECTURES 75-real)
  endif()
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.5)
    message(WARNING "CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old (12.5 needed): CUDA is off.")
  else()
    set(ULTRA_HAS_CUDA ON)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # CMake before 3.26 does not know that nvcc speaks C++20.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    endif()
    find_package(CUDAToolkit REQUIRED)
  endif()
endmacro()

if(NOT ULTRA_CUDA STREQUAL "OFF")
  ultra_find_nvcc()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    ultra_enable_cuda()
  elseif(ULTRA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ULTRA_CUDA=ON but no CUDA compiler was found. "
      "Put nvcc in PATH or set CUDACXX, or configure with ULTRA_CUDA=AUTO.")
  endif()
endif()
# What sources link that call the CUDA run time.
set(ULTRA_CUDART_LIBRARIES "")
if(ULTRA_HAS_CUDA)
  set(ULTRA_CUDART_LIBRARIES CUDA::cudart_static ${CMAKE_DL_LIBS})
endif()
message(STATUS "CUDA: ${ULTRA_HAS_CUDA}")

# Of a folder's sources, those that only call the CUDA run time are compiled like all other host code: nvcc
# would read them once for each architecture.
function(ultra_compile_host_code)
  list(FILTER ARGN INCLUDE REGEX "\\.cu$")
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} device_code LIMIT_COUNT 1 REGEX "__global__|__device__|<<<")
    if(NOT device_code)
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX)
    endif()
  endforeach()
endfunction()
