# Compiler and linker settings that every target shares.
#
# ultra_options   what every target and every consumer compiles with (language, optimisation,
#                 sanitizers): it must be the same everywhere, inline functions are shared.
# ultra_warnings  warnings as errors, for our own sources only (link it PRIVATE).
# ultra_exercise_warnings  the same warnings for exercises/, where they stop nothing.
include(CheckCXXCompilerFlag)
include(CheckLinkerFlag)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

add_library(ultra_options INTERFACE)
target_include_directories(ultra_options INTERFACE
  ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)

# Adds flags to C++ sources only: nvcc does not know the host compiler's flags.
function(ultra_cxx_options target)
  target_compile_options(${target} INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()

# Adds each flag that the compiler knows, and leaves the others out.
function(ultra_cxx_options_if_known target)
  foreach(flag IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER "ULTRA_HAS${flag}" known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known})
      ultra_cxx_options(${target} ${flag})
    endif()
  endforeach()
endfunction()

# `#pragma omp simd` without the OpenMP run time. The two -fno- flags let the compiler vectorise
# sqrt and comparisons; results stay those of IEEE arithmetic (no -ffast-math anywhere).
# -ffp-contract stays at its default, so that a multiply-add may fuse.
ultra_cxx_options(ultra_options -fopenmp-simd -fno-math-errno -fno-trapping-math)
if(ULTRA_NATIVE AND CMAKE_BUILD_TYPE STREQUAL "Release")
  ultra_cxx_options_if_known(ultra_options -march=native)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    ultra_cxx_options_if_known(ultra_options -mprefer-vector-width=512)
  endif()
endif()

# GCC's own memory: collecting its garbage only from 1 GiB on, which no source of ours reaches, saves a
# twelfth of a test's compile time.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  ultra_cxx_options(ultra_options --param=ggc-min-heapsize=1048576)
endif()

if(ULTRA_SANITIZERS)
  ultra_cxx_options(ultra_options
    -fsanitize=${ULTRA_SANITIZERS} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Tests: undefined behaviour is looked for in what they call, not in their own lines, whose
  # instrumentation costs a third of their compile time.
  ultra_cxx_options(ultra_options
    $<$<BOOL:$<TARGET_PROPERTY:ULTRA_COMPILES_QUICKLY>>:-fno-sanitize=undefined>)
  target_link_options(ultra_options INTERFACE -fsanitize=${ULTRA_SANITIZERS})
endif()

add_library(ultra_warning_flags INTERFACE)
ultra_cxx_options(ultra_warning_flags
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor
  -Woverloaded-virtual -Wold-style-cast -Wcast-align -Wdouble-promotion -Wimplicit-fallthrough
  -Winvalid-pch)
ultra_cxx_options_if_known(ultra_warning_flags -Wduplicated-cond -Wlogical-op -Wsuggest-override)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports a false overlap inside std::string's own insert (GCC bug 105651).
  ultra_cxx_options(ultra_warning_flags -Wno-restrict)
  if(ULTRA_SANITIZERS)
    # The sanitizers' instrumentation hides assignments from this analysis.
    ultra_cxx_options(ultra_warning_flags -Wno-maybe-uninitialized)
  endif()
endif()

add_library(ultra_warnings INTERFACE)
target_link_libraries(ultra_warnings INTERFACE ultra_warning_flags)
ultra_cxx_options(ultra_warnings -Werror)

# The learner's half-written file may have an unused variable: that is a warning, not a stop.
add_library(ultra_exercise_warnings INTERFACE)
target_link_libraries(ultra_exercise_warnings INTERFACE ultra_warning_flags)
if(ULTRA_STRICT_EXERCISES)
  ultra_cxx_options(ultra_exercise_warnings -Werror)
endif()

# Many small executables: a fast linker and a compiler cache are worth having. Not mold: that of
# Debian 12 never ends now and then, about once in a few thousand links on a busy machine.
check_linker_flag(CXX -fuse-ld=lld ULTRA_HAS_LINKER_lld)
if(ULTRA_HAS_LINKER_lld)
  target_link_options(ultra_options INTERFACE $<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld>)
endif()

find_program(ULTRA_CCACHE ccache)
if(ULTRA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ULTRA_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ULTRA_CCACHE})
endif()
