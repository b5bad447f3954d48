# Bugs that shipped: tests/bugs/NN_name/NAME.patch rebuilds a real fault in sources of this workbook, of
# common/, a chapter or a solution. Only those sources are compiled again; they stand before the
# libraries, which have the right ones, and the linker takes what it meets first.
#
#   bug.NAME         executable tests/bugs/NAME: the program that the patch names, with the fault
#   bug.NAME.check   executable tests/bugs/NAME.check: the tests that it names, with the fault
#
# The test bug.NAME trains with both programs, compares, and expects the check to fail
# (tools/exercises/bug.py). Like mistakes, apart from `all`.
#
#   bug.NAME.mine, bug.NAME.mine.check   the same with the learner's sources of .workbook/mend/NAME/,
#                                        made when they are there (tools/exercises/mend_bug.py)

# A field of a patch's header.
function(ultra_bug_field out patch field)
  file(STRINGS ${patch} line REGEX "^${field}: " LIMIT_COUNT 1)
  if(NOT line)
    message(FATAL_ERROR "${patch}: the header lacks the line '${field}: ...'")
  endif()
  string(REGEX REPLACE "^${field}: +" "" value "${line}")
  set(${out} "${value}" PARENT_SCOPE)
endfunction()

# An executable of the objects of `main`, those of `faulty` and `libraries`.
function(ultra_bug_executable target main faulty libraries)
  string(REGEX REPLACE "^bug\\." "" output_name ${target})
  add_executable(${target} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${main}> $<TARGET_OBJECTS:${faulty}>)
  target_link_libraries(${target} PRIVATE ${libraries})
  # A library's object may hold other sources, too (unity builds), and come along for their sake.
  target_link_options(${target} PRIVATE -Wl,-z,muldefs)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output_name}
    LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bugs)
endfunction()

# The program and the tests, with `sources`, which make the object library `faulty`.
function(ultra_bug_executables target faulty program check foundation)
  add_library(${faulty} OBJECT EXCLUDE_FROM_ALL ${ARGN})
  target_link_libraries(${faulty} PRIVATE ${foundation} ultra_options)
  ultra_precompile(${faulty} library)
  get_target_property(libraries ${program}_main LINK_LIBRARIES)
  ultra_bug_executable(${target} ${program}_program ${faulty} "${libraries}")
  get_target_property(libraries ${check} LINK_LIBRARIES)
  ultra_bug_executable(${target}.check ${check} ${faulty} "${libraries}")
endfunction()

# ultra_bug(PATCH "${foundation}" what learners have begun to mend...)
function(ultra_bug patch foundation)
  get_filename_component(name ${patch} NAME_WLE)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${patch})
  ultra_bug_field(program ${patch} Program)
  ultra_bug_field(check ${patch} Check)
  string(REGEX REPLACE " .*" "" check "${check}")
  if(NOT TARGET ${program}_program OR NOT TARGET ${check})
    message(FATAL_ERROR "${patch}: there is no program ${program}, or no test ${check}")
  endif()
  file(STRINGS ${patch} sources REGEX "^--- ")
  list(TRANSFORM sources REPLACE "^--- " "")
  set(folder ${CMAKE_BINARY_DIR}/generated/bugs/${name})
  set(right ${sources})
  list(TRANSFORM right PREPEND ${CMAKE_SOURCE_DIR}/)
  list(TRANSFORM sources PREPEND ${folder}/)
  set(tool Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/exercises)
  add_custom_command(OUTPUT ${sources} COMMAND ${tool} bug-apply ${patch} ${folder}
    DEPENDS ${CMAKE_SOURCE_DIR}/tools/exercises/bug.py ${patch} ${right}
    COMMENT "Applying the bug ${name}" VERBATIM)
  ultra_bug_executables(bug.${name} bug.${name}.faulty ${program} ${check} "${foundation}" ${sources})
  add_dependencies(mistakes bug.${name} bug.${name}.check)
  add_test(NAME bug.${name} COMMAND ${tool} bug-shows ${name}
    $<TARGET_FILE:${program}_main> $<TARGET_FILE:bug.${name}> $<TARGET_FILE:bug.${name}.check>)
  set_tests_properties(bug.${name} PROPERTIES LABELS mistakes)
  ultra_limit_test(bug.${name} ${ULTRA_CHECK_SECONDS})

  set(begun ${ARGN})
  list(FILTER begun INCLUDE REGEX "/mend/${name}/")
  if(begun)
    ultra_bug_executables(bug.${name}.mine bug.${name}.exercise ${program} ${check} "${foundation}" ${begun})
  endif()
endfunction()

# All of them, when programs and tests are there.
function(ultra_bugs)
  get_property(chapters GLOBAL PROPERTY ULTRA_CHAPTERS_THAT_TRAIN)
  file(GLOB patches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/bugs/*/*.patch)
  file(GLOB_RECURSE begun CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/.workbook/mend/*.cpp)
  foreach(patch IN LISTS patches)
    ultra_bug(${patch} "ultra_common;${chapters}" ${begun})
  endforeach()
endfunction()
