// Contract of exercise 04.3: shards against sums of whole numbers, in memory that was full of NaN,
// and how much memory whole groups take at any time.
#include "chapters/04_zero/shard_reducer.hpp"

#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using Values = std::vector<double>;

constexpr const char* kOneGroup =
    "Hint: with Overlap::kOff nothing is under way when flush() returns.";
constexpr const char* kTwoGroups =
    "Hint: one group is under way and one fills up: before open() takes memory, all groups but one "
    "have been taken in. Each is reduced in place.";
constexpr const char* kWait =
    "Hint: the shard was read while its group was under way: wait for the operation first.";
constexpr const char* kOwnSlice =
    "Hint: rank r's shard is the slice shard_range(layout, r) of the group, where the "
    "reduce-scatter leaves its sum.";
constexpr const char* kPadding =
    "Hint: nobody writes gradients to the padding: open() fills it with 0, or what stood in that "
    "memory before gets into the shard.";
constexpr const char* kClone =
    "Hint: the shard is a clone of this rank's slice, in MemoryCategory::kGradients: the slice "
    "itself would keep the memory of the whole group alive.";
constexpr const char* kOpen =
    "Hint: a group is still in memory when all have been taken in: flush() moves its handle out of "
    "open_, so that only the group under way keeps the memory alive.";

/// Groups of gradients, and how often they are made.
struct Case {
  int ranks = 1;
  DType dtype = DType::kF32;
  Overlap overlap = Overlap::kOn;
  std::vector<FlatLayout> layouts{};  ///< by group
  int passes = 1;
  std::uint64_t seed = 0;

  [[nodiscard]] std::string str() const {
    std::string all = fmt::format("{} passes, {}, Overlap::{}", passes, to_string(dtype),
                                  overlap == Overlap::kOn ? "kOn" : "kOff");
    for (const FlatLayout& layout : layouts) {
      all += fmt::format(", a group of {} elements in {}", layout.count, layout.padded);
    }
    return all;
  }
  /// A multiple of the number of ranks: averages would be whole numbers, too.
  [[nodiscard]] double gradient(int rank, int pass, std::size_t group, std::size_t i) const {
    return ranks * ultra::test::whole_number(seed + static_cast<std::size_t>(pass), rank, group, i);
  }
  /// A rank's shard of the sum over some passes and ranks; padding is 0.
  [[nodiscard]] Values sums(std::size_t group, int owner, Range of_passes, Range of_ranks) const {
    const Range own = shard_range(layouts[group], owner);
    Values all(own.size(), 0.0);
    for (std::size_t i = own.begin; i < std::min(own.end, layouts[group].count); ++i) {
      for (std::size_t pass = of_passes.begin; pass < of_passes.end; ++pass) {
        for (std::size_t rank = of_ranks.begin; rank < of_ranks.end; ++rank) {
          all[i - own.begin] += gradient(static_cast<int>(rank), static_cast<int>(pass), group, i);
        }
      }
    }
    return all;
  }
  /// What is wrong with a rank's shard of the sum over passes [begin, end).
  [[nodiscard]] const char* hint(std::size_t group, int owner, Range of_passes,
                                 const Values& found) const {
    const Range all{0, static_cast<std::size_t>(ranks)};
    const Range last{of_passes.end - 1, of_passes.end};
    const auto own = static_cast<std::size_t>(owner);
    Values average = sums(group, owner, of_passes, all);
    for (double& x : average) x /= ranks;
    if (found == average) {
      return "Hint: this is the average over the ranks, N times too small: each rank's gradients "
             "are a share of the whole batch's, and shares are added up.";
    }
    if (found == sums(group, owner, last, all)) {
      return "Hint: only the last pass is there: a later pass adds its sum to the shard.";
    }
    return found == sums(group, owner, last, {own, own + 1}) ? kWait : kOwnSlice;
  }
  /// The most that groups may take at any time, in bytes. The one before the first is the last.
  [[nodiscard]] std::size_t most_for_groups() const {
    const bool alone = overlap == Overlap::kOff || (layouts.size() == 1 && passes == 1);
    std::size_t most = 0;
    for (std::size_t g = 0; g < layouts.size(); ++g) {
      const FlatLayout& other = layouts[g == 0 ? layouts.size() - 1 : g - 1];
      most = std::max(most, layouts[g].padded + (alone ? 0 : other.padded));
    }
    return most * size_of(dtype);
  }
};

