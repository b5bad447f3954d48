#include "common/comm/engine/rank_activity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace ultra::comm {
namespace {

using State = RankActivity::State;

// Messages describe so many ranks of a kind, and count the others.
constexpr std::size_t kDescribed = 3;

/// A rank's share of the time in which another one waited for it.
struct Share {
  int rank;
  const RankActivity* activity;
  std::optional<ProcessorTime> processor;  ///< within that time
};

std::vector<Share> shares_in(State state, int waiting, const std::vector<RankActivity>& before,
                             const std::vector<RankActivity>& now) {
  std::vector<Share> shares;
  for (std::size_t rank = 0; rank < now.size(); ++rank) {
    if (now[rank].state != state || static_cast<int>(rank) == waiting) continue;
    Share& share = shares.emplace_back(
        Share{.rank = static_cast<int>(rank), .activity = &now[rank], .processor = {}});
    if (rank >= before.size() || !before[rank].processor || !now[rank].processor) continue;
    share.processor = {.ran = now[rank].processor->ran - before[rank].processor->ran,
                       .queued = now[rank].processor->queued - before[rank].processor->queued};
  }
  return shares;
}

std::string and_others(std::size_t count) {
  return count > kDescribed ? fmt::format("; and {} others", count - kDescribed) : std::string();
}

/// What a rank that does not wait for ranks does.
enum class Doing : std::uint8_t { kStarves, kComputes, kSleeps };

Doing doing_of(const ProcessorTime& processor, double seconds) {
  constexpr double kMuch = 0.3;
  if (processor.queued > kMuch * seconds) return Doing::kStarves;
  return processor.ran > kMuch * seconds ? Doing::kComputes : Doing::kSleeps;
}

std::string in_words(Doing doing) {
  switch (doing) {
    case Doing::kStarves:
      return "starved";
    case Doing::kComputes:
      return "computing";
    case Doing::kSleeps:
      break;
  }
  return "asleep, stopped, or waiting for something else than ranks";
}

/// " In the last 59 s rank 1 was 0.4 s on a core and 50.2 s in line for one: starved."
std::string tell_computing(const std::vector<Share>& computing, double seconds) {
  std::vector<std::string> texts;
  for (const Share& share : computing) {
    if (!share.processor || texts.size() == kDescribed) continue;
    texts.push_back(fmt::format("rank {} was {:.3g} s on a core and {:.3g} s in line for one: {}",
                                share.rank, share.processor->ran, share.processor->queued,
                                in_words(doing_of(*share.processor, seconds))));
  }
  if (texts.empty()) return {};
  return fmt::format(" In the last {:.3g} s {}{}.", seconds, fmt::join(texts, "; "),
                     and_others(computing.size()));
}

/// " Rank 2 waits in recv #0 of 'stages' (...)."
std::string tell_waiting(const std::vector<Share>& waiting) {
  std::vector<std::string> texts;
  for (const Share& share : waiting) {
    if (texts.size() == kDescribed) break;
    texts.push_back(fmt::format("rank {} waits in {}", share.rank, share.activity->waits_in));
  }
  if (texts.empty()) return {};
  std::string text = fmt::format(" {}{}.", fmt::join(texts, "; "), and_others(waiting.size()));
  text[1] = 'R';
  return text;
}

std::string load_of_machine() {
  std::array<double, 1> load{};
  if (getloadavg(load.data(), 1) != 1) return "the machine";
  return fmt::format("the machine (load {:.1f} on {} cores)", load[0],
                     std::thread::hardware_concurrency());
}

/// What to do about ranks that do not wait for ranks.
std::string advice_on(const std::vector<Share>& computing, double seconds) {
  const auto any = [&](Doing doing) {
    return std::ranges::any_of(computing, [&](const Share& share) {
      return share.processor && doing_of(*share.processor, seconds) == doing;
    });
  };
  std::string advice;
  if (any(Doing::kStarves)) {
    advice += fmt::format(
        " Who is starved is not stuck: {} has too much to do. Use fewer ranks, or raise --timeout.",
        load_of_machine());
  }
  if (any(Doing::kSleeps))
    advice += " Look at the process that sleeps; if it is only slow, raise --timeout.";
  if (any(Doing::kComputes)) advice += " If it is right that it computes, raise --timeout.";
  return advice;
}

}  // namespace

std::optional<ProcessorTime> processor_time(int process, int thread) {
  // Nanoseconds on a core and in line for one: Documentation/scheduler/sched-stats.rst.
  std::ifstream file(fmt::format("/proc/{}/task/{}/schedstat", process, thread));
  double ran = 0;
  double queued = 0;
  if (!(file >> ran >> queued)) return std::nullopt;
  return ProcessorTime{.ran = ran * 1e-9, .queued = queued * 1e-9};
}

std::string tell_activities(int waiting, const std::vector<RankActivity>& before,
                            const std::vector<RankActivity>& now, double seconds) {
  const auto computing = shares_in(State::kComputes, waiting, before, now);
  const auto blocked = shares_in(State::kWaits, waiting, before, now);
  const std::string times = tell_computing(computing, seconds);
  if (!times.empty()) return times + advice_on(computing, seconds) + tell_waiting(blocked);
  const bool all_wait = !blocked.empty() && computing.empty() &&
                        shares_in(State::kUnknown, waiting, before, now).empty();
  return (all_wait
              ? " Every rank waits: their operations do not fit together."
              : " Look at what the missing ranks do; if they are only slow, raise --timeout.") +
         tell_waiting(blocked);
}

}  // namespace ultra::comm
