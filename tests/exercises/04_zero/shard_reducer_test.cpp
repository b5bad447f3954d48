// Contract of exercise 04.3: shards against sums of whole numbers, in memory that was full of NaN,
// and how much memory whole groups take at any time.
#include "chapters/04_zero/shard_reducer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/compare.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

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

using Case = ReducerCase;

constexpr const char* kTwoGroups =
    "Hint: one group is under way and one fills up: before open() takes memory, all groups but one "
    "have been taken in. Each is reduced in place.";
constexpr const char* kOneGroup =
    "Hint: with Overlap::kOff nothing is under way when flush() returns.";

class ShardReducerTest : public ultra::test::RandomTest {
 protected:
  Case draw(int ranks, Overlap overlap) {
    Case drawn{.ranks = ranks,
               .dtype = random.pick({DType::kF32, DType::kF64}),
               .overlap = overlap,
               .passes = static_cast<int>(random.between(1, 3)),
               .seed = seed};
    drawn.counts.resize(random.between(1, 6));
    for (auto& group : drawn.counts) {
      group.resize(random.between(1, 3));
      for (std::size_t& count : group) count = random.between(0, 20);
    }
    drawn.counts.back()[0] = random.between(1, 20);  // whoever keeps the last one shows it
    drawn.counts[0] = {3 * static_cast<std::size_t>(ranks) + 1};  // one that has padding
    return drawn;
  }

  /// Calls check(case) for any number of ranks, with and without overlap, until one fails.
  void for_cases(const std::function<void(const Case&)>& check) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
        for (int i = 0; i < 2 && !HasFailure(); ++i) check(draw(ranks, overlap));
      }
    }
  }

  static void on_ranks(const Case& c, const std::function<void(ReducerRank&, Communicator&)>& fn,
                       const RankOptions& options = {}, const std::string& hint = "") {
    const auto body = [&](Communicator& shards) {
      ReducerRank rank(c, shards);
      fn(rank, shards);
    };
    ultra::test::on_ranks(c.ranks, c.str(), body, options, hint);
  }
};

TEST_F(ShardReducerTest, ShardsAreTheSumsOverAllPassesOfAStep) {
  for_cases([](const Case& c) {
    on_ranks(c, [&](ReducerRank& rank, Communicator& shards) {
      std::size_t elements = 0;
      for (const FlatLayout& layout : c.layouts()) {
        ultra::test::leave_garbage(rank.device, layout.padded, c.dtype);
        elements += layout.padded - layout.shard;
      }
      for (int step = 0; step < 3; ++step) {
        rank.run_step(c.passes * step);
        rank.expect_shards(c.passes * step, c.passes * (step + 1));
        rank.reducer.drop();
        const auto passes = static_cast<std::size_t>(c.passes * (step + 1));
        const std::size_t bytes = passes * elements * size_of(c.dtype);
        EXPECT_EQ(shards.stats()[OpKind::kReduceScatter].sent_bytes, bytes)
            << "bytes sent in reduce-scatters: each pass sends all groups once";
        EXPECT_EQ(shards.stats().sent_bytes(), bytes)
            << "bytes sent in all\nHint: (S-1)/S of each group: a rank gets nothing but its shard.";
      }
    });
  });
}

// What is under way -------------------------------------------------------------------------------

TEST_F(ShardReducerTest, AShardIsNotReadBeforeTheLastRankHasJoined) {
  for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
    Case c = draw(3, overlap);
    c.counts = {{100}};
    on_ranks(c, [](ReducerRank& rank, Communicator& shards) {
      rank.make(0, 0);
      ultra::test::come_late(shards);
      rank.reducer.flush(0);
      rank.reducer.finish();
      rank.expect_shard(0, 0, 1, ReducerRank::kWait);
    });
    if (HasFailure()) return;
  }
}

/// Rank 0 is a group ahead of the others, who begin when it says so.
TEST_F(ShardReducerTest, TheRankComputesWhileOneGroupIsUnderWay) {
  const auto rank_ahead = [](ReducerRank& rank, Communicator& shards) {
    const Tensor word = Tensor::zeros(Device::cpu(), {1}, DType::kF32);
    if (shards.rank() > 0) shards.recv(word, 0).wait();
    rank.make(0, 0);
    rank.reducer.flush(0);
    rank.make(0, 1);
    if (shards.rank() == 0) {
      for (int peer = 1; peer < shards.size(); ++peer) shards.send(word, peer).wait();
    }
    rank.reducer.flush(1);
    rank.make(0, 2);
    EXPECT_TRUE(rank.reducer.shard(0).defined())
        << "the first group has not been taken in when the third is opened\n"
        << kTwoGroups;
    rank.reducer.flush(2);
    rank.reducer.finish();
    rank.expect_shards(0, 1);
  };
  for (const int ranks : {2, 3, 4}) {
    Case c = draw(ranks, Overlap::kOn);
    c.counts = {{10, 3}, {7}, {20}};
    on_ranks(c, rank_ahead, {},
             "Hint: with Overlap::kOn flush() only begins to reduce, and open() does not wait for "
             "the last group: the rank goes on computing.");
    if (HasFailure()) return;
  }
}