/// One rank's reducer.
struct Rank {
  Rank(const Case& of, const Communicator& shards) : c(of), comm(shards) {
    std::vector<ReducedGroup> groups;
    for (const FlatLayout& layout : c.layouts) {
      groups.push_back({.name = fmt::format("group {}", groups.size()), .layout = layout});
    }
    reducer.emplace(groups, shards, device, c.dtype, c.overlap);
  }

  /// Opens a group and writes its gradients; what is no gradient stays as it is.
  void make(int pass, std::size_t group) {
    const FlatLayout& layout = c.layouts[group];
    const Tensor flat = reducer->open(group);
    expect_tensor("the memory of open()", flat, {layout.padded}, c.dtype);
    EXPECT_EQ(flat.category(), MemoryCategory::kCommunication) << "category of the group's memory";
    dispatch_float(c.dtype, [&]<class T>() {
      for (std::size_t i = 0; i < layout.count; ++i) {
        flat.span<T>()[i] = static_cast<T>(c.gradient(comm.rank(), pass, group, i));
      }
    });
  }
  /// The shards of all groups, summed up over passes [begin, end).
  void expect_shards(int begin, int end) const {
    const Range passes{static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
    for (std::size_t group = 0; group < c.layouts.size(); ++group) {
      const Tensor& shard = reducer->shard(group);
      const Range own = shard_range(c.layouts[group], comm.rank());
      ASSERT_TRUE(shard.defined()) << "Hint: finish() takes in all groups that are under way.";
      ASSERT_EQ(shard.numel(), own.size()) << kOwnSlice;
      const Values expected =
          c.sums(group, comm.rank(), passes, {0, static_cast<std::size_t>(c.ranks)});
      const Values found = shard.to_vector();
      const auto wrong = std::ranges::mismatch(found, expected).in1 - found.begin();
      const bool padding = own.begin + static_cast<std::size_t>(wrong) >= c.layouts[group].count;
      ASSERT_EQ(found, expected) << "group " << group << ", shard of rank " << comm.rank() << "\n"
                                 << (padding ? kPadding
                                             : c.hint(group, comm.rank(), passes, found));
    }
  }
  [[nodiscard]] std::size_t bytes(MemoryCategory category) const {
    return device.memory().current()[category];
  }

  const Case& c;
  Communicator comm;
  Device device = Device::cpu();
  std::optional<ShardReducer> reducer;
};

class ShardReducerTest : public ultra::test::RandomTest {
 protected:
  Case draw(int ranks, Overlap overlap) {
    Case drawn{.ranks = ranks,
               .dtype = random.pick({DType::kF32, DType::kF64}),
               .overlap = overlap,
               .passes = static_cast<int>(random.between(1, 3)),
               .seed = seed};
    std::vector<std::size_t> counts(random.between(1, 6));
    for (std::size_t& count : counts) count = random.between(0, 60);
    counts.back() = random.between(1, 60);                // whoever keeps the last one shows it
    counts[0] = 3 * static_cast<std::size_t>(ranks) + 1;  // one that has padding
    return with(drawn, counts);
  }
  static Case with(Case c, const std::vector<std::size_t>& counts) {
    c.layouts.clear();
    for (const std::size_t count : counts) {
      c.layouts.push_back(flat_layout(std::vector{count}, c.ranks));
    }
    return c;
  }
  static void on_ranks(const Case& c, const std::function<void(Rank&)>& fn,
                       const RankOptions& options = {}, const std::string& hint = "") {
    const auto body = [&](Communicator& shards) {
      Rank rank(c, shards);
      fn(rank);
    };
    ultra::test::on_ranks(c.ranks, c.str(), body, options, hint);
  }
  /// Sums, what is sent and what is kept, of three steps.
  static void expect_steps(const Case& c, Rank& rank) {
    std::size_t sent = 0;
    std::size_t kept = 0;
    for (const FlatLayout& layout : c.layouts) {
      ultra::test::leave_garbage(rank.device, layout.padded, c.dtype);
      sent += (layout.padded - layout.shard) * size_of(c.dtype);
      kept += layout.shard * size_of(c.dtype);
    }
    for (int first = 0; first < 3 * c.passes; first += c.passes) {
      rank.device.reset_memory_peaks();
      const std::size_t before = rank.comm.stats().sent_bytes();
      for (int pass = first; pass < first + c.passes; ++pass) {
        for (std::size_t group = 0; group < c.layouts.size(); ++group) {
          rank.make(pass, group);
          rank.reducer->flush(group);
          EXPECT_TRUE(c.overlap == Overlap::kOn || rank.reducer->shard(group).defined())
              << kOneGroup;
        }
      }
      rank.reducer->finish();
      rank.expect_shards(first, first + c.passes);
      EXPECT_EQ(rank.comm.stats().sent_bytes() - before, static_cast<std::size_t>(c.passes) * sent)
          << "bytes sent in a step\nHint: (S-1)/S of each group in each pass: a rank gets nothing "
             "but its shard.";
      const std::size_t shards = rank.bytes(MemoryCategory::kGradients);
      const std::size_t left = rank.bytes(MemoryCategory::kCommunication);
      EXPECT_EQ(shards, kept) << "bytes of the shards\n" << kClone;
      EXPECT_EQ(left, 0U) << "bytes of groups when all have been taken in\n"
                          << (shards < kept ? kClone : kOpen);
      const MemoryTracker memory = rank.device.memory();
      EXPECT_LE(memory.peak(MemoryCategory::kCommunication).bytes, c.most_for_groups())
          << "bytes of groups at the peak\n"
          << (shards < kept                ? kClone
              : left > 0                   ? kOpen
              : c.overlap == Overlap::kOff ? kOneGroup
                                           : kTwoGroups);
      EXPECT_LE(memory.peak_total().bytes, c.most_for_groups() + kept)
          << "bytes of all memory at the peak\nHint: the group is reduced in place, and added to "
             "the shard in place.";
      rank.reducer->drop();
      EXPECT_EQ(rank.bytes(MemoryCategory::kGradients), 0U) << "bytes of shards after drop()";
    }
  }
};

TEST_F(ShardReducerTest, ShardsAreTheSumsOverAllPassesAndAtMostTwoGroupsAreInMemory) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
      for (int i = 0; i < 3 && !HasFailure(); ++i) {
        const Case c = draw(ranks, overlap);
        on_ranks(
            c, [&](Rank& rank) { expect_steps(c, rank); }, ultra::test::on_call());
      }
    }
  }
}

