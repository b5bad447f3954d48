# Exercises: one test source, linked with the solution and with the learner's file.
#
# For exercises/NN_name/FILE.cpp, or FILE.cu, which is compiled for every executor of kernels:
#   NN_name.FILE.solution, NN_name.FILE.exercise              object libraries (never archives: two
#       providers linked by mistake are then a "multiple definition" error, not a silent choice)
#   check.NN_name.FILE.solution, check.NN_name.FILE.exercise  executables tests/check.*
# The learner's check links the learner's FILE and the solutions of the chapter's other files, so
# that no unfinished exercise blocks another.

set(ULTRA_CHECK_SECONDS 120) # at most, on an idle machine

# The C++ sources and the kernels of a folder; kernels also without CUDA, for the emulator.
function(ultra_exercise_sources out folder)
  ultra_glob_sources(sources ${folder})
  list(FILTER sources EXCLUDE REGEX "\\.cu$")
  file(GLOB kernels CONFIGURE_DEPENDS ${folder}/*.cu)
  set(${out} ${sources} ${kernels} PARENT_SCOPE)
endfunction()

# The chapter's exercises are the files in solutions/NN_name.
function(ultra_exercise_files out chapter)
  ultra_exercise_sources(sources ${CMAKE_SOURCE_DIR}/solutions/${chapter})
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# The object library of one side (solution or exercise) of an exercise; empty without its source.
function(ultra_exercise_side out chapter source side warnings)
  get_filename_component(file ${source} NAME_WE)
  get_filename_component(file_name ${source} NAME)
  set(${out} "" PARENT_SCOPE)
  # By globbing: the learner may delete the file and get it back.
  ultra_exercise_sources(present ${CMAKE_SOURCE_DIR}/${side}s/${chapter})
  set(path ${CMAKE_SOURCE_DIR}/${side}s/${chapter}/${file_name})
  if(path IN_LIST present)
    ultra_simt_expand(sources NVCC ${path})
    ultra_chapter_objects(${chapter}.${file}.${side} ${warnings} ${sources})
    if(file_name MATCHES "\\.cu$")
      ultra_keep_ptxas_reports(${chapter}.${file}.${side})
    endif()
    set(${out} ${chapter}.${file}.${side} PARENT_SCOPE)
  endif()
endfunction()

# Makes both object libraries of every exercise; the out variables list those of each side. The
# learner's stay out of `all`: a half-written file must not stop the build.
function(ultra_exercise_objects chapter out_solutions out_exercises)
  set(solutions "")
  set(exercises "")
  ultra_exercise_files(sources ${chapter})
  foreach(source IN LISTS sources)
    ultra_exercise_side(solution ${chapter} ${source} solution ultra_warnings)
    ultra_exercise_side(exercise ${chapter} ${source} exercise ultra_exercise_warnings)
    list(APPEND solutions ${solution})
    list(APPEND exercises ${exercise})
    if(solution)
      ultra_precompile(${solution} library)
    endif()
    if(exercise)
      set_target_properties(${exercise} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endforeach()
  set(${out_solutions} ${solutions} PARENT_SCOPE)
  set(${out_exercises} ${exercises} PARENT_SCOPE)
endfunction()

# The solutions of a chapter's exercises but for one file's, behind `own`.
function(ultra_other_solutions out chapter file own)
  set(others ${own})
  ultra_exercise_files(sources ${chapter})
  foreach(source IN LISTS sources)
    get_filename_component(other ${source} NAME_WE)
    if(NOT other STREQUAL file)
      list(APPEND others ${chapter}.${other}.solution)
    endif()
  endforeach()
  set(${out} ${others} PARENT_SCOPE)
endfunction()

# An executable that runs an exercise's test on `provider` (an object library made from the file
# `tested_file`), with the solutions of the chapter's other exercises.
function(ultra_check_executable target chapter file provider tested_file own)
  ultra_other_solutions(others ${chapter} ${file} "${own}")
  set(ULTRA_TESTED_FILE ${tested_file})
  set(tested_file_source ${CMAKE_BINARY_DIR}/generated/checks/${target}.cpp)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/tested_file.cpp.in ${tested_file_source} @ONLY)
  add_executable(${target} ${tested_file_source})
  target_link_libraries(${target}
    PRIVATE ${chapter}.${file}.test ultra_exercise_main ${provider} ${others} ultra_test_support
            GTest::gmock)
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests LINKER_LANGUAGE CXX)
endfunction()

# The main function of every check, compiled once.
function(ultra_exercise_main_library)
  if(NOT TARGET ultra_exercise_main)
    add_library(ultra_exercise_main OBJECT ${CMAKE_SOURCE_DIR}/tests/support/exercise_main.cpp)
    target_link_libraries(ultra_exercise_main
      PUBLIC ultra_options GTest::gmock PRIVATE ultra_warnings)
    ultra_compile_quickly(ultra_exercise_main)
    ultra_precompile(ultra_exercise_main test)
  endif()
endfunction()

function(ultra_exercise_ctest chapter file)
  set(name ${chapter}.${file})
  add_test(NAME exercise.${name} COMMAND check.${name}.solution)
  set_tests_properties(exercise.${name} PROPERTIES
    LABELS exercise SKIP_RETURN_CODE 5)
  ultra_limit_test(exercise.${name} ${ULTRA_CHECK_SECONDS})
  if(TARGET check.${name}.exercise)
    add_test(NAME stub_guard.${name}
      COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/exercises stub-guard
              ${chapter} ${file} $<TARGET_FILE:check.${name}.exercise>)
    set_tests_properties(stub_guard.${name} PROPERTIES
      LABELS stub_guard SKIP_RETURN_CODE 77)
    ultra_limit_test(stub_guard.${name} ${ULTRA_CHECK_SECONDS})
  endif()
endfunction()

# Makes both check executables and the tests of every exercise that has a test file.
function(ultra_exercise_checks chapter own)
  ultra_exercise_main_library()
  set(tests_dir ${CMAKE_SOURCE_DIR}/tests/exercises/${chapter})
  ultra_glob_sources(tests ${tests_dir})
  ultra_exercise_files(sources ${chapter})
  foreach(source IN LISTS sources)
    get_filename_component(file ${source} NAME_WE)
    get_filename_component(file_name ${source} NAME)
    set(name ${chapter}.${file})
    set(test ${tests_dir}/${file}_test.cpp)
    if(NOT test IN_LIST tests)
      message(WARNING "${file_name} of ${chapter} has no test: write ${test}")
      continue()
    endif()
    ultra_chapter_objects(${name}.test ultra_warnings ${test})
    target_link_libraries(${name}.test PUBLIC ultra_test_support) # made in tests/
    ultra_compile_quickly(${name}.test)
    ultra_precompile(${name}.test test)
    ultra_check_executable(check.${name}.solution ${chapter} ${file}
      ${name}.solution solutions/${chapter}/${file_name} "${own}")
    if(TARGET ${name}.exercise)
      ultra_check_executable(check.${name}.exercise ${chapter} ${file}
        ${name}.exercise exercises/${chapter}/${file_name} "${own}")
      set_target_properties(check.${name}.exercise PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    ultra_exercise_ctest(${chapter} ${file})
  endforeach()
endfunction()
