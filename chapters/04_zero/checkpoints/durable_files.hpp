#pragma once
/// @file
/// Files that survive: written so that the power may fail at any moment, and visible all at once.
///
/// The system keeps what a program writes in memory and puts it on the disk when it likes, in any order.
/// A name may be there before the bytes are. So the order must be forced: which order, is the exercise.
///
/// Exercise 04.7 (`./workbook check 04.7`). Body: solutions/04_zero/durable_files.cpp.
/// Source: Pillai et al. 2014, "All File Systems Are Not Created Equal: On the Complexity of Crafting
/// Crash-Consistent Applications", OSDI, section 2; POSIX fsync and rename.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "common/checkpoint/files/file_layer.hpp"

namespace ultra::zero {

/// @brief Some bytes of a file.
struct FilePart {
  std::uint64_t offset = 0;          ///< of the first of them
  std::span<const std::byte> bytes;  ///< its bytes there
};

/// @brief Writes parts of a file that is there; when it returns they survive a power failure.
///
/// Several ranks may write to one file, each its own parts. A file system may tell of a failure as late
/// as when the file is closed.
/// @throws FileError when the disk is full, or fails.
void write_durably(checkpoint::FileLayer& files, const std::filesystem::path& file,
                   std::span<const FilePart> parts);

/// @brief Gives a folder whose files have been written durably its final name, in one step.
///
/// Whoever looks, and after a power failure too, finds either nothing under that name or all files with
/// all their bytes; when it returns, all files.
/// @param staging      the folder under its temporary name, next to `destination`.
/// @param destination  does not exist yet; a name in a folder ("folder/step-00000100").
/// @throws FileError when the disk fails.
void commit_folder(checkpoint::FileLayer& files, const std::filesystem::path& staging,
                   const std::filesystem::path& destination);

}  // namespace ultra::zero
