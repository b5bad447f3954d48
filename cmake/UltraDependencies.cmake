# The libraries we use, all from the distribution's packages (tools/packages.txt).
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(ZLIB REQUIRED)
# Fibers: the threads of emulated kernels (kernels/simt/).
find_package(Boost QUIET COMPONENTS context)
if(NOT TARGET Boost::context)
  message(FATAL_ERROR "Boost.Context was not found: install libboost-context-dev.")
endif()

# The tools need the standard library only: the system's Python, not one that shadows it in PATH.
if(NOT Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python3 COMPONENTS Interpreter REQUIRED)

# The notebooks' and formatter's Python; ./workbook makes it. One for all presets.
set(ULTRA_VENV_PYTHON ${CMAKE_SOURCE_DIR}/build/venv/bin/python3)

# ultra_blas: OpenBLAS in the variant for threads, told to use one thread per caller (the CPU
# backend says so): each rank is a thread of ours, and more would oversubscribe the machine. Not the
# serial variant: it takes no locks, and products of several ranks at once come out wrong. Taken from
# its own folder, because what the plain name libopenblas.so means is the distribution's alternatives
# system's choice.
function(ultra_find_blas)
  set(arch ${CMAKE_LIBRARY_ARCHITECTURE})
  find_library(ULTRA_OPENBLAS_LIBRARY openblas
    PATHS /usr/lib/${arch}/openblas-pthread NO_DEFAULT_PATH)
  find_path(ULTRA_OPENBLAS_INCLUDE cblas.h
    PATHS /usr/include/${arch}/openblas-pthread NO_DEFAULT_PATH)
  if(NOT ULTRA_OPENBLAS_LIBRARY OR NOT ULTRA_OPENBLAS_INCLUDE)
    unset(ULTRA_OPENBLAS_LIBRARY CACHE)
    unset(ULTRA_OPENBLAS_INCLUDE CACHE)
    find_library(ULTRA_OPENBLAS_LIBRARY openblas REQUIRED)
    find_path(ULTRA_OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas REQUIRED)
    message(WARNING "OpenBLAS for threads (libopenblas-pthread-dev) is not installed; using "
      "${ULTRA_OPENBLAS_LIBRARY}. If that is a serial build, ranks on threads compute wrong products.")
  endif()
  add_library(ultra_blas INTERFACE)
  target_include_directories(ultra_blas SYSTEM INTERFACE ${ULTRA_OPENBLAS_INCLUDE})
  target_link_libraries(ultra_blas INTERFACE ${ULTRA_OPENBLAS_LIBRARY})
endfunction()
ultra_find_blas()

set(ULTRA_HAS_MPI OFF)
set(ULTRA_MPI_LIBRARIES "")
set(ULTRA_MPIRUN "")
if(NOT ULTRA_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON) # the C interface; the old C++ bindings are gone from the standard
  if(ULTRA_MPI STREQUAL "ON")
    find_package(MPI REQUIRED COMPONENTS CXX)
  else()
    find_package(MPI QUIET COMPONENTS CXX)
  endif()
  if(MPI_CXX_FOUND)
    set(ULTRA_HAS_MPI ON)
    set(ULTRA_MPI_LIBRARIES MPI::MPI_CXX)
    if(MPIEXEC_EXECUTABLE)
      set(ULTRA_MPIRUN ${MPIEXEC_EXECUTABLE})
    endif()
  endif()
endif()
message(STATUS "MPI: ${ULTRA_HAS_MPI}")

# Files that the kernel reads and writes by itself; without liburing, threads do it.
set(ULTRA_HAS_URING OFF)
set(ULTRA_URING_LIBRARIES "")
if(NOT ULTRA_URING STREQUAL "OFF")
  find_library(ULTRA_URING_LIBRARY uring)
  find_path(ULTRA_URING_INCLUDE liburing.h)
  if(ULTRA_URING_LIBRARY AND ULTRA_URING_INCLUDE)
    set(ULTRA_HAS_URING ON)
    set(ULTRA_URING_LIBRARIES ultra_uring)
    add_library(ultra_uring INTERFACE)
    target_include_directories(ultra_uring SYSTEM INTERFACE ${ULTRA_URING_INCLUDE})
    target_link_libraries(ultra_uring INTERFACE ${ULTRA_URING_LIBRARY})
  elseif(ULTRA_URING STREQUAL "ON")
    message(FATAL_ERROR "ULTRA_URING=ON but liburing was not found: install liburing-dev.")
  endif()
endif()
message(STATUS "io_uring: ${ULTRA_HAS_URING}")

# Products of bf16 on processors that have instructions for them; without oneDNN, or on another
# processor, OpenBLAS multiplies converted blocks. omp.h: oneDNN is told to use one thread per caller.
set(ULTRA_HAS_ONEDNN OFF)
set(ULTRA_ONEDNN_LIBRARIES "")
if(NOT ULTRA_ONEDNN STREQUAL "OFF")
  find_library(ULTRA_ONEDNN_LIBRARY dnnl)
  find_path(ULTRA_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
  find_package(OpenMP QUIET COMPONENTS CXX)
  if(ULTRA_ONEDNN_LIBRARY AND ULTRA_ONEDNN_INCLUDE AND OpenMP_CXX_FOUND)
    set(ULTRA_HAS_ONEDNN ON)
    set(ULTRA_ONEDNN_LIBRARIES ultra_onednn)
    add_library(ultra_onednn INTERFACE)
    target_include_directories(ultra_onednn SYSTEM INTERFACE
      ${ULTRA_ONEDNN_INCLUDE} ${OpenMP_CXX_INCLUDE_DIRS})
    target_link_libraries(ultra_onednn INTERFACE ${ULTRA_ONEDNN_LIBRARY} ${OpenMP_CXX_LIBRARIES})
  elseif(ULTRA_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "ULTRA_ONEDNN=ON but oneDNN was not found: install libdnnl-dev.")
  endif()
endif()
message(STATUS "oneDNN: ${ULTRA_HAS_ONEDNN}")
