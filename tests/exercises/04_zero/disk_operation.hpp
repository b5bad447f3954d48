#pragma once
/// @file
/// What the files of exercise 04.7 are asked for, one by one.

#include <fmt/format.h>

#include <cstdint>
#include <string>

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
  kRemove
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
    switch (asked) {
      case Asked::kCreate:
        return fmt::format("create({})", path);
      case Asked::kOpen:
        return fmt::format("open_for_writing({})", path);
      case Asked::kWrite:
        return fmt::format("write_at({}, {} bytes) of {}", offset, bytes, path);
      case Asked::kResize:
        return fmt::format("resize({}) of {}", bytes, path);
      case Asked::kSync:
        return fmt::format("sync() of {}", path);
      case Asked::kClose:
        return fmt::format("close() of {}", path);
      case Asked::kMakeFolder:
        return fmt::format("make_folder({})", path);
      case Asked::kRename:
        return fmt::format("rename({}, {})", path, to);
      case Asked::kSyncFolder:
        return fmt::format("sync_folder({})", path);
      case Asked::kRemove:
        return fmt::format("remove_all({})", path);
    }
    return "?";
  }
};

}  // namespace ultra::zero::test
