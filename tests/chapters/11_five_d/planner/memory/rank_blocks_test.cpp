// The closed forms of a rank's blocks against recorded steps of our own model, and against published
// forms of a GPT's.

#include "chapters/11_five_d/planner/memory/rank_blocks.hpp"

#include "chapters/11_five_d/five_d.hpp"
#include "common/train/elsewhere/record_step.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using memory::NumberFormats;
using memory::Recompute;

struct Drawn {
  ModelShape model;
  Layout layout;
  std::size_t seq_len;
  std::string flags;  ///< of the program, but for --layers
};

class RankBlocksTest : public ultra::test::RandomTest {
 protected:
  /// A model without padding on a mesh of tp, cp, and ep.
  Drawn draw(bool experts) {
    const std::size_t tp = random.pick({1U, 2U, 4U});
    const std::size_t cp = experts ? 1 : random.pick({1U, 2U});
    const std::size_t ep = experts ? random.pick({1U, 2U}) : 1;
    const std::size_t heads = 4 * random.between(1, 3);
    const std::size_t kv_heads = random.pick({2U, 4U});
    const std::size_t hidden = heads * 4 * random.between(1, 3);
    const std::size_t ffn = tp * random.between(1, 30);
    const std::size_t vocab = 256 + random.between(0, 30);
    const std::size_t seq_len = 8 * random.between(1, 5);
    const bool sp = tp > 1 && random.pick({true, false});
    const Recompute mode = random.pick({Recompute::kNone, Recompute::kSelective, Recompute::kFull});
    Drawn drawn{.model = dense_model({.name = "drawn",
                                      .num_layers = 0,
                                      .hidden_size = hidden,
                                      .num_heads = heads,
                                      .num_kv_heads = heads % kv_heads == 0 ? kv_heads : heads,
                                      .ffn_hidden_size = ffn,
                                      .vocab_size = vocab}),
                .layout = {.dp = ep,
                           .cp = cp,
                           .tp = tp,
                           .ep = ep,
                           .zero = zero::ZeroStage::kNone,
                           .micro_batch = random.between(1, 3),
                           .recompute = mode,
                           .sequence_parallel = sp,
                           .precision = random.pick({NumberFormats::kFp32, NumberFormats::kFp64})},
                .seq_len = seq_len,
                .flags = {}};
    const auto& shape = drawn.model.shape();
    drawn.flags = fmt::format(
        "--hidden {} --heads {} --kv-heads {} --ffn {} --vocab {} --seq {} --dp {} --tp {} --cp {} "
        "--micro-batch {} --global-batch {} --recompute {} --dtype {} --on dgx-h100",
        hidden, heads, shape.num_kv_heads, ffn, vocab, seq_len, ep, tp, cp,
        drawn.layout.micro_batch, ep * drawn.layout.micro_batch, to_string(mode),
        drawn.layout.precision == NumberFormats::kFp32 ? "f32" : "f64");
    if (tp > 1) drawn.flags += sp ? " --sp on" : " --sp off";
    if (!experts) return drawn;
    auto& moe = drawn.model.layers.moe;
    moe.num_experts = ep * random.between(1, 4);
    moe.top_k = random.between(1, moe.num_experts);
    moe.expert_ffn = tp * random.between(1, 9);
    moe.shared_experts = random.between(0, 2);
    drawn.flags +=
        fmt::format(" --experts {} --top-k {} --expert-ffn {} --shared-experts {} --ep {}",
                    moe.num_experts, moe.top_k, moe.expert_ffn, moe.shared_experts, ep);
    return drawn;
  }

  static train::RecordedRank recorded(const Drawn& drawn, std::size_t layers) {
    const train::Setup setup = train::parse_setup(
        five_d::techniques(),
        ultra::test::words_of(drawn.flags + fmt::format(" --layers {}", layers)));
    return train::record_step(setup, 0);
  }

  /// What a router decides with: in the host's memory, where a step is recorded.
  static std::size_t router_bytes(const Drawn& drawn) {
    if (drawn.layout.recompute == Recompute::kFull) return 0;
    const auto& moe = drawn.model.layers.moe;
    const std::size_t tokens = drawn.layout.micro_batch * drawn.seq_len;
    const std::size_t balancing = drawn.layout.micro_batch * moe.num_experts;
    return memory::activation_element_bytes(drawn.layout.precision) *
               (tokens * (moe.num_experts + moe.top_k) + balancing) +
           8 * tokens * moe.top_k;
  }

