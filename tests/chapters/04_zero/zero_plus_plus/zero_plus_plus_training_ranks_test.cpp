// Whole training runs with ZeRO++: what is the same as with ZeRO-3 bit for bit, what is near it,
// and that ranks agree.
//
// Covers: chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/chapters/04_zero/zero_plus_plus/zero_plus_plus_case.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/ranks/rank_fates.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using ::testing::HasSubstr;
using ultra::test::fates_of;
using ultra::test::is_a;

class ZeroPlusPlusTraining : public ZeroPlusPlusTest {
 protected:
  static ZeroCase with(ZeroCase c, const ZeroPlusPlus& how) {
    c.settings.plus_plus = how;
    return c;
  }

  ZeroCase draw_200_steps() {
    ZeroCase c = draw(4, ZeroStage::kParameters, DType::kF32);
    c.settings.cut = ShardCut::kFlat;
    c.options.model = {.vocab_size = data::kByteVocabulary,
                       .hidden_size = 32,
                       .num_layers = 1,
                       .num_heads = 4,
                       .num_kv_heads = 2,
                       .ffn_hidden_size = 64,
                       .max_seq_len = 16};
    c.options.global_batch = 8;
    c.micro_batch = 2;
    c.options.steps = 200;
    c.options.clip_norm = 1;
    c.settings = {.stage = ZeroStage::kParameters, .prefetch = 1};
    return c;
  }

  /// The mean loss of the last 20 steps, of two runs: one batch has 128 tokens, too few to tell 1 %
  /// apart, and rounding alone moves a run's loss by some 0.5 %.
  static double loss_at_the_end(const Communicator& dp, ZeroCase c) {
    double sum = 0;
    for (const std::uint64_t seed : {0U, 1U}) {
      c.options.seed = seed;
      const train::TrainResult result = train_zero(dp, c);
      for (std::size_t i = 180; i < 200; ++i) sum += result.steps.at(i).loss;
    }
    return sum / 40;
  }

  static void expect_same_runs(const ZeroRun& actual, const ZeroRun& expected) {
    EXPECT_EQ(losses_and_norms(actual.result), losses_and_norms(expected.result));
    EXPECT_TRUE(actual.own == expected.own) << "the weights that this rank updates";
  }
};

// The same bits -----------------------------------------------------------------------------------

TEST_F(ZeroPlusPlusTraining, SecondaryShardsChangeNoBit) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const std::string list : {"", "weights-int8,"}) {
      const ZeroCase c =
          draw_with(list + "hierarchical", ranks, random.pick({DType::kF32, DType::kF64}));
      ZeroPlusPlus without = c.settings.plus_plus;
      without.secondary = SecondaryShards::kNone;
      SCOPED_TRACE(text_of(c.settings.plus_plus));
      on_ranks(c, [&](Communicator& dp) {
        expect_same_runs(run_zero(dp, c), run_zero(dp, with(c, without)));
      });
    }
  }
}

/// How far ahead units are gathered, what overlaps and what is computed again changes no bit.
TEST_F(ZeroPlusPlusTraining, WhenThingsTravelChangesNoBit) {
  for (const std::string& list : all_techniques()) {
    ZeroCase c = draw_with(list, static_cast<int>(random.between(2, 4)), DType::kF32);
    c.options.model.num_layers = 3;
    ZeroCase other = c;
    other.settings.prefetch = random.between(0, 3);
    other.settings.overlap = c.settings.overlap == Overlap::kOn ? Overlap::kOff : Overlap::kOn;
    other.recompute = {.mode = memory::Recompute::kFull, .recompute_every = 2};
    SCOPED_TRACE(list + ": " + text_of(c.settings.plus_plus));
    on_ranks(c, [&](Communicator& dp) { expect_same_runs(run_zero(dp, other), run_zero(dp, c)); });
  }
}

TEST_F(ZeroPlusPlusTraining, OneNodeAndNodesOfOneRankReduceInOneStep) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4}}) {
    ZeroCase c = draw_with("gradients-int4", 4, DType::kF32);
    c.settings.plus_plus.node_size = size;
    ZeroPlusPlus without = c.settings.plus_plus;
    without.node_size = {};
    on_ranks(c, [&](Communicator& dp) {
      expect_same_runs(run_zero(dp, c), run_zero(dp, with(c, without)));
    });
  }
}

// Near ZeRO-3 -------------------------------------------------------------------------------------

/// The promise of the method: quantisation costs no quality. Lists without "hierarchical" stand for
/// those with it, which have the same bits (SecondaryShardsChangeNoBit).
TEST_F(ZeroPlusPlusTraining, LossesAfter200StepsAreWithinOnePercentOfZero3) {
  if (launched_world_size()) GTEST_SKIP() << "threads compute the same";
  const ZeroCase c = draw_200_steps();
  on_ranks(
      c,
      [&](Communicator& dp) {
        const double expected = loss_at_the_end(dp, c);
        for (const std::string& list : all_techniques()) {
          if (list.find("hierarchical") != std::string::npos) continue;
          const double loss = loss_at_the_end(dp, with(c, techniques(list, 2)));
          EXPECT_NEAR(loss, expected, 0.01 * expected) << list;
          if (dp.rank() > 0) continue;
          std::fprintf(stderr, "  %-27s loss %.4f, %+.2f%% of ZeRO-3's %.4f\n", list.c_str(), loss,
                       100 * (loss / expected - 1), expected);
        }
      },
      in_rank_order(Progress::kOnCall));
}

// Errors ------------------------------------------------------------------------------------------

TEST_F(ZeroPlusPlusTraining, ARankThatThrowsInAPassEndsAll) {
  for (const std::string& list : all_techniques()) {
    ZeroCase c = draw_with(list, 4, DType::kF32);
    const int guilty = static_cast<int>(random.between(0, 3));
    const auto body = [&](Communicator& dp) {
      StageChanges changes;
      nn::HookHandle hook;
      changes.observer = observing([&](std::size_t step, nn::Model& model) {
        if (dp.rank() != guilty || step != 2) return;
        hook = model.add_part_hook(
            {.backward = [](const auto&) { throw NumericError("this block is broken"); }});
      });
      static_cast<void>(train_zero(dp, c, changes));
    };
    ultra::test::Fates found;
    quietly([&] { found = fates_of(4, body, in_rank_order()); });
    SCOPED_TRACE(list);
    EXPECT_NE(found.thrown, nullptr);
    for (const auto& [rank, fate] : found.ranks) {
      EXPECT_THAT(fate.message, HasSubstr("this block is broken"));
      EXPECT_EQ(is_a<NumericError>(fate.error), rank == guilty);
      EXPECT_LT(fate.seconds, 20);
    }
  }
}

}  // namespace
}  // namespace ultra::zero
