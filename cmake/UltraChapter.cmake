# A chapter NN_name: chapters/NN_name, solutions/NN_name, exercises/NN_name and their tests.
#
#   NN_name            library: the chapter's own code and the solutions
#   NN_name_mine       library: the chapter's own code and the learner's files
#   NN_name_main       executable bin/NN_name
#   NN_name_main_mine  executable bin/NN_name_mine
#   NN_room_main       executable bin/NN_room of a main.cpp in a folder of the chapter, NN_name/room;
#                      NN_room_main_mine likewise

# A chapter that trains has rows to compare (compare.json), and later ones stand on it. One without is a
# laboratory: it has all ladders of kernels, and nobody stands on it.
define_property(GLOBAL PROPERTY ULTRA_CHAPTERS
  BRIEF_DOCS "Libraries of the chapters so far" FULL_DOCS "In the order of their numbers")
define_property(GLOBAL PROPERTY ULTRA_CHAPTERS_THAT_TRAIN
  BRIEF_DOCS "Those on which later ones stand" FULL_DOCS "In the order of their numbers")

function(ultra_is_laboratory out folder)
  if(EXISTS ${folder}/main.cpp AND NOT EXISTS ${folder}/compare.json)
    set(${out} ON PARENT_SCOPE)
  else()
    set(${out} OFF PARENT_SCOPE)
  endif()
endfunction()

# An object library whose sources see the chapter's headers and everything before it: `foundation`, which
# ultra_chapter sets.
function(ultra_chapter_objects name warnings)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PUBLIC ${foundation} PRIVATE ${warnings})
endfunction()

# A static library made of object libraries.
function(ultra_chapter_library name)
  set(objects ${ARGN})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  add_library(${name} STATIC ${objects})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PUBLIC ${foundation})
endfunction()

# An executable from objects that both variants share.
function(ultra_chapter_executable target output_name program library)
  add_executable(${target} $<TARGET_OBJECTS:${program}>)
  target_link_libraries(${target} PRIVATE ${library} ultra_warnings)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output_name} LINKER_LANGUAGE CXX)
endfunction()

# The executables bin/NAME and bin/NAME_mine of a main.cpp in a chapter.
function(ultra_chapter_program name main)
  ultra_chapter_objects(${name}_program ultra_warnings ${main})
  ultra_precompile(${name}_program library)
  ultra_chapter_executable(${name}_main ${name} ${name}_program ${chapter})
  ultra_chapter_executable(${name}_main_mine ${name}_mine ${name}_program ${chapter}_mine)
  set_target_properties(${name}_main_mine PROPERTIES EXCLUDE_FROM_ALL ON)
  set_property(GLOBAL APPEND PROPERTY ULTRA_PROGRAMS_OF_${chapter} ${name}_main)
endfunction()

# The learner's variants stay out of `all`: a half-written file must not stop the build.
function(ultra_chapter folder)
  get_filename_component(chapter ${folder} NAME)
  ultra_is_laboratory(is_laboratory ${folder})
  if(is_laboratory AND NOT ULTRA_LADDERS)
    return()
  endif()
  get_property(foundation GLOBAL PROPERTY ULTRA_CHAPTERS_THAT_TRAIN)
  list(PREPEND foundation ultra_common)
  if(is_laboratory)
    list(APPEND foundation ultra_kernel_ladders)
  endif()
  ultra_glob_sources(own_sources ${folder})
  list(FILTER own_sources EXCLUDE REGEX "/main\\.cpp$")

  set(own "")
  if(own_sources)
    ultra_chapter_objects(${chapter}_objects ultra_warnings ${own_sources})
    ultra_precompile(${chapter}_objects library)
    ultra_compile_together(${chapter}_objects 8)
    set(own ${chapter}_objects)
  endif()
  ultra_exercise_objects(${chapter} solutions exercises)
  if(NOT own AND NOT solutions)
    message(STATUS "Chapter ${chapter} has no sources yet")
    return()
  endif()

  ultra_chapter_library(${chapter} ${own} ${solutions})
  ultra_chapter_library(${chapter}_mine ${own} ${exercises})
  set_target_properties(${chapter}_mine PROPERTIES EXCLUDE_FROM_ALL ON)
  if(EXISTS ${folder}/main.cpp)
    ultra_chapter_program(${chapter} ${folder}/main.cpp)
  endif()
  string(SUBSTRING ${chapter} 0 2 number)
  file(GLOB rooms CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/*/main.cpp)
  foreach(room IN LISTS rooms)
    get_filename_component(room ${room} DIRECTORY)
    ultra_chapter_program(${number}_${room} ${folder}/${room}/main.cpp)
  endforeach()

  if(ULTRA_TESTS)
    ultra_exercise_checks(${chapter} "${own}")
  endif()
  if(ULTRA_MISTAKES)
    ultra_mistakes(${chapter} "${own}")
    ultra_mends(${chapter} "${own}")
  endif()
  set_property(GLOBAL APPEND PROPERTY ULTRA_CHAPTERS ${chapter})
  if(NOT is_laboratory)
    set_property(GLOBAL APPEND PROPERTY ULTRA_CHAPTERS_THAT_TRAIN ${chapter})
  endif()
endfunction()
