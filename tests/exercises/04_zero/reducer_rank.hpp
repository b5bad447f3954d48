#pragma once
/// @file
/// One rank whose gradients are reduced to shards, and the sums that these must be: what the tests of
/// exercise 04.3 look at.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "chapters/04_zero/shard_reducer.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/ranks/on_ranks.hpp"

namespace ultra::zero::test {

using Values = std::vector<double>;

/// @brief Groups of gradients, and how often they are made.
struct ReducerCase {
  int ranks = 1;
  DType dtype = DType::kF32;
  Overlap overlap = Overlap::kOn;
  std::vector<std::vector<std::size_t>> counts{};  ///< by group: elements of its tensors
  int passes = 1;
  std::uint64_t seed = 0;

  [[nodiscard]] std::string str() const {
    std::string all = fmt::format("{} passes, {}, Overlap::{}", passes, to_string(dtype),
                                  overlap == Overlap::kOn ? "kOn" : "kOff");
    for (const FlatLayout& layout : layouts()) {
      all += fmt::format(", a group of {} elements in {}", layout.count, layout.padded);
    }
    return all;
  }
  [[nodiscard]] std::vector<FlatLayout> layouts() const {
    std::vector<FlatLayout> all;
    for (const auto& group : counts) all.push_back(flat_layout(group, ranks));
    return all;
  }
  /// @brief A multiple of the number of ranks: averages would be whole numbers, too.
  [[nodiscard]] double gradient(int rank, int pass, std::size_t group, std::size_t i) const {
    return ranks * ultra::test::whole_number(seed + static_cast<std::size_t>(pass), rank, group, i);
  }
};

/// @brief One rank's reducer, and what its shards must be.
class ReducerRank {
 public:
  ReducerRank(const ReducerCase& the_case, const Communicator& shards)
      : reducer(groups(the_case), shards, device, the_case.dtype, the_case.overlap),
        case_(the_case),
        layouts_(the_case.layouts()),
        comm_(shards) {}

  /// @brief Opens a group and writes its gradients; what is no gradient stays as it is.
  void make(int pass, std::size_t group) {
    const FlatLayout& layout = layouts_[group];
    const Tensor flat = reducer.open(group);
    expect_tensor("the memory of open()", flat, {layout.padded}, case_.dtype);
    EXPECT_EQ(flat.category(), MemoryCategory::kCommunication) << "category of the group's memory";
    dispatch_float(case_.dtype, [&]<class T>() {
      for (std::size_t i = 0; i < layout.count; ++i) {
        flat.span<T>()[i] = static_cast<T>(case_.gradient(comm_.rank(), pass, group, i));
      }
    });
  }

  /// @brief A step of passes [first, first + passes).
  void run_step(int first = 0) {
    for (int pass = first; pass < first + case_.passes; ++pass) {
      for (std::size_t group = 0; group < layouts_.size(); ++group) {
        make(pass, group);
        reducer.flush(group);
      }
    }
    reducer.finish();
  }

  /// @brief The shard of a group is the sum over passes [begin, end).
  void expect_shard(std::size_t group, int begin, int end, const char* hint = nullptr) const {
    const Tensor& shard = reducer.shard(group);
    const std::size_t size = layouts_[group].shard;
    const std::string who = fmt::format("group {}, shard of rank {}", group, comm_.rank());
    ASSERT_TRUE(shard.defined())
        << who << " is not there\nHint: finish() takes in all groups that are under way.";
    ASSERT_EQ(shard.numel(), size) << who << "\n" << kOwnSlice;
    const Values expected = sums(group, begin, end, 0, case_.ranks);
    const Values found = shard.to_vector();
    for (std::size_t i = 0; i < size; ++i) {
      const bool padding =
          shard_range(layouts_[group], comm_.rank()).begin + i >= layouts_[group].count;
      ASSERT_EQ(found[i], expected[i]) << who
                                       << fmt::format(", passes {} to {}, {} {}\n", begin, end - 1,
                                                      padding ? "padding" : "element", i)
                                       << (padding           ? kPadding
                                           : hint != nullptr ? hint
                                                             : diagnosis(group, begin, end, found));
    }
  }
  void expect_shards(int begin, int end) const {
    for (std::size_t group = 0; group < layouts_.size(); ++group) expect_shard(group, begin, end);
  }

  /// @brief Bytes of this rank's shards.
  [[nodiscard]] std::size_t shard_bytes() const {
    std::size_t elements = 0;
    for (const FlatLayout& layout : layouts_) elements += layout.shard;
    return elements * size_of(case_.dtype);
  }
  [[nodiscard]] std::size_t bytes(MemoryCategory category) const {
    return device.memory().current()[category];
  }

  Device device = Device::cpu();
  ShardReducer reducer;

  static constexpr const char* kWait =
      "Hint: the shard was read while its group was under way: wait for the operation first.";

 private:
  static constexpr const char* kOwnSlice =
      "Hint: rank r's shard is the slice shard_range(layout, r) of the group, where the "
      "reduce-scatter leaves its sum.";
  static constexpr const char* kPadding =
      "Hint: nobody writes gradients to the padding: open() fills it with 0, or what stood in that "
      "memory before gets into the shard.";

  static std::vector<ReducedGroup> groups(const ReducerCase& the_case) {
    std::vector<ReducedGroup> all;
    for (const FlatLayout& layout : the_case.layouts()) {
      all.push_back({.name = fmt::format("group {}", all.size()), .layout = layout});
    }
    return all;
  }

  /// This rank's shard of the sum over some passes and ranks; padding is 0.
  [[nodiscard]] Values sums(std::size_t group, int first_pass, int last_pass, int first_rank,
                            int last_rank) const {
    const Range own = shard_range(layouts_[group], comm_.rank());
    Values all(own.size(), 0.0);
    for (std::size_t i = own.begin; i < std::min(own.end, layouts_[group].count); ++i) {
      for (int pass = first_pass; pass < last_pass; ++pass) {
        for (int rank = first_rank; rank < last_rank; ++rank) {
          all[i - own.begin] += case_.gradient(rank, pass, group, i);
        }
      }
    }
    return all;
  }

  [[nodiscard]] const char* diagnosis(std::size_t group, int begin, int end,
                                      const Values& found) const {
    Values average = sums(group, begin, end, 0, case_.ranks);
    for (double& x : average) x /= case_.ranks;
    if (found == average) {
      return "Hint: this is the average over the ranks, N times too small: each rank's gradients "
             "are a share of the whole batch's, and shares are added up.";
    }
    if (found == sums(group, end - 1, end, 0, case_.ranks)) {
      return "Hint: only the last pass is there: a later pass adds its sum to the shard.";
    }
    const int rank = comm_.rank();
    return found == sums(group, end - 1, end, rank, rank + 1) ? kWait : kOwnSlice;
  }

  ReducerCase case_;
  std::vector<FlatLayout> layouts_;
  Communicator comm_;
};

}  // namespace ultra::zero::test
