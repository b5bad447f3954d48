// Contract of exercise 04.6: cases worked by hand, published figures, each state's share of the bytes,
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
using ultra::test::expect_close;
using ultra::test::Suspect;
using enum ZeroStage;

/// Both numbers are the same few products and quotients in another order.
constexpr double kRoundings = 1e-12;

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

/// Holds each state against its share of the bytes; returns what was found.
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
      const double moments = 8.0 * count_of(parameters);
      for (const double wrong : {moments, moments / s, all - moments + moments / s}) {
        suspects.push_back({wrong,
                            "the fp32 master weights are optimizer states, too: 4 + 8 bytes in "
                            "mixed precision. They are sharded with the moments."});
      }
    }
    expect_close(fmt::format("{}, {}: bytes of the {}", str(sharding, parameters),
                             to_string(precision), state.name),
                 found.*state.found, sharding.stage >= state.sharded_from ? all / s : all, suspects,
                 kRoundings);
  }
  return found;
}

/// Walks through a step and counts trips around the ring of a copy.
double trips_of(ZeroStage stage, std::size_t micro_batches, Reshard reshard) {
  double trips = 0;
  for (std::size_t pass = 0; pass < micro_batches; ++pass) {
    if (stage == kParameters) ++trips;  // gathered for the forward pass, and for the backward pass:
    if (stage == kParameters && reshard == Reshard::kAfterForward) ++trips;
    if (stage >= kGradients) ++trips;  // scattered: this micro-batch's gradients
  }
  if (stage < kGradients) ++trips;   // scattered: the sum over the micro-batches
  if (stage < kParameters) ++trips;  // gathered: the gradients, or the new weights
  return trips;
}

/// What a stage sends in its trips.
const char* rule_of(ZeroStage stage, Reshard reshard) {
  if (stage < kGradients) {
    return "whole gradients add up in place, and are sent once per step, whatever m. An all-reduce "
           "is a reduce-scatter and an all-gather, two trips; ZeRO-1 puts its step between them.";
  }
  if (stage == kGradients) {
    return "a gradient that is sharded cannot wait for the next micro-batch: it is sent in each of "
           "m. The parameters are gathered once per step, after the update.";
  }
  return reshard == Reshard::kAfterForward
             ? "ZeRO-3 lets go of the parameters after the forward pass: the backward pass gathers "
               "them again. So it is in each of m micro-batches, and gradients are sent in each."
             : "parameters that are kept until the backward pass are gathered once in each of m "
               "micro-batches, and gradients are sent in each.";
}

SentElements expect_sent(const Sharding& sharding, std::size_t parameters,
                         std::size_t micro_batches, Reshard reshard = Reshard::kAfterForward) {
  const SentElements found = sent_per_rank(sharding, parameters, micro_batches, reshard);
  const std::string what =
      fmt::format("{}, {} micro-batches{}: elements sent", str(sharding, parameters), micro_batches,
                  reshard == Reshard::kAfterBackward ? ", parameters kept" : "");
  const double p = count_of(parameters);
  const double s = sharding.shards;
  const double r = sharding.replicas;
  const auto one_trip = [&](int ranks) {
    return collectives::ring_all_gather_cost(ranks, parameters, 1, {}).sent_bytes;
  };
  const double trip = one_trip(sharding.shards);
  const double trips = trips_of(sharding.stage, micro_batches, reshard);
  expect_close(
      what + " inside a copy", found.inside, trips * trip,
      {{trips * p,
        "in a ring of S ranks each sends P (S - 1) / S: what ends at a rank need not be sent on."},
       {trips * p * (s * r - 1) / (s * r), "inside a copy S ranks take part, not all N."},
       {found.inside, rule_of(sharding.stage, reshard)}},
      kRoundings);
  const double once = 2 * p / s * (r - 1) / r;
  expect_close(
      what + " between copies", found.between, 2 * one_trip(sharding.replicas) / s,
      {{0.0,
        "every copy computes its own gradients: what is not added up between them drifts apart."},
       {once * s, "between copies a rank sends the gradients of its shard only, P / S elements."},
       {count_of(micro_batches) * once,
        "between copies one all-reduce per step is enough: the shards are summed up by then."},
       {found.between,
        "an all-reduce of P / S elements, over R ranks, is two trips of their ring."}},
      kRoundings);
  return found;
}

