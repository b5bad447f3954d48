#include "common/checkpoint/files/file_damage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/errors.hpp"
#include "common/base/json.hpp"

namespace ultra::checkpoint {

void report_damage(const std::string& path, std::string_view what) {
  throw FileError(
      fmt::format("safetensors file '{}' is damaged: {}. Take another copy of it, or another "
                  "checkpoint.",
                  path, what));
}

void report_damaged_checkpoint(const std::string& path, std::string_view what) {
  throw FileError(
      fmt::format("checkpoint file '{}' is damaged: {}. Resume an older checkpoint.", path, what));
}

void report_damaged(FileOf owner, const std::string& path, std::string_view what) {
  if (owner == FileOf::kCheckpoint) report_damaged_checkpoint(path, what);
  throw FileError(fmt::format("'{}' is damaged: {}. Take another copy of its folder.", path, what));
}

std::string shown_text(std::string_view text, std::size_t most_bytes) {
  constexpr int kNoIndent = -1;
  // Bytes that are no UTF-8, and a letter that is cut in two, become U+FFFD.
  const Json shown = text.substr(0, most_bytes);
  const std::string escaped = shown.dump(kNoIndent, JsonLetters::kAscii);
  return text.size() > most_bytes ? escaped + "..." : escaped;
}

std::string shown_shape(std::span<const std::size_t> shape) {
  constexpr std::size_t kMostDimensions = 8;
  if (shape.size() <= kMostDimensions) return fmt::format("[{}]", fmt::join(shape, ", "));
  return fmt::format("[{}, ... {} dimensions]", fmt::join(shape.first(kMostDimensions), ", "),
                     shape.size());
}

}  // namespace ultra::checkpoint
