#include "tests/support/sanitizer.hpp"

// Defined only where the program is linked with the sanitizer.
extern "C" void __asan_init() __attribute__((weak));
extern "C" void __tsan_init() __attribute__((weak));

namespace ultra::test {

bool sanitizer_owns_the_heap() { return &__asan_init != nullptr || &__tsan_init != nullptr; }

}  // namespace ultra::test
