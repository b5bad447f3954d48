#include "chapters/03_data_parallel/parameter_server/server_options.hpp"

#include <fmt/format.h>

#include <vector>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::data_parallel {
namespace {

const std::vector<train::Choice<Synchronization>> kSyncs = {
    {"all-reduce", Synchronization::kAllReduce},
    {"parameter-server", Synchronization::kParameterServer}};

const std::vector<train::Choice<Priority>> kPriorities = {
    {to_string(Priority::kNone), Priority::kNone},
    {to_string(Priority::kWaitFree), Priority::kWaitFree},
    {to_string(Priority::kPriority), Priority::kPriority}};

constexpr std::size_t kDefaultServers = 1;
constexpr std::size_t kDefaultStaleness = 2;

/// Refuses a flag that was given without the one that gives it a meaning.
void expect_with(bool given, const char* flag, bool other, const char* needed) {
  if (given && !other) {
    throw ConfigError(
        fmt::format("{0} has no meaning without {1}. Add {1}, or leave {0} out.", flag, needed));
  }
}

ConfigError bad_straggler(const std::string& text) {
  return ConfigError(
      fmt::format("--straggler is {}. It must be a replica and the milliseconds that each of its "
                  "steps takes longer, for example 1:50.",
                  in_quotes(text)));
}

}  // namespace

void ServerOptions::add_to(CLI::App& app) {
  const char* group = "Parameter server";
  train::add_choice(app, "--sync", sync, kSyncs, group,
                    "who brings gradients together: all-reduce (the replicas themselves) or "
                    "parameter-server (ranks beside them)");
  const train::Flags flags(app, group);
  flags.add("--servers", servers, "ranks that keep the weights, beside the replicas [1]",
            {1, train::kMostRanks});
  flags.add_switch("--async", asynchronous, "servers apply each replica's gradient as it comes");
  flags.add("--staleness", staleness, "steps that a replica may be ahead of the slowest [2]",
            {0, train::kMostSteps});
  flags.add_parsed(
      "--priority",
      [this](const std::string& word) {
        priority = train::parse_choice("--priority", word, kPriorities);
      },
      "in which order gradients and weights travel: none (all after the backward pass), "
      "wait-free (as they are ready) or priority (in slices, what is needed first goes first) "
      "[none]");
  flags.add("--slice-kb", slice_kb,
            fmt::format("10^3 bytes of a slice with --priority priority [{}]", kSliceKb),
            {1.0, 1e9});
  flags.add_parsed(
      "--straggler",
      [this](const std::string& text) {
        straggler = text;
        static_cast<void>(slow_replica());
      },
      "R:MILLISECONDS: replica R takes so much longer for each step");
}

void ServerOptions::validate() const {
  const bool served = sync == Synchronization::kParameterServer;
  const char* needs_servers = "--sync parameter-server";
  expect_with(servers.has_value(), "--servers", served, needs_servers);
  expect_with(asynchronous, "--async", served, needs_servers);
  expect_with(staleness.has_value(), "--staleness", asynchronous, "--async");
  expect_with(priority.has_value(), "--priority", served, needs_servers);
  expect_with(slice_kb.has_value(), "--slice-kb", priority == Priority::kPriority,
              "--priority priority");
}

void ServerOptions::expect_straggler_among(int replicas) const {
  const std::optional<Straggler> slow = slow_replica();
  if (!slow || slow->replica < replicas) return;
  throw ConfigError(
      fmt::format("--straggler {}: there is no replica {} among {}. They are 0 to {}.", straggler,
                  slow->replica, replicas, replicas - 1));
}

std::size_t ServerOptions::num_servers() const {
  return sync == Synchronization::kParameterServer ? servers.value_or(kDefaultServers) : 0;
}

ServerSettings ServerOptions::settings(DType dtype) const {
  const Priority order = priority.value_or(Priority::kNone);
  const double slice_bytes = slice_kb.value_or(kSliceKb) * 1e3;
  return {.servers = checked_cast<int>(num_servers()),
          .priority = order,
          .slice_capacity = order == Priority::kPriority
                                ? static_cast<std::size_t>(slice_bytes) / size_of(dtype)
                                : 0,
          .asynchronous = asynchronous,
          .staleness = staleness.value_or(kDefaultStaleness)};
}

std::optional<Straggler> ServerOptions::slow_replica() const {
  if (straggler.empty()) return std::nullopt;
  const std::vector<std::string_view> parts = split(straggler, ':');
  if (parts.size() != 2) throw bad_straggler(straggler);
  const std::optional<int> replica = parse_number<int>(parts[0]);
  const std::optional<double> milliseconds = parse_number<double>(parts[1]);
  constexpr double kLongest = 1e6;
  if (!replica || *replica < 0 || !milliseconds ||
      !(*milliseconds >= 0 && *milliseconds <= kLongest)) {
    throw bad_straggler(straggler);
  }
  return Straggler{.replica = *replica,
                   .delay = std::chrono::duration<double, std::milli>(*milliseconds)};
}

train::ExtraConfig ServerOptions::config() const {
  train::ExtraConfig config;
  for (const auto& [word, meaning] : kSyncs) {
    if (meaning == sync) config.emplace_back("sync", std::string(word));
  }
  if (sync == Synchronization::kParameterServer) {
    const Priority order = priority.value_or(Priority::kNone);
    config.emplace_back("servers", num_servers());
    config.emplace_back("priority", std::string(to_string(order)));
    if (order == Priority::kPriority) config.emplace_back("slice_kb", slice_kb.value_or(kSliceKb));
    config.emplace_back("async", std::string(asynchronous ? "on" : "off"));
    if (asynchronous) config.emplace_back("staleness", staleness.value_or(kDefaultStaleness));
  }
  if (!straggler.empty()) config.emplace_back("straggler", straggler);
  return config;
}

}  // namespace ultra::data_parallel
