#include "chapters/07_pipeline_parallel/schedule/schedule_file.hpp"

#include <fmt/format.h>

#include "chapters/07_pipeline_parallel/schedule/schedule_text.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/base/text_file.hpp"

namespace ultra::pipeline_parallel {

std::string text_from_file(const std::string& flag, const std::string& path,
                           const std::string& kind) {
  constexpr std::size_t kMostBytes = 1U << 26U;
  const std::string called = fmt::format("{} {}", flag, in_quotes(path));
  const std::string advice = fmt::format("Name {}.", kind);
  std::string text = text_of_file(path, kMostBytes, called, advice);
  if (text.size() <= kMostBytes) return text;
  throw FileError(fmt::format("{} has more than {} bytes. {}", called, kMostBytes, advice));
}

PipelineSchedule schedule_from_file(const std::string& flag, const std::string& path) {
  return schedule_from_text(text_from_file(flag, path, "a text with a line for each stage"), path);
}

}  // namespace ultra::pipeline_parallel
