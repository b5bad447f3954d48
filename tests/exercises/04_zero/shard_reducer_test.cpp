// Contract of exercise 04.3: shards against sums of whole numbers, in memory that was full of NaN,
// and how much memory whole groups take at any time.
#include "chapters/04_zero/shard_reducer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "chapters/04_zero/flat_layout.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/on_ranks.hpp"
#include "tests/support/random.hpp"

namespace ultra::zero {
namespace {

using Values = std::vector<double>;

constexpr const char* kAverage =
    "Hint: this is the average over the ranks, N times too small: each rank's gradients are a "
    "share of "
    "the whole batch's, and shares are added up.";
constexpr const char* kOverwritten =
    "Hint: only the last pass is there: a later pass adds its sum to the shard.";
constexpr const char* kWait =
    "Hint: the shard was read while its group was under way: wait for the operation first.";
constexpr const char* kOwnSlice =
    "Hint: rank r's shard is the slice shard_range(layout, r) of the group, where the "
    "reduce-scatter leaves its sum.";
constexpr const char* kPadding =
    "Hint: nobody writes gradients to the padding: open() fills it with 0, or what stood in that "
    "memory before gets into the shard.";
constexpr const char* kTakenIn = "Hint: finish() takes in all groups that are under way.";
constexpr const char* kTwoGroups =
    "Hint: one group is under way and one fills up: before open() takes memory, all groups but one "
    "have been taken in. Each is reduced in place.";
constexpr const char* kOneGroup =
    "Hint: with Overlap::kOff nothing is under way when flush() returns.";
constexpr const char* kClone =
    "Hint: the shard is a clone of this rank's slice, in MemoryCategory::kGradients: the slice "
    "itself would keep the memory of the whole group alive.";
constexpr const char* kOpen =
    "Hint: a group is still in memory when all have been taken in: flush() moves its handle out of "
    "open_, so that only the group under way keeps the memory alive.";
constexpr const char* kInPlace =
    "Hint: the group is reduced in place, and added to the shard in place.";
constexpr const char* kBegin =
    "Hint: with Overlap::kOn flush() only begins to reduce, and open() does not wait for the last "
    "group: the rank goes on computing.";

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

std::string text(Overlap overlap) {
  return overlap == Overlap::kOn ? "Overlap::kOn" : "Overlap::kOff";
}

/// Groups of gradients, and how often they are made.
struct Case {
  int ranks = 1;
  DType dtype = DType::kF32;
  Overlap overlap = Overlap::kOn;
  std::vector<std::vector<std::size_t>> counts;  ///< by group: elements of its tensors
  int passes = 1;
  std::uint64_t seed = 0;

  [[nodiscard]] std::string str() const {
    std::string all = fmt::format("{} passes, {}, {}", passes, to_string(dtype), text(overlap));
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
  /// A multiple of the number of ranks: averages would be whole numbers, too.
  [[nodiscard]] double gradient(int rank, int pass, std::size_t group, std::size_t i) const {
    return ranks * ultra::test::whole_number(seed + as_size(pass), rank, group, i);
  }
  /// Sums over the ranks and over passes [begin, end), for the elements of a range that are no
  /// padding.
  [[nodiscard]] Values sums(int begin, int end, std::size_t group, Range range) const {
    Values all;
    for (std::size_t i = range.begin; i < std::min(range.end, layouts()[group].count); ++i) {
      double sum = 0;
      for (int pass = begin; pass < end; ++pass) {
        for (int rank = 0; rank < ranks; ++rank) sum += gradient(rank, pass, group, i);
      }
      all.push_back(sum);
    }
    return all;
  }
  [[nodiscard]] Values of_rank(int rank, int pass, std::size_t group, Range range) const {
    Values all;
    for (std::size_t i = range.begin; i < std::min(range.end, layouts()[group].count); ++i) {
      all.push_back(gradient(rank, pass, group, i));
    }
    return all;
  }
};

/// One rank's reducer, and what its shards must be.
class Rank {
 public:
  Rank(const Case& the_case, const Communicator& shards)
      : case_(the_case),
        layouts_(the_case.layouts()),
        comm_(shards),
        reducer_(groups(the_case), shards, device_, the_case.dtype, the_case.overlap) {}

