#include "common/train/options/file_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/base/errors.hpp"
#include "common/base/same_file.hpp"
#include "common/base/text.hpp"

namespace ultra::train {
namespace {

namespace fs = std::filesystem;

/// Whether writing to a path replaces what is there: not that of a device or a pipe.
bool is_replaced(const FileFlag& file) {
  if (file.use != FileUse::kWritten && file.use != FileUse::kAnswer) return false;
  std::error_code unknown;
  const fs::file_status status = fs::status(file.path, unknown);
  return !fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status);
}

void expect_different(const FileFlag& first, const FileFlag& second) {
  if (!is_replaced(first) && !is_replaced(second)) return;
  if (!same_file(first.path, second.path)) return;
  const std::string found =
      first.path == second.path
          ? fmt::format("{} and {} both name {}", first.flag, second.flag, in_quotes(first.path))
          : fmt::format("{} {} and {} {} are one file", first.flag, in_quotes(first.path),
                        second.flag, in_quotes(second.path));
  throw ConfigError(fmt::format("{}. Give each a file of its own.", found));
}

/// Whether a path leads into a folder.
bool is_inside(const fs::path& folder, const fs::path& path) {
  std::error_code unknown;
  const fs::path outer = fs::canonical(folder, unknown);
  const fs::path inner = fs::canonical(path, unknown);
  return !outer.empty() && std::ranges::mismatch(outer, inner).in1 == outer.end();
}

/// Whether a file is one that a link in a folder leads to, or in a folder of it: in a Hugging Face
/// cache all files of a model are.
bool is_linked_from(const fs::path& folder, const fs::path& file, int levels = 2) {
  std::error_code unknown;
  fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, unknown);
  for (; !unknown && entry != fs::directory_iterator(); entry.increment(unknown)) {
    std::error_code gone;
    if (fs::equivalent(entry->path(), file, gone)) return true;
    const bool goes_on = levels > 1 && fs::is_directory(entry->path(), gone);
    if (goes_on && is_linked_from(entry->path(), file, levels - 1)) return true;
  }
  return false;
}

void expect_outside(const FileFlag& folder, const FileFlag& file) {
  std::error_code unknown;
  if (!is_replaced(file) || !fs::is_regular_file(file.path, unknown)) return;
  if (folder.use == FileUse::kScratch || !fs::is_directory(folder.path, unknown)) return;
  if (!is_inside(folder.path, file.path) && !is_linked_from(folder.path, file.path)) return;
  throw ConfigError(fmt::format(
      "{} {} would replace a file of the folder of {}, {}. Give the path of a new file, "
      "or of one elsewhere.",
      file.flag, in_quotes(file.path), folder.flag, in_quotes(folder.path)));
}

}  // namespace

void expect_different_files(std::span<const FileFlag> files) {
  for (std::size_t second = 1; second < files.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      expect_different(files[first], files[second]);
      expect_outside(files[first], files[second]);
      expect_outside(files[second], files[first]);
    }
  }
}

void expect_nothing_to_write(std::span<const FileFlag> files, const std::string& question) {
  for (const FileFlag& file : files) {
    if (file.use == FileUse::kRead || file.use == FileUse::kAnswer) continue;
    throw ConfigError(fmt::format(
        "{0} has no meaning with {1}, which answers on stdout and does not train. Leave "
        "{0} out; {1} ... > FILE keeps the answer.",
        file.flag, question));
  }
}

}  // namespace ultra::train
