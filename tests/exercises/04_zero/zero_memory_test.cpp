// Contract of exercise 04.6: cases worked by hand, published figures, shards dealt out one by one,
// and the collectives of a step walked through.
#include "chapters/04_zero/zero_memory.hpp"

#include "chapters/01_memory/model_presets.hpp"
#include "chapters/02_collectives/ring_cost.hpp"
#include "tests/support/suspects.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using memory::NumberFormats;
using memory::StateBytes;
using ultra::test::Suspect;
using enum ZeroStage;

/// Both numbers are the same few products and quotients in another order.
constexpr double kRoundings = 1e-12;

void expect_close(const std::string& what, double found, double expected,
                  const std::vector<Suspect>& suspects) {
  ultra::test::expect_close(what, found, expected, suspects, kRoundings);
}

std::string str(const Sharding& sharding, std::size_t parameters) {
  return fmt::format("{} parameters, stage {}, S = {}, R = {}", parameters, name_of(sharding.stage),
                     sharding.shards, sharding.replicas);
}

/// A state of the model, and what to say when it is wrongly whole or wrongly divided.
struct State {
  const char* name;
  double RankBytes::*found;
  std::size_t StateBytes::*per_parameter;
  ZeroStage sharded_from;
  const char* is_whole;
  const char* is_sharded;
};
constexpr State kStates[] = {
    {"parameters", &RankBytes::parameters, &StateBytes::parameters, kParameters,
     "in ZeRO-3, a rank keeps the parameters of its shard only: divide them by S.",
     "before ZeRO-3, every rank keeps all parameters: it computes with them."},
    {"gradients", &RankBytes::gradients, &StateBytes::gradients, kGradients,
     "from ZeRO-2 on, a rank keeps the gradients of its shard only: divide them by S.",
     "before ZeRO-2, every rank keeps all gradients: ZeRO-1 shards the optimizer states alone."},
    {"optimizer states", &RankBytes::optimizer, &StateBytes::optimizer, kOptimizer,
     "from ZeRO-1 on, a rank keeps the optimizer states of its shard only: divide them by S.",
     "without ZeRO, every rank keeps all optimizer states: nothing is divided."}};

/// Deals the parameters out to the ranks of a copy, to the first ranks one more where they do not
/// divide, and averages what the ranks keep.
double dealt(const Sharding& sharding, std::size_t parameters, std::size_t bytes_per_parameter,
             bool sharded) {
  const auto ranks = static_cast<std::size_t>(sharding.shards);
  std::size_t bytes = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t own = parameters / ranks + (rank < parameters % ranks ? 1 : 0);
    bytes += bytes_per_parameter * (sharded ? own : parameters);
  }
  return count_of(bytes) / count_of(ranks);
}

/// Holds each state against shards that are dealt out; returns what was found.
RankBytes expect_bytes(const Sharding& sharding, std::size_t parameters, NumberFormats precision) {
  const RankBytes found = bytes_per_rank(sharding, parameters, precision);
  const double s = sharding.shards;
  for (const State& state : kStates) {
    const std::size_t per_parameter = memory::bytes_per_parameter(precision).*state.per_parameter;
    const double all = count_of(per_parameter * parameters);
    std::vector<Suspect> suspects = {
        {all, state.is_whole},
        {all / s, state.is_sharded},
        {all / s / sharding.replicas,
         "hybrid sharding divides by S, the ranks of a node: every node has a copy of its own."},
        {std::floor(all / s),
         "divide as real numbers, after the product: S need not divide the bytes."}};
    if (per_parameter == 12) {
      for (const double divisor : {1.0, s}) {
        const double moments = 8.0 * count_of(parameters) / divisor;
        suspects.push_back(
            {moments,
             "the fp32 master weights are optimizer states, too: 4 + 8 bytes in mixed precision."});
        suspects.push_back({4.0 * count_of(parameters) + moments,
                            "the fp32 master weights are sharded with Adam's moments: a rank "
                            "updates its shard only."});
      }
    }
    expect_close(fmt::format("{}, {}: bytes of the {}", str(sharding, parameters),
                             to_string(precision), state.name),
                 found.*state.found,
                 dealt(sharding, parameters, per_parameter, sharding.stage >= state.sharded_from),
                 suspects);
  }
  return found;
}

struct SentCase {
  Sharding sharding;
  std::size_t parameters = 0;
  std::size_t micro_batches = 1;
  Reshard reshard = Reshard::kAfterForward;
};

/// Walks through a step and counts trips around the ring of a copy.
double trips_of(const SentCase& c) {
  const ZeroStage stage = c.sharding.stage;
  double trips = 0;
  for (std::size_t pass = 0; pass < c.micro_batches; ++pass) {
    if (stage == kParameters) ++trips;  // gathered for the forward pass, and for the backward pass:
    if (stage == kParameters && c.reshard == Reshard::kAfterForward) ++trips;
    if (stage >= kGradients) ++trips;  // scattered: this micro-batch's gradients
  }
  if (stage < kGradients) ++trips;   // scattered: the sum over the micro-batches
  if (stage < kParameters) ++trips;  // gathered: the gradients, or the new weights
  return trips;
}

