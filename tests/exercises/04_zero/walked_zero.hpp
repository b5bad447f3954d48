#pragma once
/// @file
/// Shards dealt out one by one, the collectives of a step walked through, and what both look like after
/// a typical mistake.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "chapters/01_memory/model_presets.hpp"
#include "chapters/02_collectives/ring_cost.hpp"
#include "chapters/04_zero/zero_memory.hpp"
#include "tests/support/suspects.hpp"

namespace ultra::zero::test {

using memory::NumberFormats;
using memory::StateBytes;
using ultra::test::Suspect;
using enum ZeroStage;

inline double real(std::size_t value) { return static_cast<double>(value); }

/// Both numbers are the same few products and quotients in another order.
inline constexpr double kRoundings = 1e-12;

inline void expect_close(const std::string& what, double found, double expected,
                         const std::vector<Suspect>& suspects) {
  EXPECT_TRUE(ultra::test::close(found, expected, kRoundings))
      << what << ": " << fmt::format("{}", found) << ", expected " << fmt::format("{}", expected)
      << ". " << ultra::test::diagnosis(found, expected, suspects, kRoundings);
}

inline std::string str(const Sharding& sharding, std::size_t parameters) {
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
inline constexpr State kStates[] = {
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
inline double dealt(const Sharding& sharding, std::size_t parameters,
                    std::size_t bytes_per_parameter, bool sharded) {
  const auto ranks = static_cast<std::size_t>(sharding.shards);
  std::size_t bytes = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t own = parameters / ranks + (rank < parameters % ranks ? 1 : 0);
    bytes += bytes_per_parameter * (sharded ? own : parameters);
  }
  return real(bytes) / real(ranks);
}

/// Holds each state against shards that are dealt out; returns what was found.
inline RankBytes expect_bytes(const Sharding& sharding, std::size_t parameters,
                              NumberFormats precision) {
  const RankBytes found = bytes_per_rank(sharding, parameters, precision);
  const double s = sharding.shards;
  for (const State& state : kStates) {
    const std::size_t per_parameter = memory::bytes_per_parameter(precision).*state.per_parameter;
    const double all = real(per_parameter * parameters);
    std::vector<Suspect> suspects = {
        {all, state.is_whole},
        {all / s, state.is_sharded},
        {all / s / sharding.replicas,
         "hybrid sharding divides by S, the ranks of a node: every node has a copy of its own."},
        {std::floor(all / s),
         "divide as real numbers, after the product: S need not divide the bytes."}};
    if (per_parameter == 12) {
      for (const double divisor : {1.0, s}) {
        const double moments = 8.0 * real(parameters) / divisor;
        suspects.push_back(
            {moments,
             "the fp32 master weights are optimizer states, too: 4 + 8 bytes in mixed precision."});
        suspects.push_back({4.0 * real(parameters) + moments,
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
inline double trips_of(const SentCase& c) {
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
inline double one_trip(int ranks, std::size_t parameters) {
  return collectives::ring_all_gather_cost(ranks, parameters, 1, {}).sent_bytes;
}

inline constexpr const char* kShare =
    "in a ring of S ranks each sends P (S - 1) / S: what ends at a rank need not be sent on.";
inline constexpr const char* kTwoTrips =
    "an all-reduce is a reduce-scatter and an all-gather, and sends twice what one of them does.";

inline std::vector<Suspect> wrong_inside(const SentCase& c) {
  constexpr const char* kOncePerStep =
      "whole gradients add up in place: they are sent once per step, whatever m.";
  constexpr const char* kEveryMicroBatch =
      "a gradient that is sharded cannot wait for the next micro-batch: each is sent in each of m.";
  constexpr const char* kGatherOnce =
      "ZeRO-2 gathers the parameters once per step, after the update: they are whole until then.";
  const double m = real(c.micro_batches);
  const double right = trips_of(c);
  const double p = real(c.parameters);
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

inline SentElements expect_sent(const SentCase& c) {
  const SentElements found = sent_per_rank(c.sharding, c.parameters, c.micro_batches, c.reshard);
  const std::string what =
      fmt::format("{}, {} micro-batches{}: elements sent", str(c.sharding, c.parameters),
                  c.micro_batches, c.reshard == Reshard::kAfterBackward ? ", parameters kept" : "");
  expect_close(what + " inside a copy", found.inside,
               trips_of(c) * one_trip(c.sharding.shards, c.parameters), wrong_inside(c));
  const double s = c.sharding.shards;
  const double r = c.sharding.replicas;
  const double shard = real(c.parameters) / s;
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
       {real(c.micro_batches) * once,
        "between copies one all-reduce per step is enough: the shards are summed up by then."}});
  return found;
}

}  // namespace ultra::zero::test
