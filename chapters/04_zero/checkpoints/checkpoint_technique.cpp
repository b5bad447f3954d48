#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "common/base/errors.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::zero {

void CheckpointOptions::add_to(CLI::App& app) {
  const train::Flags flags(app, "Checkpoints");
  flags.add("--checkpoint", folder,
            "folder to save the training's state in, so that it can go on later");
  flags.add("--save-every", save_every, "save it after so many steps, and at the end [the end]", {},
            train::ShowDefault::kNo);
  flags.add("--keep", keep, "checkpoints that stay, the newest ones [all]", {},
            train::ShowDefault::kNo);
  flags.add("--resume", resume,
            "go on from the newest checkpoint in this folder, or from the one that it is");
  train::when_given(app, "--save-every", [this] { save_every_given_ = true; });
  train::when_given(app, "--keep", [this] { keep_given_ = true; });
}

void CheckpointOptions::validate() const {
  const auto expect = [&](bool given, const char* flag, std::size_t value) {
    if (!given) return;
    if (folder.empty()) {
      throw ConfigError(fmt::format("{} has no meaning without --checkpoint DIR.", flag));
    }
    if (value == 0) {
      throw ConfigError(fmt::format("{} must be at least 1, found 0. Leave it out instead.", flag));
    }
  };
  expect(save_every_given_, "--save-every", save_every);
  expect(keep_given_, "--keep", keep);
}

train::ExtraConfig CheckpointOptions::config() const {
  if (!used()) return {};
  return {{"checkpoint", folder}, {"save_every", save_every}, {"keep", keep}, {"resume", resume}};
}

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

  std::vector<train::Conflict> conflicts(const train::Setup& setup) const override {
    std::vector<train::Conflict> all;
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
