#pragma once
/// @file
/// All ways of this chapter to add up gradients, for tests that hold for each.

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/02_collectives/replicated_training.hpp"
#include "chapters/03_data_parallel/bucketed_gradients.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/plain_training.hpp"

namespace ultra::data_parallel::test {

using namespace ultra::test;

inline constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

/// @brief One way, by its name.
struct SyncWay {
  std::string name;
  std::function<std::unique_ptr<train::GradientExchange>(const std::vector<nn::Parameter*>&)> make;
};

/// @brief In buckets of at most so many elements, by one all-reduce each.
inline SyncWay in_buckets(const Communicator& dp, std::size_t capacity,
                          Flush flush = Flush::kWhenReady) {
  const std::string when = flush == Flush::kWhenReady ? "when ready" : "after backward";
  return {"buckets of " + std::to_string(capacity) + " " + when,
          [dp, capacity, flush](const std::vector<nn::Parameter*>& parameters) {
            return sum_in_buckets(parameters, capacity, flush, all_reduce_exchange(dp));
          }};
}

/// @brief After the backward pass; and in buckets of several sizes, sent early and late.
inline std::vector<SyncWay> all_ways(const Communicator& dp) {
  std::vector<SyncWay> ways = {
      {"after backward", [dp](const std::vector<nn::Parameter*>& parameters) {
         return collectives::sum_after_backward(parameters, dp);
       }}};
  for (const std::size_t capacity :
       {std::size_t{0}, std::size_t{1}, std::size_t{997}, std::size_t{4096}, kEverything}) {
    for (const Flush flush : {Flush::kWhenReady, Flush::kAfterBackward}) {
      ways.push_back(in_buckets(dp, capacity, flush));
    }
  }
  return ways;
}

/// @brief The techniques of the chapter's program.
inline train::Techniques techniques() {
  return train::list_of(memory::technique(), collectives::technique(), technique());
}

}  // namespace ultra::data_parallel::test
