#pragma once
/// @file
/// The kinds of storage: files by io_uring or by threads, the host's memory, and slowed ones.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "common/storage/async_file.hpp"

namespace ultra::storage {

/// @brief Who moves the bytes of a file.
enum class Backend {
  kThreads,  ///< two threads with pread and pwrite
  kIoUring,  ///< the kernel, through io_uring; one thread collects what it has done
};

/// @brief "threads" or "io_uring".
[[nodiscard]] std::string_view to_string(Backend backend);

/// @brief What files use here: io_uring where the build has liburing and the kernel allows it (probed
/// by making a ring; containers often refuse with EPERM, old kernels with ENOSYS), else threads.
[[nodiscard]] Backend file_backend();

/// @brief A scratch file of `bytes` zeros in a folder; gone when it is closed, see ScratchFile.
///
/// Reads and writes go through the system's page cache. Short ones are completed.
/// @throws FileError when the folder is missing, cannot be written to, or its disk is too full;
/// ConfigError for a backend that this machine does not have.
[[nodiscard]] std::unique_ptr<AsyncFile> open_scratch_file(const std::filesystem::path& folder,
                                                           std::uint64_t bytes,
                                                           Backend backend = file_backend());

/// @brief `bytes` zeros in the host's memory, copied by two threads.
///
/// For a GPU this is the memory beyond the bus; where the device is the CPU, it is memory that no
/// Device counts.
/// @throws OutOfMemory when the host does not have as much.
[[nodiscard]] std::unique_ptr<AsyncFile> host_memory(std::uint64_t bytes);

/// @brief The same storage behind a line of `gigabytes_per_second` (1e9 bytes) in each direction.
///
/// Reads pass the line one after the other, and so do writes; a transfer ends when its bytes have
/// passed, or when the storage has done it if that is later. Data that the page cache holds is too fast
/// to show what overlap is good for.
/// @param gigabytes_per_second  more than 0.
[[nodiscard]] std::unique_ptr<AsyncFile> paced(std::unique_ptr<AsyncFile> file,
                                               double gigabytes_per_second);

}  // namespace ultra::storage
