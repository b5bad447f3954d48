// Contract of exercise 04.6: cases worked by hand, published figures, shards dealt out one by one,
// and the collectives of a step walked through.
#include "chapters/04_zero/zero_memory.hpp"

#include "chapters/02_collectives/ring_cost.hpp"
#include "tests/exercises/04_zero/walked_zero.hpp"
#include "tests/support/suspects.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace test;

constexpr NumberFormats kPrecisions[] = {NumberFormats::kBf16Mixed,
                                         NumberFormats::kBf16MixedFp32Grads, NumberFormats::kFp32,
                                         NumberFormats::kFp64};

class ZeroMemory : public ultra::test::RandomTest {
 protected:
  Sharding draw_sharding() {
    return {.stage = kZeroStages.at(random.between(0, kZeroStages.size() - 1)),
            .shards = static_cast<int>(random.between(1, 12)),
            .replicas = static_cast<int>(random.between(1, 5))};
  }
};

// Bytes -------------------------------------------------------------------------------------------

TEST_F(ZeroMemory, BytesByHandAndOfThePapersFirstFigure) {
  // 10 parameters on 4 ranks: 2.5 each.
  const auto ten = [](ZeroStage stage) {
    return expect_bytes({.stage = stage, .shards = 4}, 10, NumberFormats::kBf16Mixed);
  };
  EXPECT_EQ(ten(kNone), (RankBytes{20, 20, 120}));
  EXPECT_EQ(ten(kOptimizer), (RankBytes{20, 20, 30}));
  EXPECT_EQ(ten(kGradients), (RankBytes{20, 5, 30}));
  EXPECT_EQ(ten(kParameters), (RankBytes{5, 5, 30}));
  // Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, figure 1: 7.5B parameters on 64 ranks.
  const auto gb = [](ZeroStage stage) {
    const Sharding sharding{.stage = stage, .shards = 64};
    return expect_bytes(sharding, 7'500'000'000, NumberFormats::kBf16Mixed).total() / 1e9;
  };
  EXPECT_NEAR(gb(kNone), 120, 0.05);
  EXPECT_NEAR(gb(kOptimizer), 31.4, 0.05);
  EXPECT_NEAR(gb(kGradients), 16.6, 0.05);
  EXPECT_NEAR(gb(kParameters), 1.9, 0.05);
}

TEST_F(ZeroMemory, BytesAreThoseOfShardsThatAreDealtOut) {
  for (const ZeroStage stage : kZeroStages) {
    for (const NumberFormats precision : kPrecisions) {
      expect_bytes({.stage = stage}, 1001, precision);
      expect_bytes({.stage = stage, .shards = 8, .replicas = 4}, 1'000'000, precision);
    }
  }
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    expect_bytes(draw_sharding(), random.between(1, 100'000),
                 kPrecisions[random.between(0, std::size(kPrecisions) - 1)]);
  }
}

/// Both sides of the definition: a model of that size takes the device's bytes.
void expect_fills(const Sharding& sharding, NumberFormats precision, double device_bytes) {
  constexpr std::size_t kMany = 1'000'000;  // so that the shares are close to exact
  const StateBytes per = memory::bytes_per_parameter(precision);
  double bytes = 0;
  for (const State& state : kStates) {
    bytes +=
        dealt(sharding, kMany, per.*state.per_parameter, sharding.stage >= state.sharded_from) /
        real(kMany);
  }
  const double whole = device_bytes / real(per.total());
  constexpr const char* kOneParameter =
      "divide the device's bytes by those that one parameter takes on a rank of this sharding.";
  expect_close(fmt::format("{}, {}: largest model in {} bytes", to_string(precision),
                           str(sharding, kMany), device_bytes),
               largest_model(sharding, precision, device_bytes), device_bytes / bytes,
               {{whole, kOneParameter},
                {whole * sharding.shards, kOneParameter},
                {std::floor(device_bytes / bytes), "the number is real: it is not rounded."},
                {device_bytes * bytes, kOneParameter},
                {bytes / device_bytes, kOneParameter}});
}

TEST_F(ZeroMemory, TheLargestModelTakesAllBytesOfTheDevice) {
  for (const ZeroStage stage : kZeroStages) {
    for (const NumberFormats precision : kPrecisions) {
      expect_fills({.stage = stage, .shards = 5, .replicas = 2}, precision, 80e9);
    }
  }
  // The same paper, table 2, first row: 32 GB per rank, 64 ranks; printed digits, cut off.
  const auto billions = [](ZeroStage stage) {
    const double parameters =
        largest_model({.stage = stage, .shards = 64}, NumberFormats::kBf16Mixed, 32e9);
    return std::floor(parameters / 1e8 * (1 + 1e-12)) / 10;  // 128 may be a rounding below
  };
  EXPECT_DOUBLE_EQ(billions(kNone), 2);
  EXPECT_DOUBLE_EQ(billions(kOptimizer), 7.6);
  EXPECT_DOUBLE_EQ(billions(kGradients), 14.4);
  EXPECT_DOUBLE_EQ(billions(kParameters), 128);
}

// What is sent ------------------------------------------------------------------------------------

/// 12 parameters on 4 ranks: an all-gather and a reduce-scatter send 9 elements each. On 3 nodes of
/// 4 ranks a shard has 3 elements, and its all-reduce sends 4.
TEST_F(ZeroMemory, SentByHand) {
  struct Row {
    ZeroStage stage;
    int replicas;
    std::size_t micro_batches;
    Reshard reshard;
    SentElements expected;
  };
  using enum Reshard;
  for (const Row& row :
       {Row{kNone, 1, 3, kAfterForward, {18, 0}}, Row{kOptimizer, 1, 3, kAfterForward, {18, 0}},
        Row{kGradients, 1, 1, kAfterForward, {18, 0}},
        Row{kGradients, 1, 3, kAfterForward, {36, 0}},
        Row{kParameters, 1, 1, kAfterForward, {27, 0}},
        Row{kParameters, 1, 3, kAfterForward, {81, 0}},
        Row{kParameters, 1, 3, kAfterBackward, {54, 0}}, Row{kNone, 3, 5, kAfterForward, {18, 4}},
        Row{kOptimizer, 3, 5, kAfterForward, {18, 4}},
        Row{kGradients, 3, 5, kAfterForward, {54, 4}},
        Row{kParameters, 3, 5, kAfterForward, {135, 4}}}) {
    const Sharding sharding{.stage = row.stage, .shards = 4, .replicas = row.replicas};
    const SentElements found = expect_sent({sharding, 12, row.micro_batches, row.reshard});
    EXPECT_DOUBLE_EQ(found.inside, row.expected.inside) << str(sharding, 12);
    EXPECT_DOUBLE_EQ(found.between, row.expected.between) << str(sharding, 12);
  }
}

TEST_F(ZeroMemory, SentIsWhatAStepSendsOneByOne) {
  for (const ZeroStage stage : kZeroStages) {
    EXPECT_EQ(sent_per_rank({.stage = stage}, 100, 3), SentElements{}) << "Hint: " << kShare;
  }
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    expect_sent({.sharding = draw_sharding(),
                 .parameters = random.between(1, 100'000),
                 .micro_batches = random.between(1, 9),
                 .reshard = random.pick({Reshard::kAfterForward, Reshard::kAfterBackward})});
  }
}

/// Chapter 02's two-level all-reduce sends as much as a ring of all ranks; only less of it between
/// nodes.
TEST_F(ZeroMemory, OnTwoLevelsAsMuchIsSentAsByAnAllReduceOfAllRanks) {
  for (const ZeroStage stage : {kNone, kOptimizer}) {
    expect_close("elements on two levels", sent_per_rank({stage, 8, 4}, 3200, 2).total(),
                 collectives::ring_all_reduce_cost(32, 3200, 1, {}).sent_bytes, {});
  }
}

}  // namespace
}  // namespace ultra::zero
