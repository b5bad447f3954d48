#pragma once
/// @file
/// How messages speak of what the file system has refused.

#include <filesystem>
#include <string_view>

namespace ultra::checkpoint {

/// @brief Throws FileError "WHAT: REASONDETAIL. ADVICE" in one line.
/// @param error  the system's number of the reason.
/// @param what   the thing, its path and what could not be done with it.
[[noreturn]] void fail(int error, std::string_view what, std::string_view detail = "");

/// @brief Throws FileError "checkpoint file 'PATH' cannot be TRIED: REASON. ADVICE".
[[noreturn]] void fail_file(int error, const std::filesystem::path& path, std::string_view tried);

/// @brief Throws FileError "checkpoint folder 'PATH' cannot be TRIED: REASON. ADVICE".
[[noreturn]] void fail_folder(int error, const std::filesystem::path& path, std::string_view tried);

}  // namespace ultra::checkpoint
