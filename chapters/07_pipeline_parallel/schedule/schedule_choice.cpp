#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::pipeline_parallel {
namespace {

constexpr std::string_view kInterleavedName = "interleaved";
/// More would be layers of a model that nobody has.
constexpr std::size_t kMostChunks = 1024;

struct Named {
  ScheduleKind kind;
  std::string_view name;
};

constexpr std::array kNames = {
    Named{ScheduleKind::kNaive, "naive"},
    Named{ScheduleKind::kAfab, "afab"},
    Named{ScheduleKind::kOneFOneB, "1f1b"},
    Named{ScheduleKind::kInterleaved, kInterleavedName},
    Named{ScheduleKind::kZeroBubbleH1, "zero-bubble-h1"},
    Named{ScheduleKind::kZeroBubbleH2, "zero-bubble-h2"},
    Named{ScheduleKind::kZbV, "zb-v"},
    Named{ScheduleKind::kDualPipeV, "dualpipe-v"},
    Named{ScheduleKind::kPipedreamAsync, "pipedream-async"},
};

std::size_t parse_chunks(std::string_view text) {
  const auto chunks = parse_number<std::size_t>(text);
  if (chunks && *chunks >= 1 && *chunks <= kMostChunks) return *chunks;
  throw ConfigError(
      fmt::format("schedule interleaved: {} is no number of chunks per rank, from 1 to {}. Write "
                  "for example interleaved:2.",
                  in_quotes(text), kMostChunks));
}

}  // namespace

std::string ScheduleChoice::str() const {
  for (const auto& [named, name] : kNames) {
    if (named != kind) continue;
    if (kind != ScheduleKind::kInterleaved) return std::string(name);
    return fmt::format("{}:{}", name, interleaved_chunks);
  }
  throw InternalError("a schedule has no name");
}

std::size_t ScheduleChoice::chunks() const {
  if (kind == ScheduleKind::kInterleaved) return interleaved_chunks;
  return is_v_shaped() ? 2 : 1;
}

ScheduleChoice parse_schedule_choice(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  for (const auto& [kind, name] : kNames) {
    if (word != name) continue;
    if (colon == std::string_view::npos) return {.kind = kind};
    if (kind != ScheduleKind::kInterleaved) break;
    return {.kind = kind, .interleaved_chunks = parse_chunks(text.substr(colon + 1))};
  }
  throw ConfigError(fmt::format(
      "there is no schedule {}. There are {}, and search for the best that can be found.",
      in_quotes(text), schedule_names()));
}

std::span<const ScheduleChoice> published_schedules() {
  static const std::vector<ScheduleChoice> all = [] {
    std::vector<ScheduleChoice> choices;
    for (const auto& [kind, name] : kNames) choices.push_back({.kind = kind});
    return choices;
  }();
  return all;
}

std::string schedule_names() {
  std::vector<std::string> names;
  for (const auto& [kind, name] : kNames) {
    names.push_back(kind == ScheduleKind::kInterleaved ? fmt::format("{}:V", name)
                                                       : std::string(name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace ultra::pipeline_parallel
