// Contract of exercise 11.1: the memory of a layout.
#include "chapters/11_five_d/planner/layout_memory.hpp"

#include "chapters/01_memory/memory_estimate.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using memory::NumberFormats;
using memory::Recompute;
using zero::ZeroStage;

constexpr const char* kStates = "Hint: states are shared by all ranks that hold the same weights.";
constexpr const char* kGradients =
    "Hint: of gradients the bytes count that precision and software keep: kept_gradient_bytes().";
constexpr const char* kExperts =
    "Hint: the ranks of ep hold different experts: fewer ranks share each one's states.";
constexpr const char* kFlight =
    "Hint: peak_activations_of() counts chunks; a chunk has 1 / v of the stage's blocks.";
constexpr const char* kTables =
    "Hint: the input table is on stage 0, the output table on the last.";
constexpr const char* kAgain =
    "Hint: while a block is computed again, all of it exists beside what the others keep.";
constexpr const char* kGathered =
    "Hint: with ZeRO-3 two blocks' weights are gathered: the one's that computes, and the next's.";

class LayoutMemoryTest : public ultra::test::RandomTest {
 protected:
  static Question question(const char* model, std::size_t seq, std::size_t batch) {
    return {.work = {.model = *find_model(model), .seq_len = seq, .global_batch = batch},
            .cluster = *replay::find_cluster("dgx-h100"),
            .software = find_software("modern")};
  }
  static StageMemory of(const Question& q, const Layout& layout, std::size_t stage) {
    return stage_memory(q, layout, blocks_of_stages(q.work.model, layout, q.software), stage);
  }
};

TEST_F(LayoutMemoryTest, OneGpuHoldsAllStates) {
  const Question q = question("llama-8b", 4096, 1);
  const Layout layout{.zero = ZeroStage::kNone, .precision = NumberFormats::kBf16Mixed};
  const double n = 8030261248.0;
  const StageMemory memory = of(q, layout, 0);
  EXPECT_DOUBLE_EQ(memory.parameters, 2 * n) << kStates;
  EXPECT_DOUBLE_EQ(memory.gradients, 2 * n) << kGradients;
  EXPECT_DOUBLE_EQ(memory.optimizer, 12 * n) << kStates;
}

TEST_F(LayoutMemoryTest, GradientsInThePrecisionsThatAreKept) {
  Question q = question("llama-8b", 4096, 8);
  const double n = 8030261248.0;
  Layout layout{.dp = 8, .zero = ZeroStage::kNone, .precision = NumberFormats::kBf16MixedFp32Grads};
  EXPECT_DOUBLE_EQ(of(q, layout, 0).gradients, 4 * n) << kGradients;
  layout.zero = ZeroStage::kGradients;
  EXPECT_NEAR(of(q, layout, 0).gradients, 4 * n / 8, 8) << kGradients;
  q.software.low_precision_gradients = true;
  layout.zero = ZeroStage::kNone;
  EXPECT_DOUBLE_EQ(of(q, layout, 0).gradients, 6 * n) << kGradients;
}

TEST_F(LayoutMemoryTest, ZeroSharesThePaperBytes) {
  // Table 1: 7.5 billion parameters on 64 ranks, 31.4, 16.6 and 1.88 GB; Llama's 8 in proportion.
  const Question q = question("llama-8b", 4096, 64);
  const double n = 8030261248.0;
  Layout layout{.dp = 64, .precision = NumberFormats::kBf16Mixed};
  const auto states = [&](ZeroStage stage) {
    layout.zero = stage;
    const StageMemory memory = of(q, layout, 0);
    return (memory.parameters + memory.gradients + memory.optimizer) / n;
  };
  EXPECT_NEAR(states(ZeroStage::kOptimizer), 4 + 12.0 / 64, 1e-9) << kStates;
  EXPECT_NEAR(states(ZeroStage::kGradients), 2 + 14.0 / 64, 1e-9) << kStates;
  EXPECT_NEAR(states(ZeroStage::kParameters), 16.0 / 64, 1e-9) << kStates;
}

