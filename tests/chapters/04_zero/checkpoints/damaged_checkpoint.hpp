#pragma once
/// @file
/// Checkpoints whose files a test changes.

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "tests/chapters/04_zero/checkpoints/checkpoint_program.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

/// @brief Two checkpoints of 4 ranks, of which the last is damaged.
class DamagedCheckpoint : public CheckpointProgramTest {
 protected:
  void SetUp() override {
    static_cast<void>(save_all(kThreeSteps, joined(kFourShards, {"--keep", "2"})));
    whole_ = tree_of(saved_step(3));
  }

  /// The files of a checkpoint of 4 ranks.
  [[nodiscard]] Words files() const {
    Words names;
    for (const auto& [name, text] : whole_) names.push_back(name);
    return names;
  }

  [[nodiscard]] const std::string& text_of(const std::string& file) const {
    return whole_.at(file);
  }

  /// A file that checksums of other files protect: the message can be about it and no other.
  static bool has_checksums(const std::string& file) {
    return file != "training.json" && !file.starts_with("parts-");
  }

  /// The last checkpoint with another text in one of its files is refused, whoever loads it.
  void refused_with(const std::string& file, const std::optional<std::string>& text,
                    Words parts = {}) {
    restore();
    const std::string path = saved_step(3) + "/" + file;
    std::filesystem::remove(path);
    if (text) disk.write("all/" + step_name(3) + "/" + file, *text);
    if (has_checksums(file)) parts.push_back(path);
    if (parts.empty()) parts.push_back(saved_step(3));
    expect_refused(parts);
  }

  void expect_refused(const Words& parts) {
    const auto before = tree_of(saved());
    failed(kSixSteps, 2, parts,
           {"--dp", std::to_string(random.between(1, 4)), "--zero",
            std::to_string(random.between(0, 3)), "--checkpoint", saved(), "--resume", saved()});
    EXPECT_TRUE(tree_of(saved()) == before) << "the folder has changed";
  }

  /// Puts the last checkpoint back as it was saved.
  void restore() const {
    std::filesystem::remove_all(saved_step(3));
    for (const auto& [name, text] : whole_) disk.write("all/" + step_name(3) + "/" + name, text);
  }

  /// The one before can be loaded, and the last one too when it is whole again.
  void expect_loads_when_whole() {
    const json expected = losses_of(kSixSteps, kFourShards);
    EXPECT_EQ(losses_of(kSixSteps, joined(kFourShards, {"--resume", saved_step(2)})), expected);
    restore();
    EXPECT_EQ(losses_of(kSixSteps, joined(kFourShards, {"--resume", saved()})), expected);
  }

 private:
  const Changes kThreeSteps = with(kSixSteps, "--steps", "3");
  std::map<std::string, std::string> whole_;
};

}  // namespace ultra::zero::test
