#include "chapters/03_data_parallel/parameter_server/server_technique.hpp"

#include <optional>
#include <string>
#include <vector>

#include "chapters/01_memory/written_parts.hpp"
#include "chapters/03_data_parallel/batch_shares.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/03_data_parallel/gradient_completion.hpp"
#include "chapters/03_data_parallel/options/data_parallel_options.hpp"
#include "chapters/03_data_parallel/parameter_server/server_options.hpp"
#include "chapters/03_data_parallel/parameter_server/server_training.hpp"
#include "chapters/03_data_parallel/parameter_server/straggler.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/optim/rules.hpp"

namespace ultra::data_parallel {
namespace {

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
