#pragma once
/// @file
/// Whether a sanitizer's run time is in this program: it ends the program where the C++ library
/// would throw std::bad_alloc.

namespace ultra::test {

/// @brief True under AddressSanitizer or ThreadSanitizer.
[[nodiscard]] bool sanitizer_owns_the_heap();

}  // namespace ultra::test
