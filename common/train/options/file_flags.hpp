#pragma once
/// @file
/// The files and folders that the flags of a run name.

#include <span>
#include <string>

namespace ultra::train {

/// @brief What becomes of what a flag names.
enum class FileUse {
  kRead,     ///< a file or folder that is only read
  kWritten,  ///< a file that the run replaces when it ends
  kFolder,   ///< a folder that the run writes files into
};

/// @brief A flag that names a file or a folder.
struct FileFlag {
  std::string flag;              ///< "--metrics"
  std::string path;              ///< its value, not empty
  FileUse use = FileUse::kRead;  ///< what the run does with it
};

/// @brief Checks that no file that a run replaces is one that another flag names, however the two
/// are spelled or linked. Devices and pipes may be named twice: nothing of theirs is replaced.
/// @throws ConfigError naming both flags.
void expect_different_files(std::span<const FileFlag> files);

/// @brief Checks that flags name nothing to write, because an answer is asked for.
/// @param question  the flag that asks for it instead of training.
/// @throws ConfigError naming both flags.
void expect_nothing_to_write(std::span<const FileFlag> files, const std::string& question);

}  // namespace ultra::train
