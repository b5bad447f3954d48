// Parameters and activations of stages.
//
// Covers: chapters/11_five_d/planner/memory/stage_parameters.hpp, layout_memory.hpp
#include "chapters/11_five_d/planner/memory/stage_parameters.hpp"

#include <gtest/gtest.h>

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/11_five_d/planner/layout_memory.hpp"
#include "tests/support/random.hpp"

namespace ultra::planner {
namespace {

class StageParametersTest : public ultra::test::RandomTest {};

TEST_F(StageParametersTest, StagesAndRanksAddUpToTheModel) {
  for (const char* name : {"llama-8b", "llama-70b", "mixtral-8x7b", "megatron-22b"}) {
    const ModelShape& model = *find_model(name);
    for (int round = 0; round < 8; ++round) {
      const Layout layout{.dp = 8,
                          .pp = random.pick({1U, 2U, 4U, 8U}),
                          .tp = random.pick({1U, 2U, 4U, 8U}),
                          .ep = model.has_experts() ? random.pick({1U, 2U, 8U}) : 1};
      const auto blocks = blocks_of_stages(model, layout, find_software("modern"));
      double total = 0;
      for (std::size_t stage = 0; stage < layout.pp; ++stage) {
        const StageParameters held = stage_parameters(model, layout, blocks, stage);
        total += static_cast<double>(layout.tp) *
                 (held.others + static_cast<double>(layout.ep) * held.experts);
      }
      // Norms and biases are on every rank of tp, a tied table on two stages.
      const double table = static_cast<double>(model.shape().vocab_size) *
                           static_cast<double>(model.shape().hidden_size);
      double expected = parameters_of(model);
      if (model.shape().embeddings == memory::Embeddings::kTied && layout.pp > 1) {
        expected += table;
      }
      EXPECT_GE(total, 0.99999 * expected) << name << " " << layout.str();
      EXPECT_LE(total, 1.005 * expected) << name << " " << layout.str();
      if (layout.tp == 1) {
        EXPECT_EQ(total, expected) << name << " " << layout.str();
      }
    }
  }
}

TEST_F(StageParametersTest, TheOutputTableIsWhereTheLastPartIs) {
  using pipeline_parallel::ScheduleKind;
  for (const std::size_t pp : {1U, 2U, 5U}) {
    for (const ScheduleKind kind :
         {ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved, ScheduleKind::kZeroBubbleH1,
          ScheduleKind::kZbV, ScheduleKind::kDualPipeV}) {
      const Layout layout{.pp = pp, .schedule = {.kind = kind}};
      const auto placement = pipeline_parallel::placement_of(layout.schedule, pp);
      EXPECT_EQ(output_stage(layout), placement.at(placement.parts() - 1).stage)
          << layout.schedule.str() << " pp " << pp;
    }
  }
  // A V ends where it began: the first stage has both tables.
  const ModelShape& model = *find_model("llama-8b");
  const std::vector<std::size_t> blocks = {16, 16};
  const double table = 128256.0 * 4096;
  const auto others = [&](ScheduleKind kind, std::size_t stage) {
    return stage_parameters(model, {.pp = 2, .schedule = {.kind = kind}}, blocks, stage).others;
  };
  EXPECT_EQ(others(ScheduleKind::kZbV, 0) - others(ScheduleKind::kZbV, 1), 2 * table + 4096);
  EXPECT_EQ(others(ScheduleKind::kOneFOneB, 1) - others(ScheduleKind::kOneFOneB, 0), 4096);
}

TEST_F(StageParametersTest, BlocksWithExpertsComeLast) {
  const ModelShape& deepseek = *find_model("deepseek-v3");
  const std::vector<std::size_t> blocks = {2, 3, 56};
  EXPECT_EQ(expert_blocks(deepseek, blocks, 0), 0U);
  EXPECT_EQ(expert_blocks(deepseek, blocks, 1), 2U);
  EXPECT_EQ(expert_blocks(deepseek, blocks, 2), 56U);
}

TEST_F(StageParametersTest, KeptBytesAreKorthikantisEquations) {
  // Bytes per block: 34 s b h / t + 5 a s^2 b / t with sp; without scores the first term; 2 s b h / t.
  const Workload work{.model = *find_model("megatron-530b"), .seq_len = 2048, .global_batch = 1};
  const Layout layout{.tp = 8};
  const double sbh = 2048.0 * 20480;
  const double scores = 5.0 * 128 * 2048 * 2048;
  const Software& stored = find_software("megatron-2022");
  const Software& flash = find_software("modern");
  using memory::Recompute;
  EXPECT_EQ(kept_bytes(work, layout, stored, Recompute::kNone, false), (34 * sbh + scores) / 8);
  EXPECT_EQ(kept_bytes(work, layout, stored, Recompute::kSelective, false), 34 * sbh / 8);
  EXPECT_EQ(kept_bytes(work, layout, flash, Recompute::kNone, false), 34 * sbh / 8);
  EXPECT_EQ(kept_bytes(work, layout, stored, Recompute::kFull, false), 2 * sbh / 8);
}

TEST_F(StageParametersTest, EverySecondProductComputedAgain) {
  // torchtitan's selective recomputation. Of a token a block of Llama 3 8B keeps its input (4096),
  // queries (4096), values (1024), what attention puts out (4096), and the gate (14336), in bf16; keys,
  // and the network's other products, come again. What is not compiled keeps the last product (4096), too.
  const Workload work{.model = *find_model("llama-8b"), .seq_len = 8192, .global_batch = 1};
  const double elements = 4096 + 4096 + 1024 + 4096 + 14336;
  Software software = find_software("torchtitan");
  EXPECT_EQ(kept_bytes(work, {}, software, memory::Recompute::kSelective, false),
            2 * 8192 * elements);
  software.fused_elementwise = false;
  EXPECT_EQ(kept_bytes(work, {}, software, memory::Recompute::kSelective, false),
            2 * 8192 * (elements + 4096));
  EXPECT_GT(kept_bytes(work, {}, software, memory::Recompute::kNone, false), 2 * 8192 * elements);
}

TEST_F(StageParametersTest, InputsThatStayGathered) {
  // With sp a rank keeps a t-th of each gathered input; this program keeps the two of a block whole.
  const Workload work{.model = *find_model("llama-70b"), .seq_len = 8192, .global_batch = 1};
  for (const std::size_t tp : {2U, 8U}) {
    const Layout layout{.tp = tp};
    Software software = find_software("torchtitan");
    const double gathered = kept_bytes(work, layout, software, memory::Recompute::kNone, false);
    software.keeps_inputs_gathered = false;
    const double part = static_cast<double>(tp - 1) / static_cast<double>(tp);
    EXPECT_DOUBLE_EQ(gathered - kept_bytes(work, layout, software, memory::Recompute::kNone, false),
                     2 * 2 * 8192.0 * 8192 * part);
  }
}

TEST_F(StageParametersTest, WeightsThatAreTheirOwnMasters) {
  // ZeRO-3 over 64: bf16 shards beside fp32 masters are 2 of 18 bytes a parameter less, but the two
  // tables of 128256 x 4096 stay gathered, and beside them a first block in the pool that gathers:
  // elsewhere it is the output table alone, in the loss.
  const Question as_is{
      .work = {.model = *find_model("llama-8b"), .seq_len = 8192, .global_batch = 64},
      .cluster = *replay::find_cluster("h100-hbm2e"),
      .software = find_software("torchtitan")};
  Question apart = as_is;
  apart.software.weights_are_masters = false;
  const Layout layout{.dp = 64, .zero = zero::ZeroStage::kParameters};
  const StageMemory one = largest_stage(as_is, layout);
  const StageMemory two = largest_stage(apart, layout);
  EXPECT_EQ(one.parameters, 0);
  EXPECT_NEAR(two.parameters, 2 * 8.03e9 / 64, 1e6);
  EXPECT_EQ(one.optimizer, two.optimizer);
  const double block = 2 * 4096.0 * (4096 + 1024) + 3 * 4096.0 * 14336;
  EXPECT_EQ(one.transient - two.transient, 2 * (3 * 128256.0 * 4096 + block));
}

TEST_F(StageParametersTest, LogitsOfAllMicroBatches) {
  const Question question{
      .work = {.model = *find_model("llama-70b"), .seq_len = 8192, .global_batch = 32},
      .cluster = *replay::find_cluster("h100-hbm2e"),
      .software = find_software("torchtitan")};
  Question forgets = question;
  forgets.software.keeps_all_logits = false;
  const auto more = [&](std::size_t pp) {
    const Layout layout{.pp = pp,
                        .tp = 8,
                        .schedule = {.kind = pipeline_parallel::ScheduleKind::kAfab},
                        .recompute = memory::Recompute::kFull};
    return largest_stage(question, layout).activations - largest_stage(forgets, layout).activations;
  };
  // Of 32 micro-batches the last of four stages keeps bf16 logits; tp cuts the vocabulary.
  EXPECT_DOUBLE_EQ(more(4), 31 * 2 * 8192 * 128256.0 / 8);
  EXPECT_EQ(more(1), 0);
}

// PyTorch's cross_entropy going backward: log-probabilities, their gradient and that of the logits, in f32,
// and what bf16 logits leave; split over tp (loss_parallel) also the exponentials, and the input that tp
// has gathered, once more as it came. The norm before them keeps its input in f32.
TEST_F(StageParametersTest, LogitsInTheLoss) {
  const Workload work{.model = *find_model("llama-70b"), .seq_len = 8192, .global_batch = 1};
  const Software& software = find_software("torchtitan");
  const double tokens = 8192;
  const double norm = (4 + 2 * 2) * 8192 * tokens + 2 * tokens;
  EXPECT_DOUBLE_EQ(table_bytes(work, {}, software).head, norm + (3 * 4 + 2) * tokens * 128256);
  EXPECT_DOUBLE_EQ(
      table_bytes(work, {.tp = 8}, software).head,
      norm / 8 + (7.0 / 8 + 1) * 2 * 8192 * tokens + (4 * 4 + 2) * tokens * 128256 / 8);
  const Layout wide{.precision = memory::NumberFormats::kFp32};
  EXPECT_EQ(table_bytes(work, wide, software).loss, 0);
}

// PyTorch's pipeline stages: buffers for inputs and gradients of all micro-batches, their outputs, and
// gradients of the inputs that are through; inputs under way are what the first block keeps anyway.
TEST_F(StageParametersTest, BuffersOfEachMicroBatch) {
  const Question question{
      .work = {.model = *find_model("llama-70b"), .seq_len = 8192, .global_batch = 16},
      .cluster = *replay::find_cluster("h100-hbm2e"),
      .software = find_software("torchtitan")};
  Question without = question;
  without.software.receives_apart = false;
  const Layout layout{.pp = 4, .tp = 8};
  const auto blocks = blocks_of_stages(question.work.model, layout, question.software);
  const double message = 2.0 * 8192 * 8192 / 8;
  for (const auto& [stage, messages] :
       {std::pair{0U, 2 * 16}, {1U, 4 * 16 - 2 * 3}, {2U, 4 * 16 - 2 * 2}, {3U, 2 * 16 - 2}}) {
    EXPECT_DOUBLE_EQ(memory_of_stage(question, layout, blocks, stage).activations -
                         memory_of_stage(without, layout, blocks, stage).activations,
                     messages * message)
        << stage;
  }
}

// nanotron's replicas without ZeRO are in PyTorch's DistributedDataParallel.
TEST_F(StageParametersTest, BucketsBesideGradients) {
  const Question question{
      .work = {.model = *find_model("nanotron-1.34b"), .seq_len = 4096, .global_batch = 256},
      .cluster = *replay::find_cluster("h100-efa"),
      .software = find_software("nanotron")};
  const auto gradients = [&](std::size_t dp, zero::ZeroStage stage) {
    return largest_stage(question, {.dp = dp, .zero = stage}).gradients /
           parameters_of(question.work.model);
  };
  EXPECT_EQ(gradients(1, zero::ZeroStage::kNone), 4 + 2);
  EXPECT_EQ(gradients(4, zero::ZeroStage::kNone), 4 + 2 + 2);
  EXPECT_EQ(gradients(4, zero::ZeroStage::kOptimizer), 4 + 2);
}

TEST_F(StageParametersTest, MoreOfAnythingNeedsNoMoreMemory) {
  // Monotonic: sharding further, or recomputing more, never needs more states or activations.
  for (int round = 0; round < 40; ++round) {
    const Question question{
        .work = {.model = *find_model("llama-8b"), .seq_len = 8192, .global_batch = 256},
        .cluster = *replay::find_cluster("dgx-h100"),
        .software = find_software("modern")};
    Layout layout{.dp = random.pick({2U, 4U, 8U}),
                  .pp = random.pick({1U, 2U, 4U}),
                  .cp = random.pick({1U, 2U}),
                  .tp = random.pick({1U, 2U, 4U}),
                  .zero = random.pick({zero::ZeroStage::kNone, zero::ZeroStage::kOptimizer})};
    const auto tensors = [&](const Layout& one) {
      const StageMemory memory = largest_stage(question, one);
      return memory.parameters + memory.gradients + memory.optimizer + memory.activations;
    };
    const double before = tensors(layout);
    for (const auto& change : {+[](Layout& one) { one.dp *= 2; }, +[](Layout& one) { one.tp *= 2; },
                               +[](Layout& one) { one.cp *= 2; },
                               +[](Layout& one) { one.zero = zero::ZeroStage::kGradients; },
                               +[](Layout& one) { one.recompute = memory::Recompute::kFull; },
                               +[](Layout& one) { one.offload = true; }}) {
      Layout changed = layout;
      change(changed);
      EXPECT_LE(tensors(changed), before) << layout.str() << " -> " << changed.str();
    }
  }
}

}  // namespace
}  // namespace ultra::planner