/// Elements that a rank sends in one trip around a ring of `ranks`, for P elements.
double one_trip(int ranks, std::size_t parameters) {
  return collectives::ring_all_gather_cost(ranks, parameters, 1, {}).sent_bytes;
}

constexpr const char* kShare =
    "in a ring of S ranks each sends P (S - 1) / S: what ends at a rank need not be sent on.";
constexpr const char* kTwoTrips =
    "an all-reduce is a reduce-scatter and an all-gather, and sends twice what one of them does.";

std::vector<Suspect> wrong_inside(const SentCase& c) {
  constexpr const char* kOncePerStep =
      "whole gradients add up in place: they are sent once per step, whatever m.";
  constexpr const char* kEveryMicroBatch =
      "a gradient that is sharded cannot wait for the next micro-batch: each is sent in each of m.";
  constexpr const char* kGatherOnce =
      "ZeRO-2 gathers the parameters once per step, after the update: they are whole until then.";
  const double m = count_of(c.micro_batches);
  const double right = trips_of(c);
  const double p = count_of(c.parameters);
  const double n = c.sharding.shards * c.sharding.replicas;
  const double trip = one_trip(c.sharding.shards, c.parameters);
  std::vector<Suspect> suspects = {
      {right * p, kShare},
      {right * p * (n - 1) / n, "inside a copy S ranks take part, not all N."},
      {right * p / c.sharding.shards, kShare}};
  const auto add = [&](double trips, const char* hint) {
    suspects.push_back({trips * trip, hint});
  };
  if (c.sharding.stage < kGradients) {
    add(1, kTwoTrips);
    add(2 * m, kOncePerStep);
    add(m + 1, kOncePerStep);
    add(3,
        "ZeRO-1 puts the optimizer step between the two halves of an all-reduce: one "
        "reduce-scatter of gradients, one all-gather of parameters, nothing more.");
  } else if (c.sharding.stage == kGradients) {
    add(2, kEveryMicroBatch);
    add(2 * m, kGatherOnce);
    add(m, kGatherOnce);
  } else {
    add(2 * m,
        "ZeRO-3 lets go of the parameters after the forward pass: the backward pass gathers them "
        "again.");
    add(3 * m,
        "parameters that are kept until the backward pass are gathered once per micro-batch, not "
        "twice.");
    add(right - m + 1, kEveryMicroBatch);
    for (const double trips : {m + 1, m + 2, right / m})
      add(trips, "ZeRO-3 gathers the parameters anew in each of m micro-batches.");
  }
  return suspects;
}

SentElements expect_sent(const SentCase& c) {
  const SentElements found = sent_per_rank(c.sharding, c.parameters, c.micro_batches, c.reshard);
  const std::string what =
      fmt::format("{}, {} micro-batches{}: elements sent", str(c.sharding, c.parameters),
                  c.micro_batches, c.reshard == Reshard::kAfterBackward ? ", parameters kept" : "");
  expect_close(what + " inside a copy", found.inside,
               trips_of(c) * one_trip(c.sharding.shards, c.parameters), wrong_inside(c));
  const double s = c.sharding.shards;
  const double r = c.sharding.replicas;
  const double shard = count_of(c.parameters) / s;
  const double once = 2 * shard * (r - 1) / r;
  expect_close(
      what + " between copies", found.between, 2 * one_trip(c.sharding.replicas, c.parameters) / s,
      {{0.0,
        "every copy computes its own gradients: what is not added up between them drifts apart."},
       {once * s, "between copies a rank sends the gradients of its shard only, P / S elements."},
       {once / 2, kTwoTrips},
       {2 * shard, kShare},
       {2 * shard * (s * r - 1) / (s * r),
        "between copies R ranks take part, those that hold the same shard."},
       {count_of(c.micro_batches) * once,
        "between copies one all-reduce per step is enough: the shards are summed up by then."}});
  return found;
}

constexpr auto kPrecisions = {NumberFormats::kBf16Mixed, NumberFormats::kBf16MixedFp32Grads,
                              NumberFormats::kFp32, NumberFormats::kFp64};

class ZeroMemory : public ultra::test::RandomTest {
 protected:
  Sharding draw_sharding() {
    return {.stage = kZeroStages.at(random.between(0, kZeroStages.size() - 1)),
            .shards = static_cast<int>(random.between(1, 12)),
            .replicas = static_cast<int>(random.between(1, 5))};
  }
};

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
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    expect_bytes(draw_sharding(), random.between(1, 100'000), random.pick(kPrecisions));
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
        count_of(kMany);
  }
  constexpr const char* kOneParameter =
      "Hint: divide the device's bytes by those that one parameter takes on a rank of this "
      "sharding. The number is real: it is not rounded.";
  EXPECT_TRUE(ultra::test::close(largest_model(sharding, precision, device_bytes),
                                 device_bytes / bytes, kRoundings))
      << to_string(precision) << ", " << str(sharding, kMany) << ", " << device_bytes << " bytes\n"
      << kOneParameter;
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
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    expect_sent({.sharding = draw_sharding(),
                 .parameters = random.between(1, 100'000),
                 .micro_batches = random.between(1, 9),
                 .reshard = random.pick({Reshard::kAfterForward, Reshard::kAfterBackward})});
  }
}

}  // namespace
}  // namespace ultra::zero
