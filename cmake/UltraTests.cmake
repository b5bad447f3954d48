# Tests: GoogleTest executables found by folder, one ctest entry per test case.
include(GoogleTest)
include(UltraTestLimits)

# The ctest label of a test file: its name says what it needs.
#   *_gpu_test.cpp    gpu    skipped, with the reason, without a GPU
#   *_ranks_test.cpp  ranks  many ranks as threads of one process; and mpi: the same executable
#                            once more under mpirun, with ranks as processes
#   *_slow_test.cpp   slow   takes minutes: ./workbook test --slow
#   *_test.cpp        unit
function(ultra_test_label out source)
  if(source MATCHES "_(gpu|ranks|slow)_test\\.(cpp|cu)$")
    set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
  else()
    set(${out} unit PARENT_SCOPE)
  endif()
endfunction()

# Tests compile once and run for a moment: optimising them takes longer than it saves. Behind the
# build type's flags, so that it wins. What they test keeps its own flags. They share a precompiled
# header (ultra_precompile).
function(ultra_compile_quickly target)
  set_target_properties(${target} PROPERTIES ULTRA_COMPILES_QUICKLY ON)
  target_compile_options(${target} PRIVATE
    $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O0>
    $<$<AND:$<CONFIG:Debug>,$<COMPILE_LANGUAGE:CXX>>:-O0;-g1>)
endfunction()

add_library(ultra_standard_templates OBJECT EXCLUDE_FROM_ALL
  ${CMAKE_CURRENT_LIST_DIR}/standard_templates.cpp)
target_link_libraries(ultra_standard_templates PRIVATE ultra_options ultra_warnings)
# Among the options, which stand before a target's own objects.
function(ultra_link_standard_templates_first target)
  target_link_options(${target} PRIVATE $<TARGET_OBJECTS:ultra_standard_templates>)
  set_property(TARGET ${target} APPEND PROPERTY
    LINK_DEPENDS $<TARGET_OBJECTS:ultra_standard_templates>)
endfunction()

# Runs an executable of tests of ranks under mpirun, all cases in one go: mpi.<target>.<processes>.
function(ultra_mpi_test target processes)
  set(name mpi.${target}.${processes})
  if(ULTRA_MPIRUN)
    # More ranks than cores is normal here.
    add_test(NAME ${name} COMMAND
      ${ULTRA_MPIRUN} --oversubscribe --bind-to none -n ${processes} $<TARGET_FILE:${target}>)
  else()
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: there is no mpirun")
  endif()
  set_tests_properties(${name} PROPERTIES
    LABELS mpi SKIP_REGULAR_EXPRESSION "skipped: there is no mpirun")
  # MPI leaves memory of its own at its end.
  ultra_limit_test(${name} 300 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=0)
endfunction()

# The environment of the tests that ctest finds in an executable when it starts: not among the
# properties of gtest_discover_tests, which take no lists.
function(ultra_environment_of_discovered target)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}_environment.cmake)
  file(CONFIGURE OUTPUT ${script} @ONLY CONTENT [[
if(@target@_TESTS)
  set_tests_properties(${@target@_TESTS} PROPERTIES ENVIRONMENT "@ULTRA_TEST_ENVIRONMENT@")
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()

# One executable tests/<target> and its cases in ctest as <target>.<Suite>.<Case>.
function(ultra_test_executable target label sources libraries)
  set(main GTest::gtest_main)
  if(label STREQUAL "ranks")
    list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/support/ranks/ranks_main.cpp)
    set(main GTest::gtest)
  endif()
  add_executable(${target} ${sources})
  target_link_libraries(${target}
    PRIVATE ${libraries} ultra_options ultra_warnings GTest::gmock ${main})
  ultra_compile_quickly(${target})
  ultra_link_standard_templates_first(${target})
  if(ultra_test_support IN_LIST libraries) # not the kernels', which share none of common/'s macros
    ultra_precompile(${target} test)
  endif()
  ultra_compile_together(${target} 16)
  # A name that a neighbour has, too, is no shadow.
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD_CODE_BEFORE_INCLUDE "#pragma GCC diagnostic ignored \"-Wshadow\"")
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(seconds 120)
  if(label STREQUAL "slow")
    set(seconds 900)
  endif()
  ultra_time_limit(limit ${seconds})
  ultra_time_limit(discovery_limit 60)
  gtest_discover_tests(${target}
    TEST_PREFIX ${target}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT ${discovery_limit}
    PROPERTIES LABELS ${label} TIMEOUT ${limit})
  ultra_environment_of_discovered(${target})
  if(label STREQUAL "ranks")
    ultra_mpi_test(${target} 8)
  endif()
endfunction()

# ultra_test_folder(test.common.tensor ${folder} "ultra_tensor;...")
# All *_test.cpp below a folder: one executable per label, the folder's other sources in each, but not
# those in its kernels/ (ultra_simt_kernels) and ptx/ (read by a script).
function(ultra_test_folder target folder libraries)
  ultra_glob_sources(sources ${folder})
  list(FILTER sources EXCLUDE REGEX "/(kernels|ptx)/[^/]*\\.cu$")
  set(helpers ${sources})
  list(FILTER sources INCLUDE REGEX "_test\\.(cpp|cu)$")
  list(FILTER helpers EXCLUDE REGEX "_test\\.(cpp|cu)$")
  foreach(wanted IN ITEMS unit ranks gpu slow)
    set(selected "")
    foreach(source IN LISTS sources)
      ultra_test_label(label ${source})
      if(label STREQUAL wanted)
        list(APPEND selected ${source})
      endif()
    endforeach()
    if(selected AND wanted STREQUAL "unit")
      ultra_test_executable(${target} unit "${selected};${helpers}" "${libraries}")
    elseif(selected)
      ultra_test_executable(${target}.${wanted} ${wanted} "${selected};${helpers}" "${libraries}")
    endif()
  endforeach()
endfunction()

# ultra_test_on_devices(test.common.ops): the tests of an executable whose device is
# test::device_of_tests() once more on the emulated device, with and without an H100's instructions, and
# on a GPU where there is one.
function(ultra_test_on_devices target)
  if(NOT TARGET ${target})
    return()
  endif()
  foreach(name IN ITEMS emulated emulated_hopper cuda)
    string(REPLACE "_hopper" "" device ${name})
    set(capability "")
    if(name STREQUAL "emulated_hopper")
      set(capability 9)
    endif()
    add_test(NAME ${name}.${target} COMMAND ${target})
    set_tests_properties(${name}.${target} PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
    ultra_limit_test(${name}.${target} 120 ULTRA_TEST_DEVICE=${device}
      ULTRA_EMULATED_CAPABILITY=${capability})
  endforeach()
  set_tests_properties(cuda.${target} PROPERTIES LABELS gpu)
endfunction()

# The sub-folders of a folder.
function(ultra_subfolders out folder)
  file(GLOB entries CONFIGURE_DEPENDS LIST_DIRECTORIES true ${folder}/*)
  set(folders "")
  foreach(entry IN LISTS entries)
    if(IS_DIRECTORY ${entry})
      list(APPEND folders ${entry})
    endif()
  endforeach()
  set(${out} ${folders} PARENT_SCOPE)
endfunction()

# ultra_command_test(NAME LABEL SECONDS command...): a test that is not GoogleTest, and what it takes
# at most on an idle machine.
function(ultra_command_test name label seconds)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES
    LABELS ${label} SKIP_RETURN_CODE 77)
  ultra_limit_test(${name} ${seconds} ULTRA_BUILD_DIR=${CMAKE_BINARY_DIR} PYTHONDONTWRITEBYTECODE=1)
endfunction()
