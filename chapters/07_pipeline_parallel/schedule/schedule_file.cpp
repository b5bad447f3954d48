#include "chapters/07_pipeline_parallel/schedule/schedule_file.hpp"

#include <fmt/format.h>

#include <fstream>

#include "chapters/07_pipeline_parallel/schedule/schedule_text.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::pipeline_parallel {

std::string text_from_file(const std::string& flag, const std::string& path,
                           const std::string& kind) {
  constexpr std::size_t kMostBytes = 1U << 26U;
  std::ifstream stream(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (!stream.is_open() || stream.bad() || (text.empty() && !stream.eof())) {
    throw FileError(fmt::format("{} {} cannot be read. Name {}.", flag, in_quotes(path), kind));
  }
  if (text.size() > kMostBytes) {
    throw FileError(fmt::format("{} {} has more than {} bytes. Name {}.", flag, in_quotes(path),
                                kMostBytes, kind));
  }
  return text;
}

PipelineSchedule schedule_from_file(const std::string& flag, const std::string& path) {
  return schedule_from_text(text_from_file(flag, path, "a text with a line for each stage"), path);
}

}  // namespace ultra::pipeline_parallel
