#pragma once
/// @file
/// Whether a sanitizer's run time is in this program: it ends the program where the C++ library
/// would throw std::bad_alloc.

// Defined only where the program is linked with the sanitizer.
extern "C" void __asan_init() __attribute__((weak));
extern "C" void __tsan_init() __attribute__((weak));

namespace ultra::test {

/// @brief True under AddressSanitizer or ThreadSanitizer.
[[nodiscard]] inline bool sanitizer_owns_the_heap() {
  return &__asan_init != nullptr || &__tsan_init != nullptr;
}

}  // namespace ultra::test
