#pragma once
/// @file
/// Runs of the executable 04_zero that save and load checkpoints.

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

using nlohmann::json;

/// @brief Three sequences at most on 3 ranks, one on 8; a model of few thousand weights.
inline const Changes kSixSteps = {
    {"--steps", "6"},    {"--global-batch", "8"}, {"--micro-batch", "2"},
    {"--layers", "1"},   {"--hidden", "8"},       {"--heads", "4"},
    {"--kv-heads", "2"}, {"--ffn", "12"},         {"--dtype", "f64"}};

/// @brief A layout whose checkpoints have several writers.
inline const Words kFourShards = {"--dp", "4", "--zero", "3"};

/// @brief Changes with one more.
inline Changes with(Changes changes, const std::string& flag, const std::string& value) {
  changes[flag] = value;
  return changes;
}

/// @brief "step-00000007".
inline std::string step_name(std::size_t step) { return fmt::format("step-{:08}", step); }

/// @brief All files below a folder: their paths in it, and what they hold.
inline std::map<std::string, std::string> tree_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::string text(entry.file_size(), '\0');
    std::ifstream(entry.path()).read(text.data(), static_cast<std::streamsize>(text.size()));
    files[entry.path().lexically_relative(folder).string()] = std::move(text);
  }
  return files;
}

inline void copy_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::create_directories(to.parent_path());
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

/// @brief Runs with checkpoints in a folder of their own, and random draws.
class CheckpointProgramTest : public ProgramTest {
 protected:
  CheckpointProgramTest() : ProgramTest("04_zero") {}

  /// The path of a name in the folder for checkpoints.
  [[nodiscard]] std::string saved(const std::string& name = "all") const { return disk.path(name); }

  [[nodiscard]] std::string saved_step(std::size_t step, const std::string& name = "all") const {
    return saved(name) + "/" + step_name(step);
  }

  /// Names in a folder for checkpoints; hidden ones too.
  [[nodiscard]] Words names(const std::string& name = "all") const {
    Words found;
    for (const auto& entry : std::filesystem::directory_iterator(saved(name))) {
      found.push_back(entry.path().filename().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  /// A run that saves after every step; its losses.
  [[nodiscard]] json save_all(const Changes& base, const Words& layout,
                              const std::string& name = "all") const {
    return losses_of(base, joined(layout, {"--checkpoint", saved(name), "--save-every", "1"}));
  }

  [[nodiscard]] json losses_of(const Changes& base, const Words& flags) const {
    const json losses = summary_of(base, flags).at("losses");
    std::filesystem::remove(folder.path("metrics.jsonl"));
    return losses;
  }

  std::uint64_t seed = seed_of_this_run();
  Random random{seed};
  TemporaryFolder disk;

 private:
  ::testing::ScopedTrace trace_{
      __FILE__, __LINE__, fmt::format("seed {0}; ULTRA_TEST_SEED={0} repeats this run", seed)};
};

}  // namespace ultra::zero::test
