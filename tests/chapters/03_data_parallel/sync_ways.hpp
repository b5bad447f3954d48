#pragma once
/// @file
/// All ways of this chapter to average gradients, for tests that hold for each.

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/03_data_parallel/gradient_sync.hpp"
#include "common/comm/run_ranks.hpp"

namespace ultra::data_parallel::test {

inline constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

/// @brief One way, and how many all-reduces it needs.
struct SyncWay {
  std::string name;
  MakeGradientSync make;
};

/// @brief After the backward pass; and in buckets of several sizes, sent early and late.
inline std::vector<SyncWay> all_ways(const Communicator& dp) {
  std::vector<SyncWay> ways = {
      {"after backward", [dp](nn::Model& model) { return sync_after_backward(model, dp); }}};
  for (const std::size_t capacity :
       {std::size_t{0}, std::size_t{1}, std::size_t{997}, std::size_t{4096}, kEverything}) {
    for (const Flush flush : {Flush::kWhenReady, Flush::kAfterBackward}) {
      const std::string when = flush == Flush::kWhenReady ? "when ready" : "after backward";
      ways.push_back({"buckets of " + std::to_string(capacity) + " " + when,
                      [dp, capacity, flush](nn::Model& model) {
                        return sync_in_buckets(model, capacity, flush, all_reduce_exchange(dp));
                      }});
    }
  }
  return ways;
}

/// @brief All-reduces that add in the order of the ranks, wherever an element stands: the bits do
/// not depend on how gradients are cut into buckets.
inline RankOptions in_rank_order() {
  RankOptions options;
  options.algorithms = std::make_shared<const collectives::BookAlgorithms>(
      collectives::BookOptions{.names = {{OpKind::kAllReduce, "pairwise"}}, .tuning = {}});
  return options;
}

}  // namespace ultra::data_parallel::test
