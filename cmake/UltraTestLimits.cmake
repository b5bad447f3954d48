# How long a test may take, and what its environment says. Everything that makes a test asks here.
#
# Limits are written in seconds of an otherwise idle machine of two cores, with room to spare: they
# end what hangs, they measure nothing. ULTRA_TEST_PATIENCE multiplies them all, also those that a
# test sets for the programs it starts: it reads the factor from its environment
# (tests/support/patience.hpp, tests/support/patience.py).
include_guard(GLOBAL)

set(ULTRA_TEST_PATIENCE 5 CACHE STRING
  "How many times longer than on an idle machine a test may take: for busy machines and sanitizers")
if(NOT ULTRA_TEST_PATIENCE MATCHES "^[1-9][0-9]*$")
  message(FATAL_ERROR "ULTRA_TEST_PATIENCE is '${ULTRA_TEST_PATIENCE}'. "
    "It must be a whole number from 1 on: by how much all limits of tests are multiplied.")
endif()

# protect_shadow_gap=0: the CUDA driver maps memory where AddressSanitizer wants a gap.
# OPENBLAS_NUM_THREADS: a rank's products take one thread in any case, and NumPy's here are small. OpenBLAS
# starts one for each core before main(), and each spins for a tenth of a second until it sleeps.
set(ULTRA_TEST_ENVIRONMENT
  ULTRA_TEST_PATIENCE=${ULTRA_TEST_PATIENCE}
  OPENBLAS_NUM_THREADS=1
  ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=1
  TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan_suppressions.txt)

# The seconds after which a test is ended that takes no longer than `seconds` on an idle machine.
function(ultra_time_limit out seconds)
  math(EXPR limit "${seconds} * ${ULTRA_TEST_PATIENCE}")
  set(${out} ${limit} PARENT_SCOPE)
endfunction()

# ultra_limit_test(TEST SECONDS [NAME=VALUE ...]): limit and environment of a test.
function(ultra_limit_test name seconds)
  ultra_time_limit(limit ${seconds})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${limit})
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ${ULTRA_TEST_ENVIRONMENT} ${ARGN})
endfunction()
