#include "chapters/03_data_parallel/parameter_server/server_technique.hpp"

#include <fmt/format.h>

#include <thread>
#include <vector>

#include "chapters/01_memory/written_parts.hpp"
#include "chapters/03_data_parallel/batch_shares.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/03_data_parallel/gradient_completion.hpp"
#include "chapters/03_data_parallel/options/data_parallel_options.hpp"
#include "chapters/03_data_parallel/parameter_server/server_training.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/text.hpp"
#include "common/optim/rules.hpp"
#include "common/train/options/choice_option.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::data_parallel {
namespace {

class SleepingReplica : public train::StepObserver {
 public:
  explicit SleepingReplica(std::chrono::duration<double> delay) : delay_(delay) {}
  void step_begins(const train::StepPlan&) override { std::this_thread::sleep_for(delay_); }

 private:
  std::chrono::duration<double> delay_;
};

const std::vector<train::Choice<Priority>> kPriorities = {
    {to_string(Priority::kNone), Priority::kNone},
    {to_string(Priority::kWaitFree), Priority::kWaitFree},
    {to_string(Priority::kPriority), Priority::kPriority}};

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

class ParameterServers : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override { options_.add_to(app); }

  void validate(train::Setup& setup) override {
    options_.validate();
    train::reject_conflicts(conflicts(setup));
    setup.unequal_shares = true;
  }

  std::vector<train::Conflict> conflicts(const train::Setup& setup) const override {
    const auto excluded = [](const char* flag, bool given) {
      return train::Conflict{
          .first = flag,
          .second = "parameter servers",
          .reason = "the weights are the servers', which hold no model. Leave it out.",
          .broken = given};
    };
    return {excluded("--init", !setup.train.init.empty()),
            excluded("--val-data", !setup.train.val_data.empty()),
            {.first = "--freeze",
             .second = "parameter servers",
             .reason = "the servers update all weights. Leave it out.",
             .broken = !setup.train.freeze.empty()},
            {.first = "--optimizer muon",
             .second = "parameter servers",
             .reason = "a server has flat parts of the weights, and Muon's steps are of whole "
                       "matrices. Choose adamw or sgd.",
             .broken = optim::needs_whole_matrices(setup.train.optimizer)}};
  }

  void check_ranks(train::Setup& setup) override { options_.resolve_ranks(setup.comm); }

  void validate_training(const train::Setup& setup) const override {
    expect_work_for_all(setup.train.global_batch, replicas(setup));
    options_.expect_straggler_among(replicas(setup));
  }

  train::ExtraConfig config(const train::Setup& setup) const override {
    return train::joined({{{"dp", checked_cast<std::size_t>(replicas(setup))}}, options_.config()});
  }

  void name_algorithms(train::AlgorithmNames& names) const override {
    names[OpKind::kAllReduce] = "pairwise";  // adds in the order of the ranks
  }

  void configure_step(train::StepConfig& step_config, const train::Setup&) const override {
    step_config.share.offer(share_of_batch);
    step_config.cut.offer(cut_share);
    step_config.completes.offer(completing_action);
    const auto slow = options_.slow_replica();
    if (!slow) return;
    step_config.observers.emplace_back([slow = *slow](const train::ModelScope& scope) {
      return make_straggler(slow, scope.plan.mesh.along(kReplicaAxis));
    });
  }

  std::string table(const train::Setup&, const train::TrainResult& result) const override {
    return format_communication_table(result);
  }

  const ServerOptions& options() const { return options_; }

 private:
  int replicas(const train::Setup& setup) const {
    return options_.replicas(setup.comm.world_size());
  }

  ServerOptions options_;
};

}  // namespace

std::unique_ptr<train::StepObserver> make_straggler(const Straggler& straggler,
                                                    const Communicator& dp) {
  const bool is_slow = dp.rank() == straggler.replica;
  return std::make_unique<SleepingReplica>(is_slow ? straggler.delay
                                                   : std::chrono::duration<double>{});
}

void ServerOptions::add_to(CLI::App& app) {
  const char* group = "Parameter server";
  const train::Flags flags(app, group);
  flags.add("--dp", dp, "replicas of the model [1, or as many as there are ranks]",
            {1, train::kMostRanks});
  flags.add("--servers", servers, "ranks that keep the weights, beside the replicas",
            {1, train::kMostRanks});
  flags.add_switch("--async", asynchronous, "servers apply each replica's gradient as it comes");
  flags.add("--staleness", staleness, "steps that a replica may be ahead of the slowest [2]",
            {0, train::kMostSteps});
  train::add_choice(app, "--priority", priority, kPriorities, group,
                    "in which order gradients and weights travel: none (all after the backward "
                    "pass), wait-free (as they are ready) or priority (in slices, what is needed "
                    "first goes first)");
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
  expect_with(staleness.has_value(), "--staleness", asynchronous, "--async");
  expect_with(slice_kb.has_value(), "--slice-kb", priority == Priority::kPriority,
              "--priority priority");
}

void ServerOptions::resolve_ranks(train::CommOptions& comm) const {
  if (dp || (!comm.ranks && !comm.launched)) {
    const std::size_t replicas = dp.value_or(1);
    return ask_for_ranks(comm, replicas + servers,
                         fmt::format("--dp {} and --servers {}", replicas, servers));
  }
  const auto ranks = checked_cast<std::size_t>(comm.world_size());
  if (ranks > servers) return;
  throw ConfigError(
      fmt::format("--servers {} leave none of {} ranks for a replica. Ask for more ranks: --dp N.",
                  servers, ranks));
}

int ServerOptions::replicas(int ranks) const { return ranks - checked_cast<int>(servers); }

void ServerOptions::expect_straggler_among(int replicas) const {
  const std::optional<Straggler> slow = slow_replica();
  if (!slow || slow->replica < replicas) return;
  throw ConfigError(
      fmt::format("--straggler {}: there is no replica {} among {}. They are 0 to {}.", straggler,
                  slow->replica, replicas, replicas - 1));
}

ServerSettings ServerOptions::settings(DType dtype) const {
  const double slice_bytes = slice_kb.value_or(kSliceKb) * 1e3;
  return {.servers = checked_cast<int>(servers),
          .priority = priority,
          .slice_capacity = priority == Priority::kPriority
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
  train::ExtraConfig config = {{"servers", servers},
                               {"priority", std::string(to_string(priority))}};
  if (priority == Priority::kPriority) config.emplace_back("slice_kb", slice_kb.value_or(kSliceKb));
  config.emplace_back("async", std::string(asynchronous ? "on" : "off"));
  if (asynchronous) config.emplace_back("staleness", staleness.value_or(kDefaultStaleness));
  if (!straggler.empty()) config.emplace_back("straggler", straggler);
  return config;
}

std::unique_ptr<train::Technique> parameter_servers() {
  return std::make_unique<ParameterServers>();
}

std::unique_ptr<train::Worker> worker_with_servers(const train::Setup& setup,
                                                   const train::RunContext& context) {
  const auto* servers = setup.find<ParameterServers>();
  ensure(servers != nullptr, "a program without parameter servers");
  return parameter_server_worker(
      make_server_world(context.world, servers->options().settings(setup.train.dtype)), setup,
      context, memory::written_rule(setup.train.optimizer));
}

}  // namespace ultra::data_parallel
