# Broken trainers: exercises/NN_name/mend.json puts mistakes of tests/mistakes into a learner's hands.
#
#   NN_name_main_mend_mK               program of the learner's file .workbook/mend/NN.mK/FILE, made when
#   check.NN_name.FILE.mK.exercise     that is there; and the exercise's test of it (tools/exercises/mend.py)
#   mend.NN_name.mK                    program with the mistake as it is given, and the test that it shows
#                                      what its case promises; with the mistakes, apart from `all`

# The chapter's program, with one of its exercises from `provider` and the others from the solutions.
function(ultra_mend_program target chapter file provider own)
  ultra_other_solutions(others ${chapter} ${file} "${own}")
  add_executable(${target} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${chapter}_program>)
  target_link_libraries(${target} PRIVATE ${provider} ${others} ultra_warnings)
  set_target_properties(${target} PROPERTIES
    LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mend)
endfunction()

# What the learner has begun to mend.
function(ultra_mend_learners_case chapter number own)
  string(SUBSTRING ${chapter} 0 2 digits)
  file(GLOB learners CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/.workbook/mend/${digits}.m${number}/*.cpp
    ${CMAKE_SOURCE_DIR}/.workbook/mend/${digits}.m${number}/*.cu)
  foreach(source IN LISTS learners)
    get_filename_component(file ${source} NAME_WE)
    set(name ${chapter}.${file}.m${number}.exercise)
    ultra_simt_expand(sources HOST ${source})
    ultra_chapter_objects(${name} ultra_exercise_warnings ${sources})
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    ultra_mend_program(${chapter}_main_mend_m${number} ${chapter} ${file} ${name} "${own}")
    set_target_properties(${chapter}_main_mend_m${number} PROPERTIES
      OUTPUT_NAME ${chapter}.m${number})
    ultra_check_executable(check.${name} ${chapter} ${file} ${name} ${source} "${own}")
    set_target_properties(check.${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endforeach()
endfunction()

function(ultra_mend_case chapter number mistake own)
  set(file "")
  ultra_files_of_mistakes(files ${chapter})
  foreach(patches IN LISTS files)
    ultra_names_of_mistakes(names ${patches})
    if(mistake IN_LIST names)
      get_filename_component(file ${patches} NAME_WE)
    endif()
  endforeach()
  if(NOT file)
    message(FATAL_ERROR "exercises/${chapter}/mend.json: tests/mistakes/${chapter} has no mistake ${mistake}")
  endif()
  set(target mend.${chapter}.m${number})
  ultra_mistaken_objects(objects ${chapter} ${file} ${mistake})
  ultra_mend_program(${target} ${chapter} ${file} "${objects}" "${own}")
  add_dependencies(mistakes ${target})
  string(SUBSTRING ${chapter} 0 2 digits)
  add_test(NAME ${target}
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/exercises mend-shows ${digits}.m${number}
            $<TARGET_FILE:${chapter}_main> $<TARGET_FILE:${target}>)
  set_tests_properties(${target} PROPERTIES LABELS mistakes)
  ultra_limit_test(${target} ${ULTRA_CHECK_SECONDS})
  ultra_mend_learners_case(${chapter} ${number} "${own}")
endfunction()

function(ultra_mends chapter own)
  file(GLOB manifest CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/exercises/${chapter}/mend.json)
  if(NOT manifest OR NOT TARGET ${chapter}_main)
    return()
  endif()
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${manifest})
  file(READ ${manifest} text)
  string(JSON count LENGTH ${text} cases)
  math(EXPR last "${count} - 1")
  foreach(index RANGE ${last})
    string(JSON number GET ${text} cases ${index} number)
    string(JSON mistake GET ${text} cases ${index} mistake)
    ultra_mend_case(${chapter} ${number} ${mistake} "${own}")
  endforeach()
endfunction()