  /// What one more block of a recorded step takes, beside what the forms say of it.
  static void expect_block(const Drawn& drawn, bool experts) {
    SCOPED_TRACE(drawn.flags);
    const train::RecordedRank few = recorded(drawn, 4);
    const train::RecordedRank many = recorded(drawn, 6);
    const auto of_a_block = [&](MemoryCategory category) {
      return (many.memory.peak(category).bytes - few.memory.peak(category).bytes) / 2;
    };
    const RankBlocks rank(drawn.model, drawn.layout);
    const BlockWeights weights = rank.block_weights(experts ? 0 : 1, experts ? 1 : 0);
    const std::size_t e = memory::activation_element_bytes(drawn.layout.precision);
    EXPECT_EQ(of_a_block(MemoryCategory::kParameters), e * (weights.experts + weights.others));
    const std::size_t seq_len = drawn.seq_len / drawn.layout.cp;
    EXPECT_EQ(of_a_block(MemoryCategory::kActivations),
              experts ? rank.expert_bytes(seq_len, drawn.layout.recompute) - router_bytes(drawn)
                      : rank.dense_bytes(seq_len, drawn.layout.recompute));
  }
};

TEST_F(RankBlocksTest, DenseBlocksAreThoseOfTheRecord) {
  for (int trial = 0; trial < 30; ++trial) expect_block(draw(false), false);
}

TEST_F(RankBlocksTest, BlocksWithExpertsAreThoseOfTheRecord) {
  for (int trial = 0; trial < 30; ++trial) expect_block(draw(true), true);
}

// With H1, stage s of p has s + 1 micro-batches that wait for W at its fullest, and p - 1 - s that wait
// for B (Qi et al. 2023, arXiv 2401.10241, figure 3). Within B a block has a little of both.
TEST_F(RankBlocksTest, WhatWaitsForWIsThatOfTheRecord) {
  for (int trial = 0; trial < 20; ++trial) {
    Drawn drawn = draw(random.pick({true, false}));
    const bool experts = drawn.model.has_experts();
    const std::size_t sequences = drawn.layout.dp * drawn.layout.micro_batch;
    drawn.flags.replace(
        drawn.flags.find("--global-batch"), fmt::format("--global-batch {}", sequences).size(),
        fmt::format("--global-batch {} --pp 4 --schedule zero-bubble-h1", 8 * sequences));
    SCOPED_TRACE(drawn.flags);
    constexpr std::size_t kStage = 2;
    const auto peak = [&](std::size_t layers) {
      const train::Setup setup = train::parse_setup(
          five_d::techniques(),
          ultra::test::words_of(fmt::format("{} --stage-split {},{},{},{} --layers {}", drawn.flags,
                                            layers, layers, layers, layers, 4 * layers)));
      const std::vector<int> ranks = train::ranks_that_differ(setup);
      return train::record_step(setup, ranks.at(kStage))
          .memory.peak(MemoryCategory::kActivations)
          .bytes;
    };
    const double of_a_block = static_cast<double>(peak(6) - peak(4)) / 2;
    const RankBlocks rank(drawn.model, drawn.layout);
    const std::size_t seq_len = drawn.seq_len / drawn.layout.cp;
    const Recompute mode = drawn.layout.recompute;
    const double kept = static_cast<double>(experts ? rank.expert_bytes(seq_len, mode)
                                                    : rank.dense_bytes(seq_len, mode));
    const double waiting =
        static_cast<double>(rank.waiting_bytes(seq_len, experts, Inputs::kGathered));
    const double expected = (kStage + 1) * waiting + (3 - kStage) * kept;
    EXPECT_NEAR(of_a_block, expected, (experts ? 0.15 : 0.05) * expected);
  }
}

// Korthikanti et al. 2022, arXiv 2205.05198, table 2: s b h (10 + 24 / t + 5 a s / (h t)), with sequence
// parallelism s b h (34 + 5 a s / h) / t, selective without the term of a.
TEST_F(RankBlocksTest, GptBlocksAreThoseOfThePaper) {
  const ModelShape model = *find_model("gpt3-175b");
  const double sbh = 2048.0 * 12288;
  const double scores = 5.0 * 96 * 2048 / 12288;
  for (const std::size_t t : {1U, 2U, 8U}) {
    const double tp = static_cast<double>(t);
    Layout layout{.tp = t, .sequence_parallel = false, .precision = NumberFormats::kBf16Mixed};
    const auto bytes = [&](Recompute mode) {
      return static_cast<double>(RankBlocks(model, layout).dense_bytes(2048, mode));
    };
    EXPECT_DOUBLE_EQ(bytes(Recompute::kNone), sbh * (10 + 24 / tp + scores / tp));
    EXPECT_DOUBLE_EQ(bytes(Recompute::kSelective), sbh * (10 + 24 / tp));
    EXPECT_DOUBLE_EQ(bytes(Recompute::kFull), 2 * sbh);
    layout.sequence_parallel = true;
    EXPECT_DOUBLE_EQ(bytes(Recompute::kNone), sbh * (34 + scores) / tp);
    EXPECT_DOUBLE_EQ(bytes(Recompute::kSelective), sbh * 34 / tp);
  }
}

}  // namespace
}  // namespace ultra::planner
