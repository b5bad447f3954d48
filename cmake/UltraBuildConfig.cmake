# Writes build_config.hpp: what the sources may know about the build.
function(ultra_cxx_bool out value)
  if(value)
    set(${out} true PARENT_SCOPE)
  else()
    set(${out} false PARENT_SCOPE)
  endif()
endfunction()

ultra_cxx_bool(ULTRA_HAS_CUDA_LITERAL ${ULTRA_HAS_CUDA})
ultra_cxx_bool(ULTRA_HAS_MPI_LITERAL ${ULTRA_HAS_MPI})
configure_file(${CMAKE_SOURCE_DIR}/cmake/build_config.hpp.in
  ${CMAKE_BINARY_DIR}/generated/build_config.hpp @ONLY)
