#include "chapters/03_data_parallel/parameter_server/server_technique.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chapters/01_memory/written_parts.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/03_data_parallel/parameter_server/server_options.hpp"
#include "chapters/03_data_parallel/parameter_server/server_training.hpp"
#include "chapters/03_data_parallel/parameter_server/straggler.hpp"
#include "common/optim/adamw.hpp"

namespace ultra::data_parallel {
namespace {

class ParameterServers : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override { options_.add_to(app); }

  void validate(train::Setup& setup) override {
    options_.validate();
    train::expect_kept(exclusions(setup));
  }

  std::vector<train::Exclusion> exclusions(const train::Setup& setup) const override {
    std::vector<train::Exclusion> all;
    const auto exclude = [&](const char* flag, bool given, const char* reason) {
      all.push_back({.first = flag,
                     .second = "--sync parameter-server",
                     .reason = reason,
                     .broken = given && num_servers() > 0});
    };
    const char* of_servers =
        "the weights are the servers', which hold no model. Leave one of the two out.";
    exclude("--init", !setup.train.init.empty(), of_servers);
    exclude("--val-data", !setup.train.val_data.empty(), of_servers);
    for (const char* flag : kAllReduceFlags) {
      exclude(flag, options_of(setup).all_reduce_flag() == flag,
              "it belongs to replicas that add up their gradients themselves. Leave one of the two "
              "out.");
    }
    return all;
  }

  void validate_training(const train::Setup& setup) const override {
    options_.expect_straggler_among(setup.replicas());
  }

  train::ExtraConfig config(const train::Setup&) const override { return options_.config(); }

  std::pair<std::size_t, std::string> ranks_beside() const override {
    return {num_servers(), fmt::format("--servers {}", num_servers())};
  }

  void join(train::Ingredients& ingredients, const train::Setup&) const override {
    const auto slow = options_.slow_replica();
    if (!slow) return;
    ingredients.observers.emplace_back([slow = *slow](const train::ModelScope& scope) {
      return make_straggler(slow, scope.plan.mesh.along(kReplicaAxis));
    });
  }

  std::unique_ptr<train::Worker> make_worker(
      const train::RunContext& context, const train::Setup& setup,
      const train::MakeTrainer& make_trainer) const override {
    if (num_servers() == 0) return nullptr;
    const ServerWorld servers =
        make_server_world(context.world, options_.settings(setup.train.dtype));
    return parameter_server_worker(servers, context, make_trainer,
                                   optim::adamw({}, memory::written_adamw));
  }

  std::vector<train::UnsavedState> states_that_are_not_saved() const override {
    return {{.flag = "--sync parameter-server",
             .reason = "the servers' weights and moments would not be saved. Leave out "
                       "--checkpoint and --resume, or the servers.",
             .kept = num_servers() > 0}};
  }

  std::optional<std::string> memory_table(const train::Setup&,
                                          const train::TrainResult&) const override {
    // Replicas and servers keep different things: one closed form is neither's.
    if (num_servers() == 0) return {};
    return "";
  }

 private:
  [[nodiscard]] std::size_t num_servers() const { return options_.num_servers(); }

  ServerOptions options_;
};

}  // namespace

std::unique_ptr<train::Technique> parameter_servers() {
  return std::make_unique<ParameterServers>();
}

}  // namespace ultra::data_parallel
