# Notebooks in the build: what their C++ cells link, and one test for each.
#
#   include(tools/notebook/notebook.cmake)
#   ultra_notebooks()    once, when all chapters' libraries exist and testing is enabled
#
# For each chapters/NN_name/NN_name.md it makes
#   notebook.NN_name     a target that is never built: from the commands that would build it,
#                        ultra_notebook/cells/build_settings.py reads how to compile and link a cell
#   notebook.NN_name     a test (label notebook) that executes the chapter
# and for each chapters/NN_name/room/room.md, whose cells link the same, a test notebook.NN_name.room;
# and tools.notebook, the test of these tools (label tools).

set(ULTRA_NOTEBOOK_TOOLS ${CMAKE_CURRENT_LIST_DIR})
set(ULTRA_NOTEBOOK_SECONDS 300) # at most for a whole one, cold, on an idle machine
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/UltraTestLimits.cmake)

# What a cell of the chapter may use: the chapter's library (solutions), common/ and GoogleTest.
function(ultra_notebook_target chapter)
  add_executable(notebook.${chapter} EXCLUDE_FROM_ALL ${ULTRA_NOTEBOOK_TOOLS}/cell_target.cpp)
  foreach(library IN ITEMS ${chapter} ultra_common)
    if(TARGET ${library})
      target_link_libraries(notebook.${chapter} PRIVATE ${library})
    endif()
  endforeach()
  target_link_libraries(notebook.${chapter} PRIVATE GTest::gtest)
  target_include_directories(notebook.${chapter} PRIVATE ${ULTRA_NOTEBOOK_TOOLS}/include)
endfunction()

function(ultra_notebook_test name file)
  set(output ${CMAKE_BINARY_DIR}/notebooks)
  if(CMAKE_BINARY_DIR STREQUAL "${CMAKE_SOURCE_DIR}/build/release")
    set(output ${CMAKE_SOURCE_DIR}/build/notebooks)
  endif()
  add_test(NAME notebook.${name}
    COMMAND ${ULTRA_VENV_PYTHON} ${ULTRA_NOTEBOOK_TOOLS}/run.py ${file}
            --build-dir ${CMAKE_BINARY_DIR} --output ${output})
  # One whose cells take times has the machine to itself. Of a run's own times others assert lower bounds alone.
  file(STRINGS ${file} measures LIMIT_COUNT 1 REGEX "perf_counter|steady_clock")
  set(alone OFF)
  if(measures)
    set(alone ON)
  endif()
  # What takes longest begins first: no core waits for it in the end.
  set_tests_properties(notebook.${name} PROPERTIES
    LABELS notebook RUN_SERIAL ${alone} COST ${ULTRA_NOTEBOOK_SECONDS})
  ultra_limit_test(notebook.${name} ${ULTRA_NOTEBOOK_SECONDS})
endfunction()

function(ultra_notebooks)
  set(chapters ${CMAKE_SOURCE_DIR}/chapters)
  file(GLOB files CONFIGURE_DEPENDS ${chapters}/[0-9][0-9]_*/*.md ${chapters}/[0-9][0-9]_*/*/*.md)
  foreach(file IN LISTS files)
    get_filename_component(folder ${file} DIRECTORY)
    get_filename_component(folder_name ${folder} NAME)
    get_filename_component(name ${file} NAME_WE)
    if(NOT name STREQUAL folder_name)
      continue()
    endif()
    file(RELATIVE_PATH place ${chapters} ${folder}) # NN_name or NN_name/room
    if(place STREQUAL folder_name)
      ultra_notebook_target(${folder_name})
    endif()
    string(REPLACE "/" "." place ${place})
    ultra_notebook_test(${place} ${file})
  endforeach()

  add_test(NAME tools.notebook
    COMMAND ${ULTRA_VENV_PYTHON} -m unittest discover
            --start-directory ${CMAKE_SOURCE_DIR}/tests/tools/notebook --pattern "*_test.py")
  set_tests_properties(tools.notebook PROPERTIES LABELS tools COST ${ULTRA_NOTEBOOK_SECONDS})
  ultra_limit_test(tools.notebook ${ULTRA_NOTEBOOK_SECONDS})
endfunction()
