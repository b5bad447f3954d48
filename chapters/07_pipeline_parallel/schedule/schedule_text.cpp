#include "chapters/07_pipeline_parallel/schedule/schedule_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "chapters/07_pipeline_parallel/schedule/action_names.hpp"
#include "chapters/07_pipeline_parallel/schedule/validate.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::Action;

/// More than anybody runs: a slip of the keyboard should not ask for terabytes.
constexpr std::size_t kMostMicroBatches = 1U << 16U;
constexpr std::size_t kMostChunkNumbers = 1U << 10U;

constexpr std::string_view kBlanks = " \t\r";

/// The words of a line.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

std::optional<Action> action_of(std::string_view word) {
  const std::size_t digits = std::min(word.find_first_of("0123456789"), word.size());
  const auto kind = kind_of(word.substr(0, digits));
  const std::size_t point = std::min(word.find('.'), word.size());
  if (!kind || point < digits) return {};
  const auto micro_batch = parse_number<std::size_t>(word.substr(digits, point - digits));
  const auto chunk = point == word.size() ? std::optional<std::size_t>(0)
                                          : parse_number<std::size_t>(word.substr(point + 1));
  if (!micro_batch || !chunk) return {};
  if (*micro_batch >= kMostMicroBatches || *chunk >= kMostChunkNumbers) return {};
  return Action{.kind = *kind, .micro_batch = *micro_batch, .chunk = *chunk};
}

/// Reads line after line.
class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  void read(std::string_view line) {
    ++line_;
    const auto words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) return;
    if (words.front() == "placement") return read_placement(words);
    ranks_.emplace_back();
    pairs_.emplace_back();
    for (const std::string_view word : words) read_word(word);
  }

  PipelineSchedule schedule() const {
    if (ranks_.empty()) {
      throw ConfigError(fmt::format(
          "schedule {}: the text has no line with actions. Write one for each stage, for example "
          "'F0 F1 BW0 BW1'.",
          name_));
    }
    if (is_v_ && chunks_ != 2) {
      throw ConfigError(fmt::format(
          "schedule {}: 'placement v' is of two chunks per rank, but the text names {}. Name chunk "
          "1 too, as in F0.1, or write 'placement loop'.",
          name_, chunks_));
    }
    return {.name = name_,
            .placement =
                is_v_ ? Placement::v_shape(ranks_.size()) : Placement::loop(ranks_.size(), chunks_),
            .micro_batches = micro_batches_,
            .ranks = ranks_,
            .overlapped = pairs_};
  }

 private:
  void read_placement(const std::vector<std::string_view>& words) {
    const bool is_known = words.size() == 2 && (words[1] == "v" || words[1] == "loop");
    if (!is_known) refuse("after 'placement' comes 'loop' or 'v', and nothing else");
    if (placed_on_ > 0) {
      refuse(fmt::format("'placement' is said in line {} already. Leave one of the two lines out",
                         placed_on_));
    }
    if (!ranks_.empty()) refuse("'placement' comes before the first stage");
    is_v_ = words[1] == "v";
    placed_on_ = line_;
  }

  void read_word(std::string_view word) {
    const std::size_t both = word.find('&');
    if (both != std::string_view::npos) {
      pairs_.back().push_back(ranks_.back().size());
      add(word, word.substr(0, both));
      return add(word, word.substr(both + 1));
    }
    add(word, word);
  }

  void add(std::string_view word, std::string_view part) {
    const auto action = action_of(part);
    if (!action) {
      refuse(
          fmt::format("{} is no action. Write F, B, W, BW or U, the micro-batch (below {}) and, "
                      "for a chunk other than the first, a point and the chunk (below {}): F0, "
                      "BW3, W2.1; F1&BW0.1 for two that overlap",
                      in_quotes(word), kMostMicroBatches, kMostChunkNumbers));
    }
    ranks_.back().push_back(*action);
    micro_batches_ = std::max(micro_batches_, action->micro_batch + 1);
    chunks_ = std::max(chunks_, action->chunk + 1);
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw ConfigError(fmt::format("schedule {}, line {}: {}.", name_, line_, reason));
  }

  std::string name_;
  std::size_t line_ = 0;
  std::size_t placed_on_ = 0;  // the line that says it; 0: none has
  bool is_v_ = false;
  std::size_t micro_batches_ = 0;
  std::size_t chunks_ = 1;
  std::vector<train::StepSchedule> ranks_;
  std::vector<std::vector<std::size_t>> pairs_;
};

bool is_v_shaped(const Placement& placement) {
  return placement.chunks() == 2 &&
         placement.at(placement.stages()).stage + 1 == placement.stages() && placement.stages() > 1;
}

}  // namespace

PipelineSchedule schedule_from_text(std::string_view text, const std::string& name) {
  // An editor's mark of UTF-8, which nobody sees.
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Reader reader(name);
  for (const std::string_view line : split(text, '\n')) reader.read(line);
  PipelineSchedule schedule = reader.schedule();
  expect_valid(schedule);
  return schedule;
}

std::string text_of(const PipelineSchedule& schedule) {
  std::string text = fmt::format("# {}\nplacement {}\n", schedule.name,
                                 is_v_shaped(schedule.placement) ? "v" : "loop");
  for (std::size_t stage = 0; stage < schedule.stages(); ++stage) {
    const auto& list = schedule.ranks[stage];
    const auto pairs = schedule.overlapped_on(stage);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const bool overlaps = std::ranges::binary_search(pairs, i);
      text += list[i].str();
      text += i + 1 == list.size() ? '\n' : (overlaps ? '&' : ' ');
    }
  }
  return text;
}

}  // namespace ultra::pipeline_parallel
