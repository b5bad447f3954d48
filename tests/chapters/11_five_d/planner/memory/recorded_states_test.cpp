// States of all ranks as a plan has them, to the byte those of recorded steps: of every rule, with frozen
// weights, on every stage of ZeRO, with tp and pp.
//
// Covers: chapters/11_five_d/planner/layout_memory.hpp, model/frozen_weights.hpp

#include <fmt/ranges.h>

#include "chapters/11_five_d/five_d.hpp"
#include "chapters/11_five_d/planner/layout_memory.hpp"
#include "common/train/elsewhere/record_step.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using memory::NumberFormats;
using zero::ZeroStage;

struct StatesCase {
  Question question;
  Layout layout;
  std::string flags;
};

class RecordedStates : public ultra::test::RandomTest {
 protected:
  /// A model that no shard has to pad.
  StatesCase draw() {
    const std::size_t dp = random.pick({1U, 2U, 4U});
    const std::size_t pp = random.pick({1U, 2U});
    const std::size_t tp = random.pick({1U, 2U, 4U});
    const std::size_t heads = 4 * random.between(1, 2);
    const std::size_t kv_heads = random.pick({2U, 4U});
    const std::size_t blocks = random.between(1, 3);
    const NumberFormats formats = random.pick(
        {NumberFormats::kFp32, NumberFormats::kFp64, NumberFormats::kBf16MixedFp32Grads});
    const ZeroStage zero = dp == 1 ? ZeroStage::kNone
                                   : random.pick({ZeroStage::kNone, ZeroStage::kOptimizer,
                                                  ZeroStage::kGradients, ZeroStage::kParameters});
    StatesCase one{
        .question = {.work = {.model = dense_model({.name = "drawn",
                                                    .num_layers = blocks * pp,
                                                    .hidden_size = 8 * heads,
                                                    .num_heads = heads,
                                                    .num_kv_heads = kv_heads,
                                                    .ffn_hidden_size = 16 * random.between(1, 4),
                                                    .vocab_size = 256}),
                              .seq_len = 16,
                              .global_batch = 4 * dp},
                     .cluster = *replay::find_cluster("dgx-h100"),
                     .software = find_software("workbook")},
        .layout = {.dp = dp, .pp = pp, .tp = tp, .zero = zero, .precision = formats},
        .flags = {}};
    Workload& work = one.question.work;
    work.optimizer = random.pick<std::string>({"adamw", "sgd", "muon"});
    const std::vector<std::vector<std::string>> patterns = {
        {}, {"embed_tokens"}, {"model.layers.0."}, {"norm", "k_proj"}, {"lm_head", "down_proj"}};
    const auto& frozen = patterns[random.between(0, patterns.size() - 1)];
    work.model.frozen = frozen_weights(work.model, frozen);
    const memory::TransformerShape& s = work.model.shape();
    one.flags = fmt::format(
        "--layers {} --hidden {} --heads {} --kv-heads {} --ffn {} --vocab 256 --seq 16 "
        "--global-batch {} --micro-batch 1 --dp {} --pp {} --tp {} --zero {} --optimizer {} "
        "--stage-split {} {} --on dgx-h100",
        s.num_layers, s.hidden_size, s.num_heads, s.num_kv_heads, s.ffn_hidden_size,
        work.global_batch, dp, pp, tp, zero::number_of(zero), work.optimizer,
        fmt::join(std::vector(pp, blocks), ","),
        formats == NumberFormats::kFp32   ? "--dtype f32"
        : formats == NumberFormats::kFp64 ? "--dtype f64"
                                          : "--precision bf16");
    if (pp == 1) one.flags.replace(one.flags.find("--stage-split"), 15, "");
    if (!frozen.empty()) one.flags += fmt::format(" --freeze {}", fmt::join(frozen, ","));
    if (!frozen.empty() && zero == ZeroStage::kParameters) one.flags += " --shards rows";
    return one;
  }
};

TEST_F(RecordedStates, OfAllRanksAreThoseOfThePlan) {
  for (int trial = 0; trial < 40; ++trial) {
    const StatesCase one = draw();
    SCOPED_TRACE(one.flags);
    const train::Setup setup =
        train::parse_setup(five_d::techniques(), ultra::test::words_of(one.flags));
    double parameters = 0;
    double gradients = 0;
    double states = 0;
    const Layout& layout = one.layout;
    for (std::size_t rank = 0; rank < layout.gpus(); ++rank) {
      const auto recorded = train::record_step(setup, static_cast<int>(rank));
      const auto peak = [&](MemoryCategory category) {
        return static_cast<double>(recorded.memory.peak(category).bytes);
      };
      parameters += peak(MemoryCategory::kParameters);
      gradients += peak(MemoryCategory::kGradients);
      states += peak(MemoryCategory::kOptimizer);
    }
    StageMemory planned;
    const auto blocks = blocks_of_stages(one.question.work.model, layout, one.question.software);
    for (std::size_t stage = 0; stage < layout.pp; ++stage) {
      const StageMemory memory = memory_of_stage(one.question, layout, blocks, stage);
      const auto ranks = static_cast<double>(layout.dp * layout.tp);
      planned.parameters += ranks * memory.parameters;
      planned.gradients += ranks * memory.gradients;
      planned.optimizer += ranks * memory.optimizer;
    }
    EXPECT_EQ(parameters, planned.parameters);
    EXPECT_EQ(states, planned.optimizer);
    // ZeRO-2 has a group on its way beside its shard.
    if (layout.zero == ZeroStage::kGradients) {
      EXPECT_GE(gradients, planned.gradients);
    } else {
      EXPECT_EQ(gradients, planned.gradients);
    }
  }
}

