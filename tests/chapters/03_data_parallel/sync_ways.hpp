#pragma once
/// @file
/// All ways of this chapter to add up gradients, for tests that hold for each; and trainings whose
/// micro-batch need not divide the global batch.

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/02_collectives/replicated_training.hpp"
#include "chapters/03_data_parallel/batch_shares.hpp"
#include "chapters/03_data_parallel/bucketed_gradients.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/plain_training.hpp"

namespace ultra::data_parallel::test {

using ultra::test::in_rank_order;

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

/// @brief What a run on replicas is, for messages.
inline std::string text_of(const train::TrainOptions& options, std::size_t micro_batch) {
  const nn::ModelConfig& m = options.model;
  return fmt::format("L {} h {} a {} kv {} f {} s {}, micro-batch {} of {}, clip {}, {}",
                     m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads, m.ffn_hidden_size,
                     m.max_seq_len, micro_batch, options.global_batch, options.clip_norm,
                     to_string(options.dtype));
}

/// @brief The chapter's training on the ranks of `dp`.
/// @param micro_batch  of the replicas: any number, unlike that of the options.
/// @param more         techniques behind the chapters'.
template <class... Made>
[[nodiscard]] train::Setup setup_of(const train::TrainOptions& options, const Communicator& dp,
                                    std::size_t micro_batch, const std::string& flags,
                                    Made... more) {
  const auto cut = [micro_batch](train::Ingredients& ingredients) {
    ingredients.cut.claim("a test", [micro_batch](const train::BatchShare& share, std::size_t) {
      return cut_share(share, micro_batch);
    });
  };
  return ultra::test::setup_of(
      options, dp.size(),
      train::list_of(memory::technique(), collectives::technique(), technique(),
                     ultra::test::putting(cut), std::move(more)...),
      flags);
}

}  // namespace ultra::data_parallel::test
