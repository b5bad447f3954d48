// What a rank keeps and sends in each precision, to the byte: ZeRO's stages with the bytes per
// parameter that the types have.

#include "tests/chapters/10_mixed_precision/precision_run.hpp"
#include "tests/support/toolbox.hpp"

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

// A scale at which nothing overflows: a run whose steps were all skipped has no moments yet.
const std::vector<Recipes> kPrecisionRecipes = {
    {"--precision fp32", 4, 4, 8},
    {"--precision bf16", 2, 4, 12},                             // Megatron-LM's 18
    {"--precision bf16 --grad-dtype bf16", 2, 2, 12},           // ZeRO's 16
    {"--precision bf16 --master-weights off", 2, 4, 8},         // 14
    {"--precision bf16-pure", 2, 2, 8},                         // 12
    {"--precision bf16-pure --optimizer-state bf16", 2, 2, 4},  // 8
    {"--precision bf16 --grad-dtype bf16 --optimizer-state bf16", 2, 2, 8},
    {"--precision fp16 --loss-scale 128", 2, 4, 12},
    {"--precision fp16 --loss-scale 128 --grad-dtype f16", 2, 2, 12}};

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
  for (const Recipes& recipe : kPrecisionRecipes) {
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

// Where moments are stored the master weights are too: the device holds a window of blocks.
TEST_F(PrecisionMemory, OffloadTakesWhatTheOptimizerKeeps) {
  for (const auto& [flags, bytes] :
       {std::pair{"--precision bf16", 12}, std::pair{"--precision bf16-pure", 8},
        std::pair{"--precision bf16 --master-weights off", 8}, std::pair{"--precision fp32", 8}}) {
    const MeshCase stays = without_padding(2, flags, 1);
    MeshCase goes = stays;
    goes.more += " --offload optimizer";
    const std::vector<RankSummary> before = summaries(stays);
    const std::vector<RankSummary> after = summaries(goes);
    for (std::size_t rank = 0; rank < before.size(); ++rank) {
      SCOPED_TRACE(goes.str());
      const std::size_t optimizer = peak(before[rank], MemoryCategory::kOptimizer);
      EXPECT_EQ(optimizer % static_cast<std::size_t>(bytes), 0U);
      EXPECT_EQ(after[rank].offload.stored_bytes, optimizer);
      EXPECT_LE(peak(after[rank], MemoryCategory::kOptimizer), optimizer);
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
