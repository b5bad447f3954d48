#pragma once
/// @file
/// A scratch file that the kernel reads and writes by itself, asked through io_uring.

#include <memory>

#include "common/storage/async_file.hpp"
#include "common/storage/scratch_file.hpp"

namespace ultra::storage {

/// @brief Whether this build has liburing and the kernel makes rings for us: asked for once.
[[nodiscard]] bool uring_works();

/// @brief Reads and writes a file through a ring of its own.
///
/// One thread waits for what the kernel has done, and asks for the rest of what it did in part. All
/// requests carry IOSQE_ASYNC: otherwise what the page cache has is copied by the thread that asks,
/// which is to compute meanwhile.
/// @throws ConfigError when !uring_works().
[[nodiscard]] std::unique_ptr<AsyncFile> uring_file(std::unique_ptr<ScratchFile> file);

}  // namespace ultra::storage
