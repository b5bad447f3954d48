#pragma once
/// @file
/// Reading and writing in full what the system may do in parts.

#include <sys/types.h>

#include <cstddef>
#include <functional>

namespace ultra::checkpoint {

/// @brief How far a transfer came.
struct TransferResult {
  std::size_t done = 0;  ///< bytes moved
  int error = 0;         ///< errno of the call that failed; 0 when none did
};

/// @brief Repeats a read or a write until all is moved, an error comes, or nothing more does.
///
/// One call of pread or pwrite moves at most 2 GB, and fewer when a disk is nearly full; a signal
/// interrupts it (EINTR), and it is called again.
/// @param bytes  how many to move.
/// @param once   moves up to `left` bytes that follow the first `done`; returns their number, 0 at
///               the end of the file, or -1 and sets errno.
[[nodiscard]] TransferResult transfer_all(
    std::size_t bytes, const std::function<ssize_t(std::size_t done, std::size_t left)>& once);

}  // namespace ultra::checkpoint
