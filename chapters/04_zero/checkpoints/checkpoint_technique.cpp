#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "common/base/errors.hpp"

namespace ultra::zero {
namespace {

class Checkpoints : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override { options_.add_to(app); }

  void validate(train::Setup& setup) override {
    options_.validate();
    if (!options_.used()) return;
    for (const auto& technique : setup.techniques) {
      for (const train::UnsavedState& state : technique->states_that_are_not_saved()) {
        if (!state.kept) continue;
        throw ConfigError(
            fmt::format("checkpoints do not go together with {}: {}", state.flag, state.reason));
      }
    }
  }

  std::vector<train::Exclusion> exclusions(const train::Setup& setup) const override {
    std::vector<train::Exclusion> all;
    for (const auto& technique : setup.techniques) {
      for (const train::UnsavedState& state : technique->states_that_are_not_saved()) {
        all.push_back({.first = "--checkpoint",
                       .second = state.flag,
                       .reason = state.reason,
                       .broken = options_.used() && state.kept});
      }
    }
    return all;
  }

  std::vector<train::FileFlag> files() const override {
    std::vector<train::FileFlag> named;
    if (!options_.folder.empty()) {
      named.push_back({"--checkpoint", options_.folder, train::FileUse::kFolder});
    }
    if (!options_.resume.empty()) {
      named.push_back({"--resume", options_.resume, train::FileUse::kRead});
    }
    return named;
  }

  train::ExtraConfig config(const train::Setup&) const override { return options_.config(); }

  std::unique_ptr<train::Worker> wrap_worker(std::unique_ptr<train::Worker> worker,
                                             const train::TrainerState& trainer,
                                             const train::Setup& setup) const override {
    if (!options_.used()) return worker;
    return with_checkpoints(std::move(worker), trainer, setup.identity(), options_,
                            checkpoint::posix_files());
  }

 private:
  CheckpointOptions options_;
};

}  // namespace

std::unique_ptr<train::Technique> checkpoints() { return std::make_unique<Checkpoints>(); }

}  // namespace ultra::zero
