#pragma once
/// @file
/// Disks that are full or read-only, for one function.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace ultra::test {

/// @brief Kind of the disk.
enum class DiskState { kWritable, kReadOnly };

/// @brief Runs `fn` in a process of its own, where a disk in memory is mounted on `folder`.
/// @param bytes  size of the disk.
/// @return what `fn` returned; nothing where this machine does not allow such mounts.
[[nodiscard]] std::optional<std::string> with_own_disk(const std::string& folder, std::size_t bytes,
                                                       DiskState state,
                                                       const std::function<std::string()>& fn);

}  // namespace ultra::test
