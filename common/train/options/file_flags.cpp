#include "common/train/options/file_flags.hpp"

#include <fmt/format.h>

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
  if (file.use != FileUse::kWritten) return false;
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

}  // namespace

void expect_different_files(std::span<const FileFlag> files) {
  for (std::size_t second = 1; second < files.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      expect_different(files[first], files[second]);
    }
  }
}

void expect_nothing_to_write(std::span<const FileFlag> files, const std::string& question) {
  for (const FileFlag& file : files) {
    if (file.use == FileUse::kRead) continue;
    throw ConfigError(fmt::format(
        "{0} has no meaning with {1}, which answers on stdout and does not train. Leave "
        "{0} out; {1} ... > FILE keeps the answer.",
        file.flag, question));
  }
}

}  // namespace ultra::train
