#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// More would be layers of a model that nobody has.
constexpr std::size_t kMostChunks = 1024;

std::size_t parse_chunks(std::string_view schedule, std::string_view text) {
  const auto chunks = parse_number<std::size_t>(text);
  if (chunks && *chunks >= 1 && *chunks <= kMostChunks) return *chunks;
  throw ConfigError(fmt::format(
      "schedule {}: {} is no number of chunks per rank, from 1 to {}. Write for example "
      "{}:2.",
      schedule, in_quotes(text), kMostChunks, schedule));
}

}  // namespace

const Schedule& ScheduleChoice::row() const {
  const auto number = static_cast<std::size_t>(kind);
  ensure(number < schedule_rows().size(), "a schedule has a row");
  return schedule_rows()[number];
}

std::string ScheduleChoice::str() const {
  if (!takes_chunks()) return std::string(row().name);
  return fmt::format("{}:{}", row().name, interleaved_chunks);
}

std::size_t ScheduleChoice::chunks() const {
  if (takes_chunks()) return interleaved_chunks;
  return is_v_shaped() ? 2 : 1;
}

bool ScheduleChoice::takes_chunks() const { return row().chunks == Chunks::kLoop; }

bool ScheduleChoice::is_v_shaped() const { return row().chunks == Chunks::kV; }

bool ScheduleChoice::takes(std::size_t micro_batches, std::size_t stages) const {
  return !row().in_groups || micro_batches % stages == 0;
}

ScheduleChoice parse_schedule_choice(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  for (ScheduleChoice choice : all_schedules()) {
    if (word != choice.row().name) continue;
    if (colon == std::string_view::npos) return choice;
    if (!choice.takes_chunks()) break;
    choice.interleaved_chunks = parse_chunks(word, text.substr(colon + 1));
    return choice;
  }
  throw ConfigError(fmt::format(
      "there is no schedule {}. There are {}, and search for the best that can be found.",
      in_quotes(text), schedule_names()));
}

std::span<const ScheduleChoice> all_schedules() {
  static const std::vector<ScheduleChoice> all = [] {
    std::vector<ScheduleChoice> choices;
    for (std::size_t i = 0; i < schedule_rows().size(); ++i) {
      choices.push_back({.kind = static_cast<ScheduleKind>(i)});
    }
    return choices;
  }();
  return all;
}

std::span<const ScheduleChoice> published_schedules() {
  return all_schedules().first(static_cast<std::size_t>(ScheduleKind::kPipedreamAsync) + 1);
}

std::string schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleChoice& choice : all_schedules()) {
    names.push_back(fmt::format("{}{}", choice.row().name, choice.takes_chunks() ? ":V" : ""));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace ultra::pipeline_parallel
