# Mistakes: tests/mistakes/NN_name/FILE.patches has classic wrong answers, as patches on the solution FILE,
# each below its `Name: `. The exercise's check must catch each: exit code 1 and the hint that the patch names
# (tools/mistakes.py). Names are unique in a chapter.
#
# All mistakes of an exercise share one check, which loads the code that it tests:
#   NN_name.FILE.providers   object library: the solution's mistaken copies
#   NN_name.FILE.mistakes    executable tests/mistakes/NN_name.FILE, linked with the first one's library;
#                            LD_LIBRARY_PATH says whose it loads: tests/mistakes/NN_name/NAME/libprovider.so

# All mistakes; apart from `all`, because only `./workbook test` needs them.
add_custom_target(mistakes)

# The files of mistakes of a chapter, one to an exercise.
function(ultra_files_of_mistakes out chapter)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/mistakes/${chapter}/*.patches)
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# The names of the mistakes in a file of them.
function(ultra_names_of_mistakes out patches)
  file(STRINGS ${patches} names REGEX "^Name: ")
  list(TRANSFORM names REPLACE "^Name: +" "")
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# The objects of one mistake, from those of its exercise.
function(ultra_mistaken_objects out chapter file mistake)
  set(objects $<TARGET_OBJECTS:${chapter}.${file}.providers>)
  set(${out} "$<FILTER:${objects},INCLUDE,/mistakes/${chapter}/${mistake}/>" PARENT_SCOPE)
endfunction()

# Where the names stand that the mistakes of an exercise call, as options of the linker: the check is
# linked with one of them, and all have to find what they call.
function(ultra_called_by_mistakes out chapter file)
  set(${out} ${CMAKE_BINARY_DIR}/tests/mistakes/${chapter}/${file}.called PARENT_SCOPE)
endfunction()

# Links libprovider.so of each mistake.
function(ultra_provider_libraries out chapter file)
  set(linker "")
  if(ULTRA_HAS_LINKER_lld)
    set(linker -fuse-ld=lld)
  endif()
  set(libraries "")
  set(commands "")
  foreach(mistake IN LISTS ARGN)
    ultra_mistaken_objects(objects ${chapter} ${file} ${mistake})
    set(folder ${CMAKE_BINARY_DIR}/tests/mistakes/${chapter}/${mistake})
    file(MAKE_DIRECTORY ${folder})
    list(APPEND libraries ${folder}/libprovider.so)
    list(APPEND commands COMMAND ${CMAKE_CXX_COMPILER} -shared ${linker}
      -Wl,-soname,libprovider.so -o ${folder}/libprovider.so "${objects}")
  endforeach()
  ultra_called_by_mistakes(called ${chapter} ${file})
  add_custom_command(OUTPUT ${libraries} ${called} ${commands}
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/mistakes.py called ${called}
            "$<TARGET_OBJECTS:${chapter}.${file}.providers>"
    DEPENDS $<TARGET_OBJECTS:${chapter}.${file}.providers>
    COMMENT "Linking the providers of ${chapter}.${file}" COMMAND_EXPAND_LISTS VERBATIM)
  set(${out} ${libraries} PARENT_SCOPE)
endfunction()

# The mistakes of one exercise.
function(ultra_mistakes_of_exercise chapter solution patches own)
  get_filename_component(file ${solution} NAME_WE)
  get_filename_component(file_name ${solution} NAME)
  set(name ${chapter}.${file})
  set(tool Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/mistakes.py)
  ultra_names_of_mistakes(mistakes ${patches})

  set(folder ${CMAKE_BINARY_DIR}/generated/mistakes/${chapter})
  set(mistaken ${mistakes})
  list(TRANSFORM mistaken REPLACE "(.+)" "${folder}/\\1/${file_name}")
  add_custom_command(OUTPUT ${mistaken}
    COMMAND ${tool} apply ${patches} ${solution} ${folder}
    DEPENDS ${CMAKE_SOURCE_DIR}/tools/mistakes.py ${solution} ${patches}
    COMMENT "Applying the mistakes of ${name}" VERBATIM)
  ultra_simt_expand(sources HOST ${mistaken})
  # A mistake may leave something unused: that is not what its test is about.
  ultra_chapter_objects(${name}.providers ultra_options ${sources})
  ultra_precompile(${name}.providers provider)
  ultra_provider_libraries(libraries ${chapter} ${file} ${mistakes})

  list(GET libraries 0 first)
  add_library(${name}.provider SHARED IMPORTED)
  set_target_properties(${name}.provider PROPERTIES IMPORTED_LOCATION ${first})
  ultra_check_executable(${name}.mistakes ${chapter} ${file} ${name}.provider
    solutions/${chapter}/${file_name} "${own}")
  target_sources(${name}.mistakes PRIVATE ${libraries})
  ultra_called_by_mistakes(called ${chapter} ${file})
  target_link_options(${name}.mistakes PRIVATE
    -Wl,--enable-new-dtags # LD_LIBRARY_PATH goes first
    @${called})
  set_target_properties(${name}.mistakes PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mistakes
    ENABLE_EXPORTS ON) # providers call what is linked here
  set_target_properties(${name}.mistakes ${name}.providers PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(mistakes ${name}.mistakes)

  foreach(mistake IN LISTS mistakes)
    set(test mistake.${chapter}.${mistake})
    add_test(NAME ${test} COMMAND ${tool} expect ${patches} ${mistake} $<TARGET_FILE:${name}.mistakes>
      ${CMAKE_BINARY_DIR}/tests/mistakes/${chapter}/${mistake})
    set_tests_properties(${test} PROPERTIES LABELS mistakes SKIP_RETURN_CODE 5)
    ultra_limit_test(${test} ${ULTRA_CHECK_SECONDS})
  endforeach()
endfunction()

function(ultra_mistakes chapter own)
  ultra_files_of_mistakes(files ${chapter})
  ultra_exercise_files(solutions ${chapter})
  foreach(patches IN LISTS files)
    # The mistakes follow from the file's text: configure again when it changes.
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${patches})
    get_filename_component(file ${patches} NAME_WE)
    set(solution ${solutions})
    list(FILTER solution INCLUDE REGEX "/${file}\\.(cpp|cu)$")
    if(NOT solution)
      message(FATAL_ERROR "${patches}: there is no solutions/${chapter}/${file}.cpp or .cu")
    endif()
    ultra_mistakes_of_exercise(${chapter} ${solution} ${patches} "${own}")
  endforeach()
endfunction()
