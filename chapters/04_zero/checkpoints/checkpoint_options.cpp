#include "chapters/04_zero/checkpoints/checkpoint_options.hpp"

#include <fmt/format.h>

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

}  // namespace ultra::zero
