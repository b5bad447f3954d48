#include "chapters/03_data_parallel/parameter_server/server_technique.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "chapters/01_memory/written_parts.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/03_data_parallel/parameter_server/server_options.hpp"
#include "chapters/03_data_parallel/parameter_server/server_training.hpp"
#include "chapters/03_data_parallel/parameter_server/straggler.hpp"
#include "common/base/errors.hpp"

namespace ultra::data_parallel {
namespace {

class ParameterServers : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override { options_.add_to(app); }

  void validate(train::Setup& setup) override {
    options_.validate();
    if (num_servers() > 0) expect_replicas_only(setup.train);
    const std::string& flag = options_of(setup).all_reduce_flag();
    if (num_servers() == 0 || flag.empty()) return;
    throw ConfigError(fmt::format(
        "{} belongs to replicas that add up their gradients themselves, and has no meaning with "
        "--sync parameter-server. Leave one of the two out.",
        flag));
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
      return make_straggler(slow, scope.plan.mesh.dp());
    });
  }

  std::unique_ptr<train::Worker> make_worker(
      const train::RunContext& context, const train::Setup& setup,
      const train::MakeTrainer& make_trainer) const override {
    if (num_servers() == 0) return nullptr;
    const ServerWorld servers =
        make_server_world(context.world, options_.settings(setup.train.dtype));
    return parameter_server_worker(servers, context, make_trainer, memory::written_adamw);
  }

  std::optional<std::string> state_that_is_not_saved() const override {
    if (num_servers() == 0) return {};
    return "--sync parameter-server: the servers' weights and moments would not be saved. Leave "
           "out --checkpoint and --resume, or the servers.";
  }

  std::optional<std::string> memory_table(const train::Setup&,
                                          const train::TrainResult&) const override {
    // Replicas and servers keep different things: one closed form is neither's.
    if (num_servers() == 0) return {};
    return "";
  }

 private:
  static void expect_replicas_only(const train::TrainOptions& train) {
    const char* flag = !train.init.empty()       ? "--init"
                       : !train.val_data.empty() ? "--val-data"
                                                 : nullptr;
    if (flag == nullptr) return;
    throw ConfigError(fmt::format(
        "{} does not go together with --sync parameter-server: the weights are the servers', which "
        "hold no model. Leave one of the two out.",
        flag));
  }

  [[nodiscard]] std::size_t num_servers() const { return options_.num_servers(); }

  ServerOptions options_;
};

}  // namespace

std::unique_ptr<train::Technique> parameter_servers() {
  return std::make_unique<ParameterServers>();
}

}  // namespace ultra::data_parallel
