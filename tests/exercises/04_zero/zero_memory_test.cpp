// Contract of exercise 04.6: cases worked by hand, published figures, shards dealt out one by one,
// and the collectives of a step walked through.
#include "chapters/04_zero/zero_memory.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/02_collectives/ring_cost.hpp"
#include "tests/support/random.hpp"
#include "tests/support/suspects.hpp"

namespace ultra::zero {
namespace {

using memory::Precision;
using ultra::test::Suspect;

constexpr Precision kPrecisions[] = {Precision::kBf16Mixed, Precision::kBf16MixedFp32Grads,
                                     Precision::kFp32, Precision::kFp64};

double real(std::size_t value) { return static_cast<double>(value); }

/// Both numbers are the same few products and quotients in another order.
constexpr double kRoundings = 1e-12;

bool close(double a, double b) { return ultra::test::close(a, b, kRoundings); }

// What may have gone wrong ------------------------------------------------------------------------

constexpr const char* kOptimizerWhole =
    "from ZeRO-1 on, a rank keeps the optimizer states of its shard only: divide them by S.";
constexpr const char* kOptimizerSharded =
    "without ZeRO, every rank keeps all optimizer states: nothing is divided.";
constexpr const char* kGradientsWhole =
    "from ZeRO-2 on, a rank keeps the gradients of its shard only: divide them by S.";
constexpr const char* kGradientsSharded =
    "before ZeRO-2, every rank keeps all gradients: ZeRO-1 shards the optimizer states alone.";
constexpr const char* kParametersWhole =
    "in ZeRO-3, a rank keeps the parameters of its shard only: divide them by S.";
constexpr const char* kParametersSharded =
    "before ZeRO-3, every rank keeps all parameters: it computes with them.";
constexpr const char* kMasterWeights =
    "the fp32 master weights are optimizer states, too: 4 + 8 bytes in mixed precision.";
constexpr const char* kMasterWhole =
    "the fp32 master weights are sharded with Adam's moments: a rank updates its shard only.";
constexpr const char* kHybrid =
    "hybrid sharding divides by S, the ranks of a node: every node has a copy of its own.";
constexpr const char* kReal =
    "divide as real numbers, after the product: S need not divide the bytes.";

constexpr const char* kShare =
    "in a ring of S ranks each sends P (S - 1) / S: what ends at a rank need not be sent on.";
constexpr const char* kTwoTrips =
    "an all-reduce is a reduce-scatter and an all-gather, and sends twice what one of them does.";
constexpr const char* kOneAllReduce =
    "ZeRO-1 puts the optimizer step between the two halves of an all-reduce: one reduce-scatter of "
    "gradients, one all-gather of parameters, nothing more.";
constexpr const char* kOncePerStep =
    "whole gradients add up in place: they are sent once per step, whatever m.";
constexpr const char* kEveryMicroBatch =
    "a gradient that is sharded cannot wait for the next micro-batch: each is sent in each of m.";
constexpr const char* kGatherOnce =
    "ZeRO-2 gathers the parameters once per step, after the update: they are whole until then.";
constexpr const char* kGatherEveryTime =
    "ZeRO-3 gathers the parameters anew in each of m micro-batches.";
constexpr const char* kSecondGather =
    "ZeRO-3 lets go of the parameters after the forward pass: the backward pass gathers them "
    "again.";
constexpr const char* kKept =
    "parameters that are kept until the backward pass are gathered once per micro-batch, not "
    "twice.";
constexpr const char* kInside = "inside a copy S ranks take part, not all N.";
constexpr const char* kBetween =
    "between copies R ranks take part, those that hold the same shard.";
constexpr const char* kShardOnly =
    "between copies a rank sends the gradients of its shard only, P / S elements.";
constexpr const char* kCopiesOnce =
    "between copies one all-reduce per step is enough: the shards are summed up by then.";
constexpr const char* kDrift =
    "every copy computes its own gradients: what is not added up between them drifts apart.";
constexpr const char* kOneParameter =
    "divide the device's bytes by those that one parameter takes on a rank of this sharding.";

void expect_close(const std::string& what, double found, double expected,
                  const std::vector<Suspect>& suspects) {
  EXPECT_TRUE(close(found, expected))
      << what << ": " << fmt::format("{}", found) << ", expected " << fmt::format("{}", expected)
      << ". " << ultra::test::diagnosis(found, expected, suspects, kRoundings);
}

std::string str(const Sharding& sharding) {
  return fmt::format("stage {}, S = {}, R = {}", name_of(sharding.stage), sharding.shards,
                     sharding.replicas);
}

// Bytes -------------------------------------------------------------------------------------------

struct BytesCase {
  Sharding sharding;
  std::size_t parameters = 0;
  Precision precision = Precision::kBf16Mixed;

