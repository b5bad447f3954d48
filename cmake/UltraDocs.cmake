# The Doxygen configuration of this checkout; tools/build_docs.py runs it. Pages land in build/docs.
set(ULTRA_DOCS_DIR ${CMAKE_SOURCE_DIR}/build/docs)
set(ULTRA_DOXYFILE ${CMAKE_BINARY_DIR}/generated/Doxyfile)
configure_file(${CMAKE_SOURCE_DIR}/docs/Doxyfile.in ${ULTRA_DOXYFILE} @ONLY)