  /// Opens a group and writes its gradients; what is no gradient stays as it is.
  void make(int pass, std::size_t group) {
    const FlatLayout& layout = layouts_[group];
    const Tensor flat = reducer_.open(group);
    expect_tensor("the memory of open()", flat, {layout.padded}, case_.dtype);
    EXPECT_EQ(flat.category(), MemoryCategory::kCommunication) << "category of the group's memory";
    dispatch_float(case_.dtype, [&]<class T>() {
      for (std::size_t i = 0; i < layout.count; ++i) {
        flat.span<T>()[i] = static_cast<T>(case_.gradient(comm_.rank(), pass, group, i));
      }
    });
  }

  void run_pass(int pass) {
    for (std::size_t group = 0; group < layouts_.size(); ++group) {
      make(pass, group);
      reducer_.flush(group);
    }
  }

  /// @param begin  the first pass since drop().
  void expect_shard(std::size_t group, int begin, int end, const std::string& hint = "") const {
    const Tensor& shard = reducer_.shard(group);
    const Range own = shard_range(layouts_[group], comm_.rank());
    const std::string who = fmt::format("group {}, shard of rank {}", group, comm_.rank());
    if (!shard.defined() || shard.numel() != own.size()) {
      ADD_FAILURE() << who << (shard.defined() ? " has a wrong size\n" : " is not there\n")
                    << (shard.defined() ? kOwnSlice : kTakenIn);
      return;
    }
    Values found = shard.to_vector();
    const Values expected = case_.sums(begin, end, group, own);
    const Values padding(found.begin() + static_cast<std::ptrdiff_t>(expected.size()), found.end());
    found.resize(expected.size());
    EXPECT_TRUE(found == expected)
        << who
        << fmt::format(", passes {} to {}: found {}, expected {}\n", begin, end - 1,
                       first_wrong(found, expected), first_wrong(expected, found))
        << (hint.empty() ? diagnosis(group, begin, end, found) : hint);
    EXPECT_TRUE(padding == Values(padding.size(), 0.0)) << who << ", padding\n" << kPadding;
  }

  void expect_shards(int begin, int end) const {
    for (std::size_t group = 0; group < layouts_.size(); ++group) expect_shard(group, begin, end);
  }

  /// Bytes of this rank's shards.
  [[nodiscard]] std::size_t shard_bytes() const {
    std::size_t elements = 0;
    for (const FlatLayout& layout : layouts_) elements += layout.shard;
    return elements * size_of(case_.dtype);
  }

  [[nodiscard]] ShardReducer& reducer() { return reducer_; }
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] std::size_t bytes(MemoryCategory category) const {
    return device_.memory().current()[category];
  }

 private:
  static std::vector<ReducedGroup> groups(const Case& the_case) {
    std::vector<ReducedGroup> all;
    for (const FlatLayout& layout : the_case.layouts()) {
      all.push_back({.name = fmt::format("group {}", all.size()), .layout = layout});
    }
    return all;
  }

  static double first_wrong(const Values& values, const Values& others) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != others[i]) return values[i];
    }
    return 0;
  }

  [[nodiscard]] std::string diagnosis(std::size_t group, int begin, int end,
                                      const Values& found) const {
    const Range own = shard_range(layouts_[group], comm_.rank());
    Values average = case_.sums(begin, end, group, own);
    for (double& x : average) x /= case_.ranks;
    if (found == average) return kAverage;
    if (found == case_.sums(end - 1, end, group, own)) return kOverwritten;
    if (found == case_.of_rank(comm_.rank(), end - 1, group, own)) return kWait;
    return kOwnSlice;
  }

  Case case_;
  std::vector<FlatLayout> layouts_;
  Communicator comm_;
  Device device_ = Device::cpu();
  ShardReducer reducer_;
};

class ShardReducerTest : public ultra::test::RandomTest {
 protected:
  Case draw(int ranks, Overlap overlap) {
    Case drawn{.ranks = ranks,
               .dtype = random.pick({DType::kF32, DType::kF64}),
               .overlap = overlap,
               .counts = {},
               .passes = static_cast<int>(random.between(1, 3)),
               .seed = seed};
    drawn.counts.resize(random.between(1, 6));
    for (auto& group : drawn.counts) {
      group.resize(random.between(1, 3));
      for (std::size_t& count : group) count = random.between(0, 20);
    }
    drawn.counts.back()[0] = random.between(1, 20);  // whoever keeps the last one shows it
    drawn.counts[0] = {as_size(3 * ranks + 1)};      // one that has padding
    return drawn;
  }

