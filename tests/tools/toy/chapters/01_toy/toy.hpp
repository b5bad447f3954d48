#pragma once

// The toy chapter's interface: what its two exercises define.

/// @brief The toy chapter.
namespace ultra::toy {

/// @brief Sums two numbers.
int add(int a, int b);

/// @brief Doubles a number.
int twice(int a);

}  // namespace ultra::toy
