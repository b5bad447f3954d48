# Modules of common/: one folder, one static library ultra_<name>.

# The C++ sources below a folder, and the CUDA sources when CUDA is on.
function(ultra_glob_sources out folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  if(ULTRA_HAS_CUDA)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${folder}/*.cu)
    list(APPEND sources ${cuda_sources})
  endif()
  # Where both are there, X.cu is the real thing and X_stub.cpp serves builds without CUDA.
  foreach(cuda_source IN LISTS cuda_sources)
    string(REGEX REPLACE "\\.cu$" "_stub.cpp" stub ${cuda_source})
    list(REMOVE_ITEM sources ${stub})
  endforeach()
  # backend/mpi/ needs MPI; without it, its *_stub.cpp stand in.
  if(ULTRA_HAS_MPI)
    list(FILTER sources EXCLUDE REGEX "/backend/mpi/[^/]*_stub\\.cpp$")
  else()
    set(stubs ${sources})
    list(FILTER stubs INCLUDE REGEX "/backend/mpi/[^/]*_stub\\.cpp$")
    list(FILTER sources EXCLUDE REGEX "/backend/mpi/")
    list(APPEND sources ${stubs})
  endif()
  # backend/uring/ needs liburing, likewise.
  if(ULTRA_HAS_URING)
    list(FILTER sources EXCLUDE REGEX "/backend/uring/[^/]*_stub\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/backend/uring/uring_file\\.cpp$")
  endif()
  # backend/cpu/onednn/ needs oneDNN, likewise.
  if(ULTRA_HAS_ONEDNN)
    list(FILTER sources EXCLUDE REGEX "/backend/cpu/onednn/[^/]*_stub\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/backend/cpu/onednn/onednn_matmul\\.cpp$")
  endif()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# Keeps the targets that exist: a module may be built before its neighbours are written.
function(ultra_existing_targets out)
  set(existing "")
  foreach(name IN LISTS ARGN)
    if(TARGET ${name})
      list(APPEND existing ${name})
    endif()
  endforeach()
  set(${out} ${existing} PARENT_SCOPE)
endfunction()

# ultra_module(tensor DEPENDS base [LIBRARIES fmt::fmt] [PRIVATE_LIBRARIES ...])
#   DEPENDS            other modules, by folder name
#   LIBRARIES          targets from outside
#   PRIVATE_LIBRARIES  targets from outside that only the module's own sources name
#   EXCLUDE            sources that are a library of their own: a regular expression of their paths
# All modules together are ultra_common, which chapters and benchmarks link.
function(ultra_module name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "DEPENDS;LIBRARIES;PRIVATE_LIBRARIES" ${ARGN})
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  ultra_glob_sources(sources ${folder})
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${folder}/*.hpp)
  if(NOT sources AND NOT headers)
    return()
  endif()
  list(TRANSFORM ARG_DEPENDS PREPEND ultra_)
  ultra_existing_targets(depends ${ARG_DEPENDS})
  if(sources)
    add_library(ultra_${name} STATIC ${sources})
    target_link_libraries(ultra_${name}
      PUBLIC ultra_options ${depends} ${ARG_LIBRARIES}
      PRIVATE ultra_warnings ${ARG_PRIVATE_LIBRARIES})
    set_target_properties(ultra_${name} PROPERTIES LINKER_LANGUAGE CXX)
    ultra_precompile(ultra_${name} library)
    if(NOT name MATCHES "^(ops|tensor)$")
      ultra_compile_together(ultra_${name} 8)
    endif()
    ultra_compile_text_sources(${sources})
  else()
    add_library(ultra_${name} INTERFACE)
    target_link_libraries(ultra_${name} INTERFACE ultra_options ${depends} ${ARG_LIBRARIES})
  endif()
  target_link_libraries(ultra_common INTERFACE ultra_${name})
endfunction()
