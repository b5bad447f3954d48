#pragma once
/// @file
/// Buckets of whole numbers, their sums over the ranks, and what a wrong sum means.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "chapters/04_zero/zero_step.hpp"
#include "tests/exercises/04_zero/sharded_rank.hpp"

namespace ultra::zero::test {

inline std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// Buckets, the ranks that exchange them, and how many of them share a copy.
struct Exchange {
  int ranks = 1;
  int node_size = 1;
  DType dtype = DType::kF32;
  std::vector<std::size_t> padded{};  ///< elements of each bucket; the ranks divide them
  std::uint64_t seed = 0;

  [[nodiscard]] int nodes() const { return ranks / node_size; }
  [[nodiscard]] std::string str() const {
    return fmt::format("{} nodes of {} ranks, {}, buckets of {}", nodes(), node_size,
                       to_string(dtype), ::testing::PrintToString(padded));
  }
  /// Sums over ranks [begin, end), each element a multiple of the number of ranks: what is divided by
  /// it is a whole number, too.
  [[nodiscard]] Values sum_over(int begin, int end, std::size_t bucket, Range range) const {
    Values sums;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      sums.push_back(0);
      for (int rank = begin; rank < end; ++rank) {
        sums.back() += ranks * ultra::test::whole_number(seed, rank, bucket, i);
      }
    }
    return sums;
  }
  [[nodiscard]] Tensor bucket(const Device& device, int rank, std::size_t number) const {
    const Values values = sum_over(rank, rank + 1, number, {0, padded[number]});
    return Tensor::from<double>(device, {values.size()}, values)
        .to(dtype, MemoryCategory::kGradients);
  }
};

inline Values divided(Values values, double by) {
  for (double& value : values) value /= by;
  return values;
}

inline std::string hint_for_sum(const Exchange& e, int rank, std::size_t bucket, Range own,
                                const Values& found) {
  struct Mistake {
    int copies;  ///< that it takes to tell
    Values gives;
    const char* hint;
  };
  constexpr const char* kBothAddUp =
      "both operations add up: over the shards' ranks, and between the copies.";
  const Values sum = e.sum_over(0, e.ranks, bucket, own);
  const int node = rank / e.node_size * e.node_size;
  for (const auto& [copies, gives, hint] :
       {Mistake{2, e.sum_over(node, node + e.node_size, bucket, own),
                "the sum over one copy only: the ranks of `replicas` hold the same shard, and add "
                "it up, too."},
        Mistake{1, e.sum_over(rank, rank + 1, bucket, own),
                "these are this rank's own gradients: nothing was reduced into the slice of the "
                "bucket that is its shard."},
        Mistake{2, divided(sum, e.node_size), kBothAddUp},
        Mistake{2, divided(sum, e.nodes()), kBothAddUp},
        Mistake{1, divided(sum, e.ranks),
                "this is the average, N times too small: each rank's gradients are a share of the "
                "whole batch's, and shares are added up."}}) {
    if (e.nodes() >= copies && found == gives) return hint;
  }
  return "shard r of n elements on S ranks is the slice [r n/S, (r+1) n/S) of the bucket.";
}

inline void expect_sum(const Exchange& e, const ShardGroups& groups, std::size_t bucket,
                       const Tensor& flat, const std::string& hint = "") {
  const std::size_t size = flat.numel() / as_size(groups.shards.size());
  const std::size_t begin = as_size(groups.shards.rank()) * size;
  const Range own{begin, begin + size};
  const Tensor shard = flat.slice(0, own);
  EXPECT_TRUE(ultra::test::all_equal(shard, e.sum_over(0, e.ranks, bucket, own)))
      << "bucket " << bucket << ", shard of rank " << groups.dp.rank() << "\nHint: "
      << (hint.empty() ? hint_for_sum(e, groups.dp.rank(), bucket, own, shard.to_vector()) : hint);
}

inline void expect_sent_by_exchange(const Exchange& e, const CommStats& sent) {
  std::size_t inside = 0;
  std::size_t between = 0;
  for (const std::size_t padded : e.padded) {
    const std::size_t bytes = padded * size_of(e.dtype);
    inside += bytes / as_size(e.node_size) * as_size(e.node_size - 1);
    between += 2 * (bytes / as_size(e.node_size)) / as_size(e.nodes()) * as_size(e.nodes() - 1);
  }
  EXPECT_EQ(sent[OpKind::kReduceScatter].sent_bytes, inside)
      << "bytes sent in reduce-scatters, (S-1)/S of the buckets";
  EXPECT_EQ(sent.sent_bytes(), inside + between)
      << "bytes sent in all\nHint: a reduce-scatter sends half of what an all-reduce does: each "
         "rank gets its own shard of the sum, and nothing else. Between copies only the shard is "
         "sent.";
}

}  // namespace ultra::zero::test
