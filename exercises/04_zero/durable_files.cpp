// Exercise 04.7: files that survive a power failure.
//
// Goal:        write a checkpoint so that it is there whole or not at all, whenever the power
//              fails.
// Length:      about 10 lines
// Difficulty:  medium
// Check:       ./workbook check 04.7
// Hints:       ./workbook hint 04.7
// Targets:     what write_durably() has written survives a power failure after it returns;
//              under the checkpoint's name there is nothing, or all files with all bytes;
//              what commit_folder() has committed survives a power failure after it returns
//
// chapters/04_zero/checkpoints/durable_files.hpp declares the functions.
#include "chapters/04_zero/checkpoints/durable_files.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// TODO 1: write the parts where they belong; then let the bytes reach the disk.
void write_durably([[maybe_unused]] checkpoint::FileLayer& files,
                   [[maybe_unused]] const std::filesystem::path& file,
                   [[maybe_unused]] std::span<const FilePart> parts) {
  throw NotWritten("04.7 durable_files: write_durably");
}

// TODO 2: what must be on the disk before the name, the name, and what must be on the disk after
// it.
void commit_folder([[maybe_unused]] checkpoint::FileLayer& files,
                   [[maybe_unused]] const std::filesystem::path& staging,
                   [[maybe_unused]] const std::filesystem::path& destination) {
  throw NotWritten("04.7 durable_files: commit_folder");
}

}  // namespace ultra::zero
