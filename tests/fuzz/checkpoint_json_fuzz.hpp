#pragma once
/// @file
/// Any text as one of a checkpoint's JSON files: refused with a message, or read and consistent.

#include <string>

namespace ultra::test {

/// @brief Reads a text as a parts file, and checks what comes out of it.
/// @return whether it was accepted; else it was refused by a FileError of one short line.
/// @throws std::logic_error when what was accepted contradicts itself: a bug of the reader.
bool accepts_parts(const std::string& text);

/// @brief The same as a training.json.
bool accepts_record(const std::string& text);

/// @brief The same as a config.json.
bool accepts_config(const std::string& text);

}  // namespace ultra::test
