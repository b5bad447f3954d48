// What a rank keeps and sends in each precision, to the byte: the closed forms of ZeRO's stages with
// the bytes per parameter that the types have.
//
// Covers: chapters/04_zero/estimate/trained_shares.hpp
// Covers: chapters/01_memory/estimate/stored_formats.hpp

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chapters/04_zero/estimate/sharded_bytes.hpp"
#include "chapters/04_zero/estimate/trained_shares.hpp"
#include "tests/chapters/10_mixed_precision/precision_run.hpp"

namespace ultra::mixed_precision {
namespace {

using namespace mixed_precision::test;
using train::RankSummary;

/// A recipe and the bytes per parameter that books give for it.
struct Recipes {
  std::string flags;
  double parameters;
  double gradients;
  double optimizer;
};

const std::vector<Recipes> kRecipes = {
    {"--precision fp32", 4, 4, 8},
    {"--precision bf16", 2, 4, 12},                             // Megatron-LM's 18
    {"--precision bf16 --grad-dtype bf16", 2, 2, 12},           // ZeRO's 16
    {"--precision bf16 --master-weights off", 2, 4, 8},         // 14
    {"--precision bf16-pure", 2, 2, 8},                         // 12
    {"--precision bf16-pure --optimizer-state bf16", 2, 2, 4},  // 8
    {"--precision bf16 --grad-dtype bf16 --optimizer-state bf16", 2, 2, 8},
    {"--precision fp16", 2, 4, 12},
    {"--precision fp16 --grad-dtype f16", 2, 2, 12}};

class PrecisionMemory : public PrecisionTest {
 protected:
  /// Extents that all numbers of ranks divide: no flat array has padding.
  MeshCase without_padding(std::size_t dp, const std::string& flags, std::size_t stage) {
    MeshCase c = draw({.dp = dp}, flags);
    c.options.model.num_heads = c.options.model.num_kv_heads;
    c.options.model.hidden_size = c.options.model.num_heads * 24;
    c.options.model.ffn_hidden_size = 48;
    c.options.global_batch = dp * c.micro_batch;
    c.options.steps = 2;
    c.more = fmt::format("--zero {} --overlap none", stage);
    return c;
  }
};

std::size_t peak(const RankSummary& rank, MemoryCategory category) {
  return rank.memory.peak(category).bytes;
}

TEST_F(PrecisionMemory, BytesPerParameterAreThoseOfTheBooks) {
  for (const Recipes& recipe : kRecipes) {
    for (const std::size_t stage : {0U, 1U, 2U, 3U}) {
      const std::size_t dp = stage == 0 ? 1 : random.pick({2U, 4U});
      const MeshCase c = without_padding(dp, recipe.flags, stage);
      std::size_t parameters = 0;
      on_mesh(c.one_rank(), [&](Communicator& world) {
        const train::TrainResult one = train::train_with(c.one_rank().setup(), world);
        if (world.rank() == 0) parameters = one.parameters;
      });
      for (const RankSummary& rank : summaries(c)) {
        SCOPED_TRACE(c.str());
        const auto share = [&](double bytes, std::size_t from_stage) {
          const double all = bytes * static_cast<double>(parameters);
          return static_cast<std::size_t>(stage >= from_stage ? all / static_cast<double>(dp)
                                                              : all);
        };
        EXPECT_EQ(peak(rank, MemoryCategory::kParameters), share(recipe.parameters, 3));
        EXPECT_EQ(peak(rank, MemoryCategory::kGradients), share(recipe.gradients, 2));
        EXPECT_EQ(peak(rank, MemoryCategory::kOptimizer), share(recipe.optimizer, 1));
      }
    }
  }
}

TEST_F(PrecisionMemory, PredictionsHoldWithPaddingToo) {
  for (const std::size_t stage : {1U, 2U, 3U}) {
    for (int trial = 0; trial < 2; ++trial) {
      MeshCase c = draw({.dp = random.pick({2U, 3U})},
                        kRecipes[random.between(0, kRecipes.size() - 1)].flags);
      c.options.steps = 2;
      c.more = fmt::format("--zero {}", stage);
      const train::Setup setup = c.setup();
      zero::ShardedRun run = zero::zero_of(setup).sharded_run(setup);
      const std::size_t share = c.options.global_batch / c.axes.dp;
      run.micro_batches = ceil_div(share, c.micro_batch);
      for (const RankSummary& rank : summaries(c)) {
        SCOPED_TRACE(c.str());
        const zero::ShardedBytes predicted = zero::predict_bytes(
            run, rank.rank,
            *zero::zero_of(setup).options().algorithms(data_parallel::options_of(setup)));
        EXPECT_EQ(peak(rank, MemoryCategory::kParameters), predicted.parameters);
        EXPECT_EQ(peak(rank, MemoryCategory::kGradients), predicted.gradients);
        EXPECT_EQ(peak(rank, MemoryCategory::kOptimizer), predicted.optimizer);
        EXPECT_LE(peak(rank, MemoryCategory::kCommunication),
                  predicted.buffers + predicted.scratch);
        const std::size_t sent = rank.communication[OpKind::kReduceScatter].sent_bytes +
                                 rank.communication[OpKind::kAllGather].sent_bytes;
        EXPECT_EQ(sent, c.options.steps * zero::predict_sent(run, rank.rank).total);
      }
    }
  }
}

// Where moments are stored the master weights are too: the device holds a window of blocks.
TEST_F(PrecisionMemory, OffloadedStatesArePredicted) {
  for (const std::size_t stage : {1U, 2U, 3U}) {
    MeshCase c = draw({.dp = random.pick({1U, 2U, 3U})},
                      random.pick({"--precision bf16", "--precision fp16", "--precision bf16-pure",
                                   "--precision bf16 --master-weights off",
                                   "--precision bf16 --grad-dtype bf16", "--precision fp32"}));
    c.options.steps = 2;
    c.more = fmt::format("--zero {} --offload optimizer", stage);
    const train::Setup setup = c.setup();
    const zero::ShardedRun run = zero::zero_of(setup).sharded_run(setup);
    for (const RankSummary& rank : summaries(c)) {
      SCOPED_TRACE(c.str());
      const zero::ShardedBytes predicted = zero::predict_bytes(
          run, rank.rank,
          *zero::zero_of(setup).options().algorithms(data_parallel::options_of(setup)));
      EXPECT_EQ(peak(rank, MemoryCategory::kParameters), predicted.parameters);
      EXPECT_EQ(peak(rank, MemoryCategory::kOptimizer), predicted.optimizer);
      EXPECT_EQ(rank.offload.stored_bytes, predicted.stored);
    }
  }
}

// Everything that travels has two bytes: half of f32's volume, in every stage.
TEST_F(PrecisionMemory, WeightsAndGradientsInTwoBytesHalveWhatIsSent) {
  for (const std::size_t stage : {1U, 2U, 3U}) {
    const MeshCase half = without_padding(4, "--precision bf16 --grad-dtype bf16", stage);
    MeshCase full = half;
    full.model = "--precision fp32";
    const auto sent = [&](const MeshCase& c) {
      std::size_t bytes = 0;
      for (const RankSummary& rank : summaries(c)) {
        bytes += rank.communication[OpKind::kReduceScatter].sent_bytes +
                 rank.communication[OpKind::kAllGather].sent_bytes;
      }
      return bytes;
    };
    EXPECT_EQ(2 * sent(half), sent(full)) << half.str();
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
