#include "common/train/options/comm_options.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::train {
namespace {

/// Beyond it one machine only switches threads; a cluster's ranks are processes.
constexpr std::size_t kMostThreadRanks = 256;

/// Seconds: a wait shorter than a thread takes to wake up is none, and a longer one than a year
/// never ends.
constexpr double kLeastTimeout = 1e-3;
constexpr double kMostTimeout = 3e7;

}  // namespace

std::string_view to_string(Collectives collectives) {
  return collectives == Collectives::kOurs ? "ours" : "native";
}

void expect_thread_ranks(std::size_t ranks, const std::string& asked) {
  if (ranks <= kMostThreadRanks) return;
  throw ConfigError(
      fmt::format("{}. Ranks are threads of this process, at most {}; for more, start processes "
                  "with mpirun.",
                  asked, kMostThreadRanks));
}

int resolve_world_size(std::optional<std::size_t> asked, std::optional<int> launched) {
  if (launched) {
    if (asked && *asked != static_cast<std::size_t>(*launched)) {
      throw ConfigError(
          fmt::format("--ranks is {}, but mpirun started {} processes. Leave --ranks out, or start "
                      "mpirun -n {}.",
                      *asked, *launched, *asked));
    }
    return *launched;
  }
  if (asked) expect_thread_ranks(*asked, fmt::format("--ranks is {}", *asked));
  return checked_cast<int>(asked.value_or(1));
}

void CommOptions::add_to(CLI::App& app) {
  const Flags flags(app, "Ranks");
  flags.add("--ranks", ranks,
            "number of ranks: threads, or processes under mpirun [1, or mpirun's]",
            {1, kMostRanks});
  add_choice<Collectives>(app, "--collectives", collectives,
                          {{"ours", Collectives::kOurs}, {"native", Collectives::kNative}}, "Ranks",
                          "ours (written out over send and recv) or native (the platform's)");
  when_given(app, "--collectives", [this] { collectives_given = true; });
  flags.add("--timeout", timeout, "seconds that a rank waits for others before it gives up",
            {kLeastTimeout, kMostTimeout});
  flags.add_parsed(
      "--link",
      [this](const std::string& text) {
        static_cast<void>(LinkSpeed::parse(text));
        link = text;
      },
      "slow messages down to a network, for example \"latency-us=50,gbps=1\"");
  add_choice<ultra::Progress>(
      app, "--progress", progress,
      {{"thread", ultra::Progress::kThread}, {"on-call", ultra::Progress::kOnCall}}, "Ranks",
      "who moves communication along while a rank computes: thread or on-call");
  add_choice<Checking>(app, "--check-collectives", checking,
                       {{"on", Checking::kOn}, {"off", Checking::kOff}}, "Ranks",
                       "compare what ranks call before each collective: on or off");
}

void CommOptions::validate() const {
  static_cast<void>(world_size());
  if (link.empty()) return;
  if (collectives == Collectives::kNative) {
    throw ConfigError(
        "--link slows single messages down, which the platform's own collectives do not show. Use "
        "--collectives ours with --link.");
  }
}

int CommOptions::world_size() const {
  if (elsewhere) return checked_cast<int>(ranks.value_or(1));
  return resolve_world_size(ranks, launched);
}

RankOptions CommOptions::rank_options(
    std::shared_ptr<const comm::CollectiveAlgorithms> ours) const {
  RankOptions options{.timeout = std::chrono::duration<double>(timeout),
                      .checking = checking,
                      .progress = progress,
                      .link = {},
                      .algorithms = {}};
  if (!link.empty()) options.link = LinkSpeed::parse(link);
  if (collectives == Collectives::kOurs) options.algorithms = std::move(ours);
  return options;
}

ExtraConfig CommOptions::config() const {
  return {{"ranks", checked_cast<std::size_t>(world_size())},
          {"collectives", std::string(to_string(collectives))},
          {"link", link},
          {"timeout", timeout}};
}

}  // namespace ultra::train