TEST_F(LayoutMemoryTest, EachGroupOfReplicasHoldsACopy) {
  const Question q = question("llama-8b", 4096, 64);
  const std::size_t copies = random.pick({2U, 4U, 8U});
  const StageMemory in_groups = of(q, {.dp = 64, .copies = copies}, 0);
  const StageMemory of_all = of(q, {.dp = 64 / copies}, 0);
  EXPECT_DOUBLE_EQ(in_groups.optimizer, of_all.optimizer)
      << kStates << " Layout::copies groups share nothing with each other.";
}

TEST_F(LayoutMemoryTest, SequencesSharedShareStatesToo) {
  const Question q = question("llama-8b", 32768, 16);
  const StageMemory data = of(q, {.dp = 8}, 0);
  const StageMemory both = of(q, {.dp = 2, .cp = 4}, 0);
  EXPECT_DOUBLE_EQ(data.optimizer, both.optimizer) << kStates;
}

TEST_F(LayoutMemoryTest, ExpertsAreSharedByFewer) {
  const Question q = question("mixtral-8x7b", 4096, 64);
  const Layout one{.dp = 16};
  const Layout split{.dp = 16, .ep = 8};
  const auto counts = expert_parallel::parameter_counts(q.work.model.layers);
  const auto routed = static_cast<double>(counts.routed);
  const double others = static_cast<double>(counts.total) - routed;
  EXPECT_NEAR(of(q, one, 0).parameters, 2 * (routed + others), 1) << kExperts;
  EXPECT_NEAR(of(q, split, 0).parameters, 2 * (routed / 8 + others), 1) << kExperts;
  // An eighth of the experts over an eighth of the ranks: as many bytes.
  EXPECT_NEAR(of(q, split, 0).optimizer, of(q, one, 0).optimizer, 16) << kExperts;
}

TEST_F(LayoutMemoryTest, ActivationsUnderWayAsKorthikantiCountsThem) {
  // Equation 4 without scores: 34 s b h / t a block; the first stage holds all blocks' worth.
  Question q = question("megatron-175b", 2048, 64);
  q.software = find_software("megatron-2022");
  Layout layout{.pp = 8, .tp = 8, .zero = ZeroStage::kNone, .recompute = Recompute::kSelective};
  const double block = 34.0 * 2048 * 12288 / 8;
  const double embedding = 2048.0 * 12288 / 8;
  EXPECT_NEAR(of(q, layout, 0).activations, 96 * block + 8 * embedding, 1) << kFlight;
  EXPECT_NEAR(of(q, layout, 3).activations, (8 - 3) * 12 * block, 1) << kFlight << kTables;
  // Interleaved: 1 + (p - 1) / (p v) times as much.
  layout.schedule = {.kind = pipeline_parallel::ScheduleKind::kInterleaved,
                     .interleaved_chunks = 3};
  const double more = 1 + 7.0 / 24;
  EXPECT_NEAR(of(q, layout, 0).activations / (96 * block + 8 * embedding), more, 1e-9) << kFlight;
}

TEST_F(LayoutMemoryTest, OneBlockIsComputedAgain) {
  const Question q = question("llama-8b", 4096, 4);
  const StageMemory none = of(q, {}, 0);
  const StageMemory full = of(q, {.recompute = Recompute::kFull}, 0);
  EXPECT_DOUBLE_EQ(none.transient, 0) << kAgain;
  const double input = 2.0 * 4096 * 4096;
  const double whole = kept_bytes(q.work, {}, q.software, Recompute::kNone, false);
  EXPECT_DOUBLE_EQ(full.transient, whole - input) << kAgain;
  EXPECT_DOUBLE_EQ(none.activations - full.activations, 32 * (whole - input)) << kAgain;
  const TableBytes tables = table_bytes(q.work, {}, q.software);
  EXPECT_DOUBLE_EQ(none.activations, 32 * whole + tables.embedding + tables.head) << kTables;
}

