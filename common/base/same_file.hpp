#pragma once
/// @file
/// Whether two paths are one file, however they are written.

#include <filesystem>

namespace ultra {

/// @brief Where a path leads: its symbolic links are followed, also to where nothing is yet.
[[nodiscard]] std::filesystem::path follow_links(std::filesystem::path path);

/// @brief Whether two paths lead to the same file or folder: for the system, through links of both
/// kinds and any spelling. What does not exist yet is the same when its name and its folder are.
[[nodiscard]] bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace ultra