TEST_F(ShardReducerTest, WithoutOverlapNothingIsUnderWayAfterFlush) {
  const Case c = draw(3, Overlap::kOff);
  on_ranks(c, [&](ReducerRank& rank, Communicator&) {
    for (std::size_t group = 0; group < c.counts.size(); ++group) {
      rank.make(0, group);
      rank.reducer.flush(group);
      EXPECT_TRUE(rank.reducer.shard(group).defined()) << "group " << group << "\n" << kOneGroup;
      if (rank.reducer.shard(group).defined()) rank.expect_shard(group, 0, 1);
    }
    rank.reducer.finish();
  });
}

// Memory ------------------------------------------------------------------------------------------

/// The most that groups may take at any time, in bytes.
/// @param algorithm  of chapter 02, which takes memory of its own; null: the platform's, takes none.
std::size_t most_for_groups(const Case& c, const collectives::BookAlgorithms* algorithm,
                            const Communicator& comm) {
  const std::vector<FlatLayout> layouts = c.layouts();
  const bool alone = c.overlap == Overlap::kOff || (layouts.size() == 1 && c.passes == 1);
  std::size_t most = 0;
  std::size_t scratch = 0;
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    // The group before the first is the last of the pass before.
    const FlatLayout& other = layouts[g == 0 ? layouts.size() - 1 : g - 1];
    most = std::max(most, layouts[g].padded + (alone ? 0 : other.padded));
    if (algorithm == nullptr) continue;
    const auto chunks = comm::Chunks::even({0, layouts[g].padded}, comm.size());
    const auto group = comm::Group::all(comm.rank(), comm.size());
    scratch = std::max(scratch, algorithm->reduce_scatter(group, chunks).scratch_count);
  }
  return (most + scratch) * size_of(c.dtype);
}

TEST_F(ShardReducerTest, NeverMoreThanTwoGroupsAreInMemory) {
  constexpr const char* kClone =
      "Hint: the shard is a clone of this rank's slice, in MemoryCategory::kGradients: the slice "
      "itself would keep the memory of the whole group alive.";
  constexpr const char* kOpen =
      "Hint: a group is still in memory when all have been taken in: flush() moves its handle out "
      "of open_, so that only the group under way keeps the memory alive.";
  for (const char* name : {"", "ring", "pairwise"}) {
    RankOptions options = ultra::test::on_call();
    const collectives::BookOptions book{.names = {{OpKind::kReduceScatter, name}}, .tuning = {}};
    const auto algorithm =
        *name == '\0' ? nullptr : std::make_shared<const collectives::BookAlgorithms>(book);
    if (algorithm) options.algorithms = algorithm;
    for_cases([&](const Case& c) {
      const auto measure = [&](ReducerRank& rank, Communicator& shards) {
        const std::size_t most = most_for_groups(c, algorithm.get(), shards);
        for (int step = 0; step < 2; ++step) {
          rank.device.reset_memory_peaks();
          rank.run_step();
          const MemoryTracker memory = rank.device.memory();
          const std::size_t kept = rank.bytes(MemoryCategory::kGradients);
          const std::size_t left = rank.bytes(MemoryCategory::kCommunication);
          EXPECT_EQ(kept, rank.shard_bytes()) << "bytes of the shards\n" << kClone;
          EXPECT_EQ(left, 0U) << "bytes of groups when all have been taken in\n"
                              << (kept < rank.shard_bytes() ? kClone : kOpen);
          EXPECT_LE(memory.peak(MemoryCategory::kCommunication).bytes, most)
              << "bytes of groups at the peak\n"
              << (kept < rank.shard_bytes()    ? kClone
                  : left > 0                   ? kOpen
                  : c.overlap == Overlap::kOff ? kOneGroup
                                               : kTwoGroups);
          EXPECT_LE(memory.peak_total().bytes, most + rank.shard_bytes())
              << "bytes of all memory at the peak\nHint: the group is reduced in place, and added "
                 "to the shard in place.";
          rank.reducer.drop();
          EXPECT_EQ(rank.bytes(MemoryCategory::kGradients), 0U) << "bytes of shards after drop()";
        }
      };
      on_ranks(c, measure, options);
    });
  }
}

}  // namespace
}  // namespace ultra::zero
