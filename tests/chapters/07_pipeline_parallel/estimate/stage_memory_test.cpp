#include "chapters/07_pipeline_parallel/estimate/stage_memory.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"

namespace ultra::pipeline_parallel {
namespace {

constexpr std::size_t kTokens = 4096;

/// Llama with 8 billion parameters on four stages, its numbers in two bytes.
StagedModel llama_8b(const char* schedule) {
  const std::vector<std::size_t> layers(placement_of(parse_schedule_choice(schedule), 4).parts(),
                                        8);
  StagedModel model{.shape = memory::find_preset("llama-8b"),
                    .parts = parts_of_model(layers),
                    .precision = memory::NumberFormats::kBf16Mixed,
                    .recompute = {},
                    .share = {}};
  model.share.layout.seq_len = kTokens;
  return model;
}

double gigabytes(const char* schedule, std::size_t stage) {
  const PipelineSchedule list = make_schedule(parse_schedule_choice(schedule), 4, 8);
  const std::vector<std::size_t> sequences(8, 1);
  return static_cast<double>(peak_activation_bytes(llama_8b(schedule), list, stage, sequences)) /
         1e9;
}

// h 4,096, k 1,024, f 14,336: inputs 3 h + f = 26,624 numbers for a token, gradients of outputs
// 3 h + 2 k + 2 f = 43,008. The forward pass kept 69,666: nothing to speak of is released by B.
TEST(StageMemory, ABlockWaitsForWWithAllThatItsForwardPassKept) {
  const BlockActivations block = block_activations(llama_8b("zero-bubble-h1"), 1);
  const std::size_t norms = 2 * 2 * std::size_t{4096};  // gradients of their weights
  EXPECT_EQ(block.waiting, 2 * kTokens * 26'624);
  EXPECT_EQ(block.deferred, 2 * kTokens * 43'008 + norms);
  EXPECT_EQ(block.kept, 2 * kTokens * 69'666);
}

// Four micro-batches in eight blocks on each stage of ZB-H1, where 1F1B's last stage has one.
TEST(StageMemory, OfZeroBubbleH1IsAsMuchOnEveryStage) {
  const double blocks = 4 * 8 * 2 * kTokens * 69'632 / 1e9;
  for (const std::size_t stage : {1U, 2U}) {
    EXPECT_NEAR(gigabytes("zero-bubble-h1", stage), blocks, 0.02 * blocks) << "stage " << stage;
  }
  EXPECT_GT(gigabytes("zero-bubble-h1", 3), blocks);
  EXPECT_LT(gigabytes("1f1b", 3), 0.4 * blocks);
}

}  // namespace
}  // namespace ultra::pipeline_parallel