  [[nodiscard]] std::string str() const {
    return fmt::format("{} parameters, {}, {}", parameters, to_string(precision),
                       zero::str(sharding));
  }
};

/// Deals the parameters out to the ranks of a copy, to the first ranks one more where they do not
/// divide, and averages what the ranks keep.
double dealt(const BytesCase& c, std::size_t bytes_per_parameter, bool sharded) {
  const auto ranks = static_cast<std::size_t>(c.sharding.shards);
  std::size_t bytes = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t own = c.parameters / ranks + (rank < c.parameters % ranks ? 1 : 0);
    bytes += bytes_per_parameter * (sharded ? own : c.parameters);
  }
  return real(bytes) / real(ranks);
}

/// What a state of so many bytes is if it is wrongly whole, or wrongly divided.
std::vector<Suspect> wrong_shares(const BytesCase& c, std::size_t bytes_per_parameter,
                                  const char* whole, const char* sharded) {
  const double all = real(bytes_per_parameter * c.parameters);
  const double s = c.sharding.shards;
  const double n = s * c.sharding.replicas;
  return {{all, whole}, {all / s, sharded}, {all / n, kHybrid}, {std::floor(all / s), kReal}};
}

std::vector<Suspect> wrong_optimizer(const BytesCase& c, std::size_t bytes_per_parameter) {
  std::vector<Suspect> suspects =
      wrong_shares(c, bytes_per_parameter, kOptimizerWhole, kOptimizerSharded);
  if (c.precision == Precision::kFp32 || c.precision == Precision::kFp64) return suspects;
  const double master = 4.0 * real(c.parameters);
  const double moments = 8.0 * real(c.parameters);
  for (const double divisor : {1, c.sharding.shards}) {
    suspects.push_back({moments / divisor, kMasterWeights});
    suspects.push_back({master + moments / divisor, kMasterWhole});
  }
  return suspects;
}

void expect_bytes(const BytesCase& c) {
  const memory::StateBytes per = memory::bytes_per_parameter(c.precision);
  const ZeroStage stage = c.sharding.stage;
  const RankBytes found = bytes_per_rank(c.sharding, c.parameters, c.precision);
  expect_close(c.str() + ": bytes of the parameters", found.parameters,
               dealt(c, per.parameters, stage == ZeroStage::kParameters),
               wrong_shares(c, per.parameters, kParametersWhole, kParametersSharded));
  expect_close(
      c.str() + ": bytes of the gradients", found.gradients,
      dealt(c, per.gradients, stage == ZeroStage::kGradients || stage == ZeroStage::kParameters),
      wrong_shares(c, per.gradients, kGradientsWhole, kGradientsSharded));
  expect_close(c.str() + ": bytes of the optimizer states", found.optimizer,
               dealt(c, per.optimizer, stage != ZeroStage::kNone),
               wrong_optimizer(c, per.optimizer));
}

/// 10 parameters on 4 ranks: 2.5 each.
TEST(BytesPerRank, ByHand) {
  const auto bytes = [](ZeroStage stage) {
    expect_bytes({.sharding = {.stage = stage, .shards = 4}, .parameters = 10});
    return bytes_per_rank({.stage = stage, .shards = 4}, 10, Precision::kBf16Mixed);
  };
  EXPECT_EQ(bytes(ZeroStage::kNone), (RankBytes{20, 20, 120}));
  EXPECT_EQ(bytes(ZeroStage::kOptimizer), (RankBytes{20, 20, 30}));
  EXPECT_EQ(bytes(ZeroStage::kGradients), (RankBytes{20, 5, 30}));
  EXPECT_EQ(bytes(ZeroStage::kParameters), (RankBytes{5, 5, 30}));
}

/// Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, figure 1: 7.5B parameters on 64 ranks.
TEST(BytesPerRank, AreThoseOfThePapersFirstFigure) {
  const auto gb = [](ZeroStage stage) {
    const BytesCase c{.sharding = {.stage = stage, .shards = 64}, .parameters = 7'500'000'000};
    expect_bytes(c);
    return bytes_per_rank(c.sharding, c.parameters, c.precision).total() / 1e9;
  };
  EXPECT_NEAR(gb(ZeroStage::kNone), 120, 0.05);
  EXPECT_NEAR(gb(ZeroStage::kOptimizer), 31.4, 0.05);
  EXPECT_NEAR(gb(ZeroStage::kGradients), 16.6, 0.05);
  EXPECT_NEAR(gb(ZeroStage::kParameters), 1.9, 0.05);
}

TEST(BytesPerRank, OfOneRankAreAllBytes) {
  for (const ZeroStage stage : kZeroStages) {
    for (const Precision precision : kPrecisions) {
      expect_bytes({.sharding = {.stage = stage}, .parameters = 1001, .precision = precision});
    }
  }
}

/// 4 nodes of 8 ranks keep what one node of 8 keeps.
TEST(BytesPerRank, OfCopiesAreThoseOfOneCopy) {
  for (const ZeroStage stage : kZeroStages) {
    const Sharding copy{.stage = stage, .shards = 8};
    const Sharding copies{.stage = stage, .shards = 8, .replicas = 4};
    expect_bytes({.sharding = copies, .parameters = 1'000'000});
    EXPECT_EQ(bytes_per_rank(copies, 1'000'000, Precision::kBf16Mixed),
              bytes_per_rank(copy, 1'000'000, Precision::kBf16Mixed))
        << "Hint: " << kHybrid;
  }
}

// What is sent ------------------------------------------------------------------------------------

struct SentCase {
  Sharding sharding;
  std::size_t parameters = 0;
  std::size_t micro_batches = 1;
  Reshard reshard = Reshard::kAfterForward;

  [[nodiscard]] std::string str() const {
    return fmt::format("{} parameters, {} micro-batches, {}{}", parameters, micro_batches,
                       zero::str(sharding),
                       reshard == Reshard::kAfterBackward ? ", parameters kept" : "");
  }
};

/// Trips around the ring of a copy.
struct Trips {
  double gathers = 0;
  double scatters = 0;
};

/// Walks through a step and counts.
Trips walk(const SentCase& c) {
  const ZeroStage stage = c.sharding.stage;
  const bool whole_gradients = stage == ZeroStage::kNone || stage == ZeroStage::kOptimizer;
  Trips trips;
  for (std::size_t pass = 0; pass < c.micro_batches; ++pass) {
    if (stage == ZeroStage::kParameters) {
      ++trips.gathers;                                           // for the forward pass
      if (c.reshard == Reshard::kAfterForward) ++trips.gathers;  // for the backward pass
    }
    if (!whole_gradients) ++trips.scatters;  // of this micro-batch's gradients
  }
  if (whole_gradients) ++trips.scatters;                 // of the sum over the micro-batches
  if (stage != ZeroStage::kParameters) ++trips.gathers;  // of the gradients, or of the new weights
  return trips;
}

/// Elements that a rank sends in one trip around a ring of `ranks`, for P elements.
double one_trip(int ranks, std::size_t parameters) {
  return collectives::ring_all_gather_cost(ranks, parameters, 1, {}).sent_bytes;
}

std::vector<Suspect> wrong_inside(const SentCase& c) {
  const double m = real(c.micro_batches);
  const Trips trips = walk(c);
  const double right = trips.gathers + trips.scatters;
  const double p = real(c.parameters);
  const double n = c.sharding.shards * c.sharding.replicas;
  const double trip = one_trip(c.sharding.shards, c.parameters);
  std::vector<Suspect> suspects = {{right * p, kShare},
                                   {right * p * (n - 1) / n, kInside},
                                   {right * p / c.sharding.shards, kShare}};
  switch (c.sharding.stage) {
    case ZeroStage::kNone:
    case ZeroStage::kOptimizer:
      suspects.insert(suspects.end(), {{trip, kTwoTrips},
                                       {2 * m * trip, kOncePerStep},
                                       {(m + 1) * trip, kOncePerStep},
                                       {3 * trip, kOneAllReduce}});
      break;
    case ZeroStage::kGradients:
      suspects.insert(
          suspects.end(),
          {{2 * trip, kEveryMicroBatch}, {2 * m * trip, kGatherOnce}, {m * trip, kGatherOnce}});
      break;
    case ZeroStage::kParameters:
      suspects.insert(suspects.end(), {{2 * m * trip, kSecondGather},
                                       {3 * m * trip, kKept},
                                       {(right - m + 1) * trip, kEveryMicroBatch},
                                       {(m + 1) * trip, kGatherEveryTime},
                                       {(m + 2) * trip, kGatherEveryTime},
                                       {right / m * trip, kGatherEveryTime}});
      break;
  }
  return suspects;
}

std::vector<Suspect> wrong_between(const SentCase& c) {
  const double m = real(c.micro_batches);
  const double s = c.sharding.shards;
  const double r = c.sharding.replicas;
  const double shard = real(c.parameters) / s;
  const double once = 2 * shard * (r - 1) / r;
  return {{0.0, kDrift},
          {once * s, kShardOnly},
          {once / 2, kTwoTrips},
          {2 * shard, kShare},
          {2 * shard * (s * r - 1) / (s * r), kBetween},
          {m * once, kCopiesOnce}};
}

void expect_sent(const SentCase& c) {
  const SentElements found = sent_per_rank(c.sharding, c.parameters, c.micro_batches, c.reshard);
  const Trips trips = walk(c);
  expect_close(c.str() + ": elements sent inside a copy", found.inside,
               (trips.gathers + trips.scatters) * one_trip(c.sharding.shards, c.parameters),
               wrong_inside(c));
  expect_close(c.str() + ": elements sent between copies", found.between,
               2 * one_trip(c.sharding.replicas, c.parameters) / c.sharding.shards,
               wrong_between(c));
}

void expect_sent(const SentCase& c, const SentElements& by_hand) {
  expect_sent(c);
  const SentElements found = sent_per_rank(c.sharding, c.parameters, c.micro_batches, c.reshard);
  EXPECT_TRUE(close(found.inside, by_hand.inside) && close(found.between, by_hand.between))
      << c.str() << ": " << found.inside << " inside and " << found.between << " between, expected "
      << by_hand.inside << " and " << by_hand.between;
}

/// 12 parameters on 4 ranks: an all-gather and a reduce-scatter send 9 elements each.
TEST(SentPerRank, ByHand) {
  const auto on_four = [](ZeroStage stage) { return Sharding{.stage = stage, .shards = 4}; };
  expect_sent({on_four(ZeroStage::kNone), 12, 3}, {18, 0});
  expect_sent({on_four(ZeroStage::kOptimizer), 12, 3}, {18, 0});
  expect_sent({on_four(ZeroStage::kGradients), 12, 1}, {18, 0});
  expect_sent({on_four(ZeroStage::kGradients), 12, 3}, {36, 0});
  expect_sent({on_four(ZeroStage::kParameters), 12, 1}, {27, 0});
  expect_sent({on_four(ZeroStage::kParameters), 12, 3}, {81, 0});
  expect_sent({on_four(ZeroStage::kParameters), 12, 3, Reshard::kAfterBackward}, {54, 0});
}

/// 12 parameters, 3 nodes of 4 ranks: a shard has 3 elements, and its all-reduce sends 4.
TEST(SentPerRank, ByHandBetweenNodes) {
  const auto on_nodes = [](ZeroStage stage) {
    return Sharding{.stage = stage, .shards = 4, .replicas = 3};
  };
  expect_sent({on_nodes(ZeroStage::kNone), 12, 5}, {18, 4});
  expect_sent({on_nodes(ZeroStage::kOptimizer), 12, 5}, {18, 4});
  expect_sent({on_nodes(ZeroStage::kGradients), 12, 5}, {54, 4});
  expect_sent({on_nodes(ZeroStage::kParameters), 12, 5}, {135, 4});
}

TEST(SentPerRank, OfOneRankIsNothing) {
  for (const ZeroStage stage : kZeroStages) {
    expect_sent({.sharding = {.stage = stage}, .parameters = 100, .micro_batches = 3});
    EXPECT_EQ(sent_per_rank({.stage = stage}, 100, 3), SentElements{}) << "Hint: " << kShare;
  }
}

/// Only ZeRO-3 has parameters to keep.
TEST(SentPerRank, OfTheOtherStagesDoesNotDependOnWhatIsKept) {
  for (const ZeroStage stage : {ZeroStage::kNone, ZeroStage::kOptimizer, ZeroStage::kGradients}) {
    expect_sent({.sharding = {.stage = stage, .shards = 5},
                 .parameters = 100,
                 .micro_batches = 3,
                 .reshard = Reshard::kAfterBackward});
  }
}

/// Chapter 02's two-level all-reduce sends as much as a ring of all ranks; only less of it between
/// nodes.
TEST(SentPerRank, OnTwoLevelsAddsUpToAnAllReduceOfAllRanks) {
  for (const ZeroStage stage : {ZeroStage::kNone, ZeroStage::kOptimizer}) {
    const Sharding sharding{.stage = stage, .shards = 8, .replicas = 4};
    expect_sent({sharding, 3200, 2});
    EXPECT_TRUE(close(sent_per_rank(sharding, 3200, 2).total(),
                      collectives::ring_all_reduce_cost(32, 3200, 1, {}).sent_bytes));
  }
}

// The largest model -------------------------------------------------------------------------------

/// Both sides of the definition: a model of that size takes the device's bytes.
void expect_fills(const Sharding& sharding, Precision precision, double device_bytes) {
  const memory::StateBytes per = memory::bytes_per_parameter(precision);
  // Of a million parameters, so that the shares are close to exact.
  constexpr std::size_t kMany = 1'000'000;
  const BytesCase many{sharding, kMany, precision};
  const double bytes = (dealt(many, per.parameters, shards_parameters(sharding.stage)) +
                        dealt(many, per.gradients, shards_gradients(sharding.stage)) +
                        dealt(many, per.optimizer, shards_optimizer(sharding.stage))) /
                       real(kMany);
  const double whole = real(per.total());
  expect_close(fmt::format("{}, {}: largest model in {} bytes", to_string(precision), str(sharding),
                           device_bytes),
               largest_model(sharding, precision, device_bytes), device_bytes / bytes,
               {{device_bytes / whole, kOneParameter},
                {device_bytes * sharding.shards / whole, kOneParameter},
                {std::floor(device_bytes / bytes), "the number is real: it is not rounded."},
                {device_bytes * bytes, kOneParameter},
                {bytes / device_bytes, kOneParameter}});
}

/// The same paper, table 2, first row: 32 GB per rank, 64 ranks; printed digits, cut off.
TEST(LargestModel, IsThatOfThePapersSecondTable) {
  const auto billions = [](ZeroStage stage) {
    expect_fills({.stage = stage, .shards = 64}, Precision::kBf16Mixed, 32e9);
    const double parameters =
        largest_model({.stage = stage, .shards = 64}, Precision::kBf16Mixed, 32e9);
    return std::floor(parameters / 1e8 * (1 + 1e-12)) / 10;  // 128 may be a rounding below
  };
  EXPECT_DOUBLE_EQ(billions(ZeroStage::kNone), 2);
  EXPECT_DOUBLE_EQ(billions(ZeroStage::kOptimizer), 7.6);
  EXPECT_DOUBLE_EQ(billions(ZeroStage::kGradients), 14.4);
  EXPECT_DOUBLE_EQ(billions(ZeroStage::kParameters), 128);
}

TEST(LargestModel, TakesAllBytesOfTheDevice) {
  for (const ZeroStage stage : kZeroStages) {
    for (const Precision precision : kPrecisions) {
      expect_fills({.stage = stage, .shards = 5, .replicas = 2}, precision, 80e9);
    }
  }
}

// Random cases ------------------------------------------------------------------------------------

class ZeroMemoryOfRandomCases : public ultra::test::RandomTest {
 protected:
  Sharding draw_sharding() {
    return {.stage = kZeroStages.at(random.between(0, kZeroStages.size() - 1)),
            .shards = static_cast<int>(random.between(1, 12)),
            .replicas = static_cast<int>(random.between(1, 5))};
  }
};

TEST_F(ZeroMemoryOfRandomCases, BytesAreThoseOfShardsThatAreDealtOut) {
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    expect_bytes({.sharding = draw_sharding(),
                  .parameters = random.between(1, 100'000),
                  .precision = kPrecisions[random.between(0, std::size(kPrecisions) - 1)]});
  }
}

TEST_F(ZeroMemoryOfRandomCases, SentIsWhatAStepSendsOneByOne) {
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    expect_sent({.sharding = draw_sharding(),
                 .parameters = random.between(1, 100'000),
                 .micro_batches = random.between(1, 9),
                 .reshard = random.pick({Reshard::kAfterForward, Reshard::kAfterBackward})});
  }
}

}  // namespace
}  // namespace ultra::zero