TEST_F(LayoutMemoryTest, BlocksWithExpertsKeepOtherBytes) {
  const Question q = question("deepseek-v3", 4096, 2);  // 3 blocks of 61 have no experts
  const Layout layout{.pp = 2, .recompute = Recompute::kFull};
  const auto kept = [&](Recompute mode, bool experts) {
    return kept_bytes(q.work, layout, q.software, mode, experts);
  };
  const double dense = kept(Recompute::kNone, false) - kept(Recompute::kFull, false);
  const double experts = kept(Recompute::kNone, true) - kept(Recompute::kFull, true);
  const TableBytes tables = table_bytes(q.work, layout, q.software);
  for (const std::size_t blocks : {1U, 2U, 3U, 4U, 20U}) {
    const StageMemory memory = stage_memory(q, layout, {blocks, 61 - blocks}, 0);
    const double without = static_cast<double>(std::min<std::size_t>(blocks, 3));
    const double with = static_cast<double>(blocks) - without;
    EXPECT_NEAR(memory.activations / 2,
                without * kept(Recompute::kFull, false) + with * kept(Recompute::kFull, true) +
                    tables.embedding,
                1)
        << "Hint: expert_blocks() of the stage's blocks keep what blocks with experts keep.";
    EXPECT_DOUBLE_EQ(memory.transient, with > 0 ? std::max(dense, experts) : dense) << kAgain;
    const StageMemory last = stage_memory(q, layout, {blocks, 61 - blocks}, 1);
    EXPECT_DOUBLE_EQ(last.transient, without < 3 ? std::max(dense, experts) : experts) << kAgain;
  }
}

TEST_F(LayoutMemoryTest, GatheredWeightsAndOffloadedStates) {
  const Question q = question("llama-8b", 4096, 8);
  Layout layout{.dp = 8, .zero = ZeroStage::kParameters};
  EXPECT_NEAR(of(q, layout, 0).transient, 2 * 2 * 8030261248.0 / 32, 1) << kGathered;
  layout.pp = 2;
  EXPECT_EQ(stage_memory(q, layout, {32, 0}, 1).transient, 0)
      << "Hint: a stage may have no block, but a table: nothing is gathered for blocks then.";
  const double one = stage_parameters(q.work.model, layout, {31, 1}, 1).total();
  EXPECT_NEAR(stage_memory(q, layout, {31, 1}, 1).transient, 2 * 2 * one, 1) << kGathered;
  layout.pp = 1;
  const double gathered = of(q, layout, 0).transient;
  layout.recompute = Recompute::kFull;
  EXPECT_NEAR(of(q, layout, 0).transient,
              gathered + of(q, {.dp = 8, .recompute = Recompute::kFull}, 0).transient, 1)
      << "Hint: the gathered weights are there beside the block that is computed again.";
  layout.offload = true;
  EXPECT_EQ(of(q, layout, 0).optimizer, 0) << "Hint: offloaded states take no byte of the GPU.";
}

TEST_F(LayoutMemoryTest, TablesAreOnTheOutermostStages) {
  const Question q = question("llama-8b", 4096, 16);
  const Layout layout{.pp = 4, .zero = ZeroStage::kNone};
  Question even = q;
  even.software.balances_stages = false;
  const double table = 128256.0 * 4096;
  const double blocks = (8030261248.0 - 2 * table - 4096) / 4;
  EXPECT_NEAR(of(even, layout, 0).parameters, 2 * (blocks + table), 1) << kTables;
  EXPECT_NEAR(of(even, layout, 1).parameters, 2 * blocks, 1) << kTables;
  EXPECT_NEAR(of(even, layout, 3).parameters, 2 * (blocks + table + 4096), 1) << kTables;
}

TEST_F(LayoutMemoryTest, OverheadIsCountedLast) {
  const Question q = question("llama-8b", 4096, 16);
  const Layout layout{.dp = 2, .pp = 2, .tp = 2, .recompute = Recompute::kFull};
  const StageMemory memory = of(q, layout, 0);
  EXPECT_GT(memory.overhead, 0) << "Hint: overhead_bytes() says what no tensor accounts for.";
  EXPECT_DOUBLE_EQ(memory.overhead, overhead_bytes(q.software, memory, 3))
      << "Hint: overhead_bytes() wants all activations and transient bytes, and three groups.";
}

}  // namespace
}  // namespace ultra::planner
