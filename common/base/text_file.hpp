#pragma once
/// @file
/// The text of a file that a flag names.

#include <cstddef>
#include <string>
#include <string_view>

namespace ultra {

/// @brief What a file holds, or the first most + 1 bytes of a larger one.
/// @param called  what messages call it: "--schedule-file 'mine.txt'".
/// @param advice  a sentence: "Name a text with a line for each stage."
/// @throws FileError, without waiting, when it cannot be read: there is none, no permission, a
/// folder, a pipe or a device.
[[nodiscard]] std::string text_of_file(const std::string& path, std::size_t most,
                                       std::string_view called, std::string_view advice);

}  // namespace ultra
