# Precompiled headers: what most sources include of the standard library, fmt and GoogleTest is parsed
# once per kind of target instead of once per source.
#
#   ultra_precompile(target library)   our libraries and programs
#   ultra_precompile(target provider)  position-independent code, for shared libraries: compiled quickly
#   ultra_precompile(target test)      tests, which ultra_compile_quickly has set up
#
# Only headers that are not ours, so that a change of ours rebuilds no more than it has to. Neither
# nlohmann/json nor CLI11: GCC instantiates a precompiled header's pending templates in every source,
# and theirs cost more than they save. A source still includes all that it uses: the preset tsan has
# no precompiled headers (CMAKE_DISABLE_PRECOMPILE_HEADERS) and shows an include that is missing.
# A small workbook has lists of its own (tests/tools/toy_workbook.py).
if(NOT DEFINED ULTRA_PRECOMPILED_LIBRARY)
  set(ULTRA_PRECOMPILED_LIBRARY
    <algorithm> <array> <atomic> <bit> <chrono> <cmath> <condition_variable> <cstddef> <cstdint>
    <cstring> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <span> <stdexcept>
    <string> <string_view> <thread> <utility> <vector> <fmt/format.h>)
endif()
if(NOT DEFINED ULTRA_PRECOMPILED_TEST)
  set(ULTRA_PRECOMPILED_TEST ${ULTRA_PRECOMPILED_LIBRARY}
    <deque> <filesystem> <fstream> <random> <ranges> <set> <sstream> <tuple> <unordered_map> <variant>
    <fmt/ranges.h> <gmock/gmock.h> <gtest/gtest.h>)
endif()

# ccache takes precompiled headers only when it is told that no header depends on the time.
if(ULTRA_CCACHE)
  set(ULTRA_PRECOMPILED_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${ULTRA_CCACHE})
endif()

# The target that makes the precompiled header; it needs a source, which is empty.
set(ULTRA_PRECOMPILED_SOURCE ${CMAKE_BINARY_DIR}/generated/precompiled.cpp)
file(CONFIGURE OUTPUT ${ULTRA_PRECOMPILED_SOURCE} CONTENT "// Made by cmake/UltraPrecompiled.cmake.\n")

function(ultra_precompiled_target target)
  add_library(${target} OBJECT ${ULTRA_PRECOMPILED_SOURCE})
  target_precompile_headers(${target} PRIVATE ${ARGN})
  # All that decides on a predefined macro must be as in the sources; -Wpedantic does.
  target_link_libraries(${target}
    PRIVATE ultra_options ultra_warning_flags fmt::fmt spdlog::spdlog Threads::Threads)
  if(ULTRA_CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "${ULTRA_PRECOMPILED_LAUNCHER}")
  endif()
endfunction()

ultra_precompiled_target(ultra_precompiled_library ${ULTRA_PRECOMPILED_LIBRARY})
ultra_precompiled_target(ultra_precompiled_provider ${ULTRA_PRECOMPILED_LIBRARY})
set_target_properties(ultra_precompiled_provider PROPERTIES
  POSITION_INDEPENDENT_CODE ON EXCLUDE_FROM_ALL ON)
ultra_compile_quickly(ultra_precompiled_provider)
ultra_precompiled_target(ultra_precompiled_test ${ULTRA_PRECOMPILED_TEST})
target_link_libraries(ultra_precompiled_test PRIVATE GTest::gmock)
ultra_compile_quickly(ultra_precompiled_test)

# A source that includes CLI11 or nlohmann/json reads or writes text; optimising these two in full
# takes seconds and gains nothing. Not -O0 for what is measured: the linker keeps one copy of each
# inline function, and it may be this source's.
function(ultra_compile_text_sources)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} large REGEX "^#include <(CLI/CLI|nlohmann/json)\\.hpp>" LIMIT_COUNT 1)
    if(large)
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "$<IF:$<CONFIG:Release>,-O1,-O0>"
        SKIP_PRECOMPILE_HEADERS ON) # with -O0 another header would be needed
    endif()
  endforeach()
endfunction()

# Sources that a bug of tests/bugs replaces.
file(GLOB patches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/bugs/*/*.patch)
foreach(patch IN LISTS patches)
  file(STRINGS ${patch} replaced REGEX "^--- ")
  list(TRANSFORM replaced REPLACE "^--- " "${CMAKE_SOURCE_DIR}/")
  list(APPEND ULTRA_SOURCES_WITH_BUGS ${replaced})
endforeach()

# A target's sources, several in one: what takes most of a small source's time is what it includes. Not
# those that compute in the core (common/ops, common/tensor): how a compiler fuses arithmetic must not
# depend on a source's neighbours. Not a source that a bug of tests/bugs replaces: nobody may have
# inlined the right one. Not where precompiled headers are off, which shows an include that is missing.
# Tests are compiled twice as many at a time: readers change them less often than chapters.
function(ultra_compile_together target sources_at_once)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  set_source_files_properties(${ULTRA_SOURCES_WITH_BUGS} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${sources_at_once})
  # GCC 12 sees overflows that are not there in what it inlines of std::string and std::variant.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>")
endfunction()

function(ultra_precompile target kind)
  if(kind STREQUAL "provider")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    ultra_compile_quickly(${target})
  endif()
  target_precompile_headers(${target} REUSE_FROM ultra_precompiled_${kind})
  # The macros of these libraries are part of the precompiled header.
  target_link_libraries(${target} PRIVATE fmt::fmt spdlog::spdlog Threads::Threads)
  if(ULTRA_CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "${ULTRA_PRECOMPILED_LAUNCHER}")
  endif()
endfunction()
