#pragma once
/// @file
/// How messages speak of a file that is damaged, and of what it holds.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ultra::checkpoint {

/// @brief What a file belongs to: so what to do when it is damaged.
enum class FileOf : std::uint8_t {
  kCheckpoint,  ///< an older one may be whole
  kModel,       ///< a folder of --init or of an export: another copy may be
};

/// @brief Throws FileError "safetensors file 'PATH' is damaged: WHAT. ..." in one line.
[[noreturn]] void report_damage(const std::string& path, std::string_view what);

/// @brief Throws FileError "checkpoint file 'PATH' is damaged: WHAT. Resume an older checkpoint."
[[noreturn]] void report_damaged_checkpoint(const std::string& path, std::string_view what);

/// @brief Throws FileError "'PATH' is damaged: WHAT. Take another copy of its folder."; of a
/// checkpoint, report_damaged_checkpoint()'s.
[[noreturn]] void report_damaged(FileOf owner, const std::string& path, std::string_view what);

/// @brief A text from a file, for a message: in quotes, on one line, in ASCII, cut off when it has
/// more bytes.
[[nodiscard]] std::string shown_text(std::string_view text, std::size_t most_bytes = 80);

/// @brief A shape as "[2, 3]", cut off when it has many dimensions.
[[nodiscard]] std::string shown_shape(std::span<const std::size_t> shape);

}  // namespace ultra::checkpoint
