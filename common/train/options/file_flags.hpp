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
  kAnswer,   ///< a file that an answer replaces, beside what it prints
  kFolder,   ///< a folder that the run keeps files in
  kScratch,  ///< a folder for files without a name: none that is in it is read or kept
};

/// @brief A flag that names a file or a folder.
struct FileFlag {
  std::string flag;              ///< "--metrics"
  std::string path;              ///< its value, not empty
  FileUse use = FileUse::kRead;  ///< what the run does with it
};

/// @brief Checks that no file that a run replaces is one that another flag names, or is in a folder
/// that another flag reads or keeps files in, however the two are spelled or linked.
///
/// A new file in such a folder is none of its files. Devices and pipes may be named twice: nothing
/// of theirs is replaced.
/// @throws ConfigError naming both flags.
void expect_different_files(std::span<const FileFlag> files);

/// @brief Checks that flags name nothing that only a training writes, because an answer is asked
/// for.
/// @param question  the flag that asks for it instead of training.
/// @throws ConfigError naming both flags.
void expect_nothing_to_write(std::span<const FileFlag> files, const std::string& question);

}  // namespace ultra::train
