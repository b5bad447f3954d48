#pragma once
/// @file
/// FolderLock: the right to write to a folder of checkpoints, which one run has at a time.

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "common/checkpoint/files/descriptor.hpp"

namespace ultra::checkpoint {

/// @brief While it lives, no other FolderLock on this folder can be made: by this process, another
/// one, or one on another machine that shares the folder.
///
/// It is the system's lock (flock) on a file ".lock" in the folder. It dies with its holder,
/// however that ends, and no child has it. The file says who the holder is; a holder that was
/// killed leaves the file, which means nothing to the next. Over NFS (Linux 2.6.12 and later) the
/// server keeps the lock, and frees that of a machine which has failed once it notices.
class FolderLock {
 public:
  /// @param folder    is there.
  /// @param patience  how long to wait for a holder that may be about to end.
  /// @param say       told once, before the wait, for whom it is and how long; may be empty.
  /// @throws FileError that names the holder; or when the folder cannot be written to, or is on a
  /// file system without locks. Interrupted while it waits.
  FolderLock(const std::filesystem::path& folder, std::chrono::milliseconds patience,
             const std::function<void(const std::string&)>& say = {});
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  /// Removes the file and frees the lock.
  ~FolderLock();

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace ultra::checkpoint
