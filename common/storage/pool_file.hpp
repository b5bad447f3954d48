#pragma once
/// @file
/// A scratch file that threads read and write, with pread and pwrite.

#include <memory>

#include "common/storage/async_file.hpp"
#include "common/storage/scratch_file.hpp"

namespace ultra::storage {

/// @brief Reads and writes a file by TransferThreads.
[[nodiscard]] std::unique_ptr<AsyncFile> pool_file(std::unique_ptr<ScratchFile> file);

/// @brief Throws InternalError unless a file of `size` bytes has `count` from `offset` on.
void expect_in_file(std::uint64_t offset, std::size_t count, std::uint64_t size);

}  // namespace ultra::storage