// Where little else is there, a step of Muon is the moment that needs most: its exchanges.
TEST_F(RecordedStates, WholeMatricesTakeWhatIsPlanned) {
  for (const auto& [dp, tp] : {std::pair{8U, 8U}, {64U, 1U}, {1U, 8U}}) {
    Question question{
        .work = {.model = *find_model("llama-8b"), .seq_len = 1024, .global_batch = 64},
        .cluster = *replay::find_cluster("dgx-h100"),
        .software = find_software("workbook")};
    question.work.optimizer = "muon";
    const Layout layout{.dp = dp,
                        .tp = tp,
                        .zero = dp > 1 ? ZeroStage::kOptimizer : ZeroStage::kNone,
                        .recompute = memory::Recompute::kFull};
    const train::Setup setup =
        train::parse_setup(five_d::techniques(),
                           ultra::test::words_of(fmt::format(
                               "--model llama-8b --seq 1024 --global-batch 64 --micro-batch 1 "
                               "--recompute full --dp {} "
                               "--tp {} --zero {} --precision bf16 --optimizer muon --on dgx-h100",
                               dp, tp, dp > 1 ? 1 : 0)));
    const auto recorded = train::record_step(setup, 0);
    const double planned = largest_stage(question, layout).total();
    EXPECT_NEAR(static_cast<double>(recorded.memory.peak_total().bytes) / planned, 1, 0.03)
        << layout.str();
    question.work.optimizer = "adamw";
    EXPECT_GT(planned, largest_stage(question, layout).total());
  }
}

// The moment that decides is the loss, or the output table behind it, or a block that is computed again;
// of gradients on their way some are whole then.
TEST_F(RecordedStates, TheWorstMomentIsAsPlanned) {
  for (int trial = 0; trial < 12; ++trial) {
    const Question question{
        .work = {.model = *find_model("llama-8b"), .seq_len = 4096, .global_batch = 64},
        .cluster = *replay::find_cluster("dgx-h100"),
        .software = find_software("workbook")};
    const Layout layout{
        .dp = random.pick({4U, 8U, 16U}),
        .tp = random.pick({1U, 2U, 4U}),
        .zero = random.pick({ZeroStage::kNone, ZeroStage::kOptimizer, ZeroStage::kGradients,
                             ZeroStage::kParameters}),
        .micro_batch = random.pick({1U, 2U}),
        .recompute = random.pick({memory::Recompute::kNone, memory::Recompute::kFull})};
    const std::string flags = fmt::format(
        "--model llama-8b --seq 4096 --global-batch 64 --micro-batch {} --dp {} --tp {} --zero {} "
        "--recompute {} --precision bf16 --on dgx-h100{}",
        layout.micro_batch, layout.dp, layout.tp, zero::number_of(layout.zero),
        layout.recompute == memory::Recompute::kFull ? "full" : "none",
        layout.tp > 1 ? " --sp on" : "");
    const train::Setup setup =
        train::parse_setup(five_d::techniques(), ultra::test::words_of(flags));
    const auto recorded = train::record_step(setup, 0);
    EXPECT_NEAR(static_cast<double>(recorded.memory.peak_total().bytes) /
                    largest_stage(question, layout).total(),
                1, 0.03)
        << flags;
  }
}

// torchtitan keeps f32 weights and no others: those that are frozen are still there.
TEST_F(RecordedStates, FrozenWeightsThatAreTheirOwnMasters) {
  Question question{.work = {.model = *find_model("llama-8b"), .seq_len = 8192, .global_batch = 64},
                    .cluster = *replay::find_cluster("dgx-h100"),
                    .software = find_software("torchtitan")};
  const Layout layout{.dp = 64, .zero = ZeroStage::kParameters};
  const StageMemory all = largest_stage(question, layout);
  question.work.model.frozen = frozen_weights(question.work.model, {"mlp"});
  const StageMemory some = largest_stage(question, layout);
  const double frozen = 32 * 3 * 4096.0 * 14336 / 64;
  EXPECT_DOUBLE_EQ(all.gradients - some.gradients, 4 * frozen);
  EXPECT_DOUBLE_EQ(all.optimizer - some.optimizer, 12 * frozen);
  EXPECT_DOUBLE_EQ(some.parameters, 4 * frozen);
}

TEST_F(RecordedStates, NamesThatAPlanDoesNotKnow) {
  for (const char* name : {"gpt3-175b", "mixtral-8x7b", "deepseek-v3"}) {
    test::expect_message<ConfigError>(
        [&] { (void)frozen_weights(*find_model(name), {"embed_tokens"}); },
        {"--freeze", "names of a Llama's weights", name, "--on"});
  }
}

}  // namespace
}  // namespace ultra::planner
