#pragma once
/// @file
/// Damaged texts of a checkpoint's JSON files for the fuzz target of tests/fuzz/.

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "common/checkpoint/models/config_json.hpp"
#include "tests/fuzz/checkpoint_json_fuzz.hpp"
#include "tests/support/files/file_mutations.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

/// @brief Random texts of each kind, and changes of them.
class CheckpointJsonFuzz : public RandomTest {
 protected:
  std::string random_parts() {
    std::vector<WrittenPart> parts(random.between(0, 3));
    for (WrittenPart& part : parts) {
      part = {.file = random.pick<const char*>({kWeightsFile, kConfigFile, "", "\x1b\"\\\xC3\xA9"}),
              .offset = random.between(0, 1000),
              .bytes = random.between(0, 1000),
              .crc32 = static_cast<std::uint32_t>(random.between(0, 0xffffffff))};
    }
    return to_json(parts);
  }

  std::string random_record() {
    TrainingRecord record{.identity = {.model = random_model(), .data = "a text"},
                          .settings = {.steps = 20, .learning_rate = 3e-3, .warmup = 4},
                          .steps = {},
                          .optimizer_steps = static_cast<int>(random.between(0, 9)),
                          .writers = static_cast<int>(random.between(1, 9))};
    const std::size_t steps = random.between(1, 3);
    for (std::size_t step = 1; step <= steps; ++step) {
      record.steps.push_back({step, random.uniform(0, 9), random.uniform(0, 9), 1e-3, 1e4});
    }
    return to_json(record);
  }

  std::string random_config() { return checkpoint::model_config_json(random_model(), DType::kF32); }

  /// Texts with some changes: refused, or consistent.
  void expect_refused_or_consistent(int rounds, const std::function<std::string()>& draw,
                                    bool (*accepts)(const std::string&)) {
    std::vector<std::string> good(64);
    for (std::string& text : good) {
      text = draw();
      ASSERT_TRUE(accepts(text)) << text;
    }
    int accepted = 0;
    for (int round = 0; round < rounds; ++round) {
      std::string text = good[random.between(0, good.size() - 1)];
      for (std::size_t changes = random.between(1, 4); changes > 0; --changes) {
        mutate(random, text);
      }
      ASSERT_NO_THROW(accepted += accepts(text) ? 1 : 0) << "round " << round << ": " << text;
    }
    EXPECT_GT(accepted, rounds / 100) << "no change is harmless: the changes are too coarse";
    EXPECT_LT(accepted, rounds / 2) << "hardly any change does harm: they are too fine";
  }

  void expect_of_every_kind(int rounds) {
    const auto expect = [&](const char* kind, auto draw, bool (*accepts)(const std::string&)) {
      SCOPED_TRACE(kind);
      expect_refused_or_consistent(
          rounds, [&] { return (this->*draw)(); }, accepts);
    };
    expect("parts", &CheckpointJsonFuzz::random_parts, accepts_parts);
    expect("training.json", &CheckpointJsonFuzz::random_record, accepts_record);
    expect("config.json", &CheckpointJsonFuzz::random_config, accepts_config);
  }

 private:
  nn::ModelConfig random_model() {
    return {.hidden_size = 8 * random.between(1, 99), .num_layers = random.between(1, 99)};
  }
};

}  // namespace ultra::zero::test