  /// Calls check(case) for any number of ranks, with and without overlap, until one fails.
  template <class Check>
  void for_cases(const Check& check) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
        for (int i = 0; i < 2 && !HasFailure(); ++i) check(draw(ranks, overlap));
      }
    }
  }
};

TEST_F(ShardReducerTest, ShardsAreTheSumsOverAllPasses) {
  for_cases([](const Case& c) {
    ultra::test::on_ranks(c.ranks, c.str(), [&](Communicator& shards) {
      Rank rank(c, shards);
      for (const FlatLayout& layout : c.layouts()) {
        ultra::test::leave_garbage(rank.device(), layout.padded, c.dtype);
      }
      for (int pass = 0; pass < c.passes; ++pass) rank.run_pass(pass);
      rank.reducer().finish();
      rank.expect_shards(0, c.passes);
    });
  });
}

TEST_F(ShardReducerTest, EveryStepBeginsAgain) {
  for_cases([](const Case& c) {
    ultra::test::on_ranks(c.ranks, c.str(), [&](Communicator& shards) {
      Rank rank(c, shards);
      for (int step = 0; step < 3; ++step) {
        for (int pass = 0; pass < c.passes; ++pass) rank.run_pass(c.passes * step + pass);
        rank.reducer().finish();
        rank.expect_shards(c.passes * step, c.passes * (step + 1));
        rank.reducer().drop();
      }
    });
  });
}

TEST_F(ShardReducerTest, EachPassSendsAllGroupsOnce) {
  for_cases([](const Case& c) {
    ultra::test::on_ranks(c.ranks, c.str(), [&](Communicator& shards) {
      Rank rank(c, shards);
      for (int pass = 0; pass < c.passes; ++pass) rank.run_pass(pass);
      rank.reducer().finish();
      std::size_t elements = 0;
      for (const FlatLayout& layout : c.layouts()) elements += layout.padded - layout.shard;
      const std::size_t bytes = as_size(c.passes) * elements * size_of(c.dtype);
      EXPECT_EQ(shards.stats()[OpKind::kReduceScatter].sent_bytes, bytes)
          << "bytes sent in reduce-scatters";
      EXPECT_EQ(shards.stats().sent_bytes(), bytes)
          << "bytes sent in all\nHint: (S-1)/S of each group: a rank gets nothing but its shard.";
    });
  });
}

// What is under way -------------------------------------------------------------------------------

TEST_F(ShardReducerTest, AShardIsNotReadBeforeTheLastRankHasJoined) {
  for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
    Case c = draw(3, overlap);
    c.counts = {{100}};
    ultra::test::on_ranks(c.ranks, c.str(), [&](Communicator& shards) {
      Rank rank(c, shards);
      rank.make(0, 0);
      ultra::test::come_late(shards);
      rank.reducer().flush(0);
      rank.reducer().finish();
      rank.expect_shard(0, 0, 1, kWait);
    });
    if (HasFailure()) return;
  }
}

/// Rank 0 is a group ahead of the others, who begin when it says so.
TEST_F(ShardReducerTest, TheRankComputesWhileOneGroupIsUnderWay) {
  for (const int ranks : {2, 3, 4}) {
    Case c = draw(ranks, Overlap::kOn);
    c.counts = {{10, 3}, {7}, {20}};
    const auto rank_ahead = [&](Communicator& shards) {
      const Tensor word = Tensor::zeros(Device::cpu(), {1}, DType::kF32);
      Rank rank(c, shards);
      if (shards.rank() > 0) shards.recv(word, 0);
      rank.make(0, 0);
      rank.reducer().flush(0);
      rank.make(0, 1);
      if (shards.rank() == 0) {
        for (int peer = 1; peer < shards.size(); ++peer) shards.send(word, peer);
      }
      rank.reducer().flush(1);
      rank.make(0, 2);
      EXPECT_TRUE(rank.reducer().shard(0).defined())
          << "the first group has not been taken in when the third is opened\n"
          << kTwoGroups;
      rank.reducer().flush(2);
      rank.reducer().finish();
      rank.expect_shards(0, 1);
    };
    ultra::test::on_ranks(ranks, c.str(), rank_ahead, {}, kBegin);
    if (HasFailure()) return;
  }
}

