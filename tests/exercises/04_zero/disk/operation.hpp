#pragma once
/// @file
/// What a CrashingDisk is asked for, and what may become of it.

#include "tests/support/toolbox.hpp"

namespace ultra::zero::test {

/// @brief A kind of request.
enum class Asked {
  kCreate,
  kOpen,
  kWrite,
  kResize,
  kSync,
  kClose,
  kMakeFolder,
  kRename,
  kSyncFolder,
  kRemove,
};

/// @brief One request.
struct Operation {
  Asked asked = Asked::kCreate;
  std::string path;
  std::string to{};          ///< of kRename
  std::uint64_t offset = 0;  ///< of kWrite
  std::uint64_t bytes = 0;   ///< of kWrite and kResize

  /// @brief As in the source, without the braces and quotes.
  [[nodiscard]] std::string str() const {
    constexpr const char* kFormats[] = {
        "create({0})",        "open_for_writing({0})", "write_at({2}, {3} bytes) of {0}",
        "resize({3}) of {0}", "sync() of {0}",         "close() of {0}",
        "make_folder({0})",   "rename({0}, {1})",      "sync_folder({0})",
        "remove_all({0})"};
    return fmt::format(fmt::runtime(kFormats[static_cast<std::size_t>(asked)]), path, to, offset,
                       bytes);
  }
};

/// @brief Thrown when the power fails, and by whatever is tried after it. No Error: nobody handles
/// it.
struct PowerFailure {};

/// @brief Of each change that nobody has forced to the disk, whether it is there.
using Fates = std::vector<bool>;

}  // namespace ultra::zero::test