TEST_F(ShardReducerTest, AShardIsNotReadBeforeTheLastRankHasJoined) {
  for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
    on_ranks(with(draw(3, overlap), {100}), [](Rank& rank) {
      rank.make(0, 0);
      ultra::test::come_late(rank.comm);
      rank.reducer->flush(0);
      rank.reducer->finish();
      rank.expect_shards(0, 1);
    });
    if (HasFailure()) return;
  }
}

/// Rank 0 is a group ahead of the others, who begin when it says so.
TEST_F(ShardReducerTest, TheRankComputesWhileOneGroupIsUnderWay) {
  const auto rank_ahead = [](Rank& rank) {
    const Tensor word = Tensor::zeros(Device::cpu(), {1}, DType::kF32);
    if (rank.comm.rank() > 0) rank.comm.recv(word, 0).wait();
    rank.make(0, 0);
    rank.reducer->flush(0);
    rank.make(0, 1);
    if (rank.comm.rank() == 0) {
      for (int peer = 1; peer < rank.comm.size(); ++peer) rank.comm.send(word, peer).wait();
    }
    rank.reducer->flush(1);
    rank.make(0, 2);
    EXPECT_TRUE(rank.reducer->shard(0).defined())
        << "the first group has not been taken in when the third is opened\n"
        << kTwoGroups;
    rank.reducer->flush(2);
    rank.reducer->finish();
    rank.expect_shards(0, 1);
  };
  for (const int ranks : {2, 3, 4}) {
    on_ranks(with(draw(ranks, Overlap::kOn), {13, 7, 20}), rank_ahead, {},
             "Hint: with Overlap::kOn flush() only begins to reduce, and open() does not wait for "
             "the last group: the rank goes on computing.");
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ultra::zero