TEST_F(ShardReducerTest, WithoutOverlapNothingIsUnderWayAfterFlush) {
  Case c = draw(3, Overlap::kOff);
  const auto one_by_one = [&](Communicator& shards) {
    Rank rank(c, shards);
    for (std::size_t group = 0; group < c.counts.size(); ++group) {
      rank.make(0, group);
      rank.reducer().flush(group);
      EXPECT_TRUE(rank.reducer().shard(group).defined()) << "group " << group << "\n" << kOneGroup;
      if (rank.reducer().shard(group).defined()) rank.expect_shard(group, 0, 1);
    }
    rank.reducer().finish();
  };
  ultra::test::on_ranks(c.ranks, c.str(), one_by_one);
}

// Memory ------------------------------------------------------------------------------------------

/// A reduce-scatter of the chapter before, and the scratch memory that it takes.
struct Algorithm {
  const char* name;  ///< nullptr: the platform's own, which takes none

  [[nodiscard]] RankOptions options() const {
    RankOptions options;
    if (name != nullptr) options.algorithms = book();
    return ultra::test::on_call(options);
  }
  [[nodiscard]] std::size_t scratch(const FlatLayout& layout, const Communicator& comm) const {
    if (name == nullptr) return 0;
    const auto chunks = comm::Chunks::even({0, layout.padded}, comm.size());
    return book()->reduce_scatter(comm::Group::all(comm.rank(), comm.size()), chunks).scratch_count;
  }

 private:
  [[nodiscard]] std::shared_ptr<const collectives::BookAlgorithms> book() const {
    return std::make_shared<const collectives::BookAlgorithms>(
        collectives::BookOptions{.names = {{OpKind::kReduceScatter, name}}, .tuning = {}});
  }
};

/// The most that groups may take at any time, in bytes.
std::size_t most_for_groups(const Case& c, const Algorithm& algorithm, const Communicator& comm) {
  const std::vector<FlatLayout> layouts = c.layouts();
  std::size_t most = 0;
  std::size_t scratch = 0;
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    // The group before the first is the last of the pass before.
    const FlatLayout& other = layouts[g == 0 ? layouts.size() - 1 : g - 1];
    const bool alone = c.overlap == Overlap::kOff || (layouts.size() == 1 && c.passes == 1);
    most = std::max(most, layouts[g].padded + (alone ? 0 : other.padded));
    scratch = std::max(scratch, algorithm.scratch(layouts[g], comm));
  }
  return (most + scratch) * size_of(c.dtype);
}

TEST_F(ShardReducerTest, NeverMoreThanTwoGroupsAreInMemory) {
  for (const Algorithm algorithm : {Algorithm{nullptr}, Algorithm{"ring"}, Algorithm{"pairwise"}}) {
    for_cases([&](const Case& c) {
      const auto measure = [&](Communicator& shards) {
        Rank rank(c, shards);
        for (int step = 0; step < 2; ++step) {
          rank.device().reset_memory_peaks();
          for (int pass = 0; pass < c.passes; ++pass) rank.run_pass(pass);
          rank.reducer().finish();
          const MemoryTracker memory = rank.device().memory();
          const std::size_t kept = rank.bytes(MemoryCategory::kGradients);
          const std::size_t left = rank.bytes(MemoryCategory::kCommunication);
          EXPECT_EQ(kept, rank.shard_bytes()) << "bytes of the shards\n" << kClone;
          EXPECT_EQ(left, 0U) << "bytes of groups when all have been taken in\n"
                              << (kept < rank.shard_bytes() ? kClone : kOpen);
          const std::size_t most = most_for_groups(c, algorithm, shards);
          EXPECT_LE(memory.peak(MemoryCategory::kCommunication).bytes, most)
              << "bytes of groups at the peak\n"
              << (kept < rank.shard_bytes()    ? kClone
                  : left > 0                   ? kOpen
                  : c.overlap == Overlap::kOff ? kOneGroup
                                               : kTwoGroups);
          EXPECT_LE(memory.peak_total().bytes, most + rank.shard_bytes())
              << "bytes of all memory at the peak\n"
              << kInPlace;
          rank.reducer().drop();
          EXPECT_EQ(rank.bytes(MemoryCategory::kGradients), 0U) << "bytes of shards after drop()";
        }
      };
      ultra::test::on_ranks(c.ranks, c.str(), measure, algorithm.options());
    });
  }
}

}  // namespace
}  // namespace ultra::zero
