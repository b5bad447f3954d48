# Mistakes: tests/mistakes/NN_name/NAME.patch is a classic wrong answer, as a patch on a solution.
# Each is applied to a copy, compiled (one file), linked with the exercise's test, and must be
# caught: exit code 1 and the hint that the patch names. tools/mistakes.py does both ends.

# All mistakes; apart from `all`, because only `./workbook test` needs them.
add_custom_target(mistakes)

# Which solution a patch changes: the file name in its `--- ` line.
function(ultra_patched_file out patch)
  file(STRINGS ${patch} line REGEX "^--- " LIMIT_COUNT 1)
  string(REGEX REPLACE "^--- ([^\t ]+).*" "\\1" path "${line}")
  get_filename_component(name "${path}" NAME)
  set(${out} "${name}" PARENT_SCOPE)
endfunction()

function(ultra_mistake chapter patch own)
  get_filename_component(mistake ${patch} NAME_WE)
  ultra_patched_file(file_name ${patch})
  set(solution ${CMAKE_SOURCE_DIR}/solutions/${chapter}/${file_name})
  if("${file_name}" STREQUAL "" OR NOT EXISTS ${solution})
    message(FATAL_ERROR "${patch}: its `--- ` line must name a file of solutions/${chapter}, "
      "found '${file_name}'")
  endif()
  get_filename_component(file ${file_name} NAME_WE)
  set(name ${chapter}.${mistake})
  set(mistaken ${CMAKE_BINARY_DIR}/generated/mistakes/${chapter}/${mistake}/${file_name})
  set(tool ${CMAKE_SOURCE_DIR}/tools/mistakes.py)
  add_custom_command(OUTPUT ${mistaken}
    COMMAND Python3::Interpreter ${tool} apply ${patch} ${solution} ${mistaken}
    DEPENDS ${tool} ${patch} ${solution}
    COMMENT "Applying mistake ${name}" VERBATIM)
  # A mistake may leave something unused: that is not what its test is about.
  ultra_simt_expand(sources HOST ${mistaken})
  ultra_chapter_objects(mistake.${name}.objects ultra_options ${sources})
  ultra_precompile(mistake.${name}.objects library)
  ultra_check_executable(mistake.${name} ${chapter} ${file} mistake.${name}.objects
    "solutions/${chapter}/${file_name} with tests/mistakes/${chapter}/${mistake}.patch" "${own}")
  set_target_properties(mistake.${name} mistake.${name}.objects PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(mistakes mistake.${name})
  set_target_properties(mistake.${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mistakes)
  add_test(NAME mistake.${name}
    COMMAND Python3::Interpreter ${tool} expect ${patch} $<TARGET_FILE:mistake.${name}>)
  set_tests_properties(mistake.${name} PROPERTIES
    LABELS mistakes SKIP_RETURN_CODE 5)
  ultra_limit_test(mistake.${name} ${ULTRA_CHECK_SECONDS})
endfunction()

function(ultra_mistakes chapter own)
  file(GLOB patches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/mistakes/${chapter}/*.patch)
  foreach(patch IN LISTS patches)
    # The target of a mistake follows from the patch's text: configure again when it changes.
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${patch})
    ultra_mistake(${chapter} ${patch} "${own}")
  endforeach()
endfunction()
