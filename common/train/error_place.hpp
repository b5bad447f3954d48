#pragma once
/// @file
/// An error with the place at which it happened.

#include <string>

namespace ultra::train {

/// @brief Throws the error that is being handled again, of the same type, its message followed by
/// the place; unchanged when the place is empty, when it is not one of ours, or when it is another
/// rank's, which has told its own.
/// @param place  "stage 1 of 4, F3"; may be empty.
/// @pre An error is being handled.
[[noreturn]] void rethrow_with_place(const std::string& place);

}  // namespace ultra::train