class ZeroMemory : public ultra::test::RandomTest {};

/// The figures are those of Rajbhandari et al. 2020, "ZeRO", arXiv 1910.02054, with 64 ranks.
TEST_F(ZeroMemory, ByHandAndAsPublished) {
  struct Row {
    ZeroStage stage;
    RankBytes ten;      // 10 parameters on 4 ranks: 2.5 each
    double gigabytes;   // 7.5B parameters: figure 1
    double billions;    // parameters on ranks of 32 GB: table 2, printed digits, cut off
    double sent_for_1;  // micro-batch: 12 parameters on 3 nodes of 4 ranks, 9 in a trip
    double sent_for_3;  // micro-batches
  };
  const NumberFormats mixed = NumberFormats::kBf16Mixed;
  for (const Row& row :
       {Row{kNone, {20, 20, 120}, 120, 2, 18, 18}, Row{kOptimizer, {20, 20, 30}, 31.4, 7.6, 18, 18},
        Row{kGradients, {20, 5, 30}, 16.6, 14.4, 18, 36},
        Row{kParameters, {5, 5, 30}, 1.9, 128, 27, 81}}) {
    const Sharding on_64{.stage = row.stage, .shards = 64};
    EXPECT_EQ(expect_bytes({.stage = row.stage, .shards = 4}, 10, mixed), row.ten);
    EXPECT_NEAR(expect_bytes(on_64, 7'500'000'000, mixed).total() / 1e9, row.gigabytes, 0.05);
    const double largest = largest_model(on_64, mixed, 32e9) * (1 + kRoundings);
    EXPECT_DOUBLE_EQ(std::floor(largest / 1e8) / 10, row.billions);
    const Sharding hybrid{.stage = row.stage, .shards = 4, .replicas = 3};
    EXPECT_DOUBLE_EQ(expect_sent(hybrid, 12, 1).inside, row.sent_for_1);
    EXPECT_DOUBLE_EQ(expect_sent(hybrid, 12, 3).inside, row.sent_for_3);
    EXPECT_DOUBLE_EQ(expect_sent(hybrid, 12, 3).between, 4);  // of a shard of 3
  }
  const Sharding kept{.stage = kParameters, .shards = 4};
  EXPECT_DOUBLE_EQ(expect_sent(kept, 12, 3, Reshard::kAfterBackward).inside, 54);
}

TEST_F(ZeroMemory, AsDefinedForAnySharding) {
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    const Sharding sharding{.stage = kZeroStages.at(random.between(0, kZeroStages.size() - 1)),
                            .shards = static_cast<int>(random.between(1, 12)),
                            .replicas = static_cast<int>(random.between(1, 5))};
    const std::size_t parameters = random.between(1, 100'000);
    const auto precision =
        random.pick({NumberFormats::kBf16Mixed, NumberFormats::kBf16MixedFp32Grads,
                     NumberFormats::kFp32, NumberFormats::kFp64});
    const double bytes = expect_bytes(sharding, parameters, precision).total();
    EXPECT_TRUE(ultra::test::close(largest_model(sharding, precision, bytes / 7),
                                   count_of(parameters) / 7, kRoundings))
        << to_string(precision) << ", " << str(sharding, parameters) << ", a seventh of its bytes\n"
        << "Hint: divide the device's bytes by those that one parameter takes on a rank of this "
           "sharding. The number is real: it is not rounded.";
    expect_sent(sharding, parameters, random.between(1, 9),
                random.pick({Reshard::kAfterForward, Reshard::kAfterBackward}));
  }
}

}  // namespace
}  // namespace ultra::zero
