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
constexpr const char* kShare =
    "Hint: this is the average over the ranks, N times too small: each rank's gradients are a "
    "share of the whole batch's, and shares are added up.";
constexpr const char* kPass =
    "Hint: only the last pass is there: a later pass adds its sum to the shard.";
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
  std::size_t passes = 1;  ///< in a step
  std::vector<ReducedGroup> groups{};

  [[nodiscard]] std::string str() const {
    std::string all = fmt::format("{} passes, {}, Overlap::{}", passes, to_string(dtype),
                                  overlap == Overlap::kOn ? "kOn" : "kOff");
    for (const auto& g : groups) all += fmt::format(", {} of {} elements", g.name, g.layout.count);
    return all;
  }
  /// Gradients of a part of a group, added up over some passes and ranks; padding is 0. They are
  /// multiples of the number of ranks: averages would be whole numbers, too.
  [[nodiscard]] Values sums(std::size_t group, Range part, Range of_passes, Range of_ranks) const {
    Values all(part.size(), 0.0);
    for (std::size_t i = part.begin; i < std::min(part.end, groups[group].layout.count); ++i) {
      for (std::size_t pass = of_passes.begin; pass < of_passes.end; ++pass) {
        for (std::size_t rank = of_ranks.begin; rank < of_ranks.end; ++rank) {
          all[i - part.begin] +=
              ranks * ultra::test::whole_number(pass, static_cast<int>(rank), group, i);
        }
      }
    }
    return all;
  }
};

/// One rank's reducer.
struct Rank {
  const Case& c;
  Communicator comm;
  Range me{static_cast<std::size_t>(comm.rank()), static_cast<std::size_t>(comm.rank()) + 1};
  Device device = Device::cpu();
  ShardReducer reducer{c.groups, comm, device, c.dtype, c.overlap};

  /// Opens a group and writes its gradients; what is no gradient stays as it is.
  void make(std::size_t pass, std::size_t group) {
    const FlatLayout& layout = c.groups[group].layout;
    const Tensor flat = reducer.open(group);
    expect_tensor("the memory of open()", flat, {layout.padded}, c.dtype);
    EXPECT_EQ(flat.category(), MemoryCategory::kCommunication) << "category of the group's memory";
    dispatch_float(c.dtype, [&]<class T>() {
      std::ranges::transform(c.sums(group, {0, layout.count}, {pass, pass + 1}, me),
                             flat.span<T>().begin(), [](double x) { return static_cast<T>(x); });
    });
  }
  /// The shards of all groups, summed up over some passes.
  void expect_shards(Range passes) const {
    const Range ranks{0, static_cast<std::size_t>(c.ranks)};
    const auto times_ranks = [&](double x) { return x * c.ranks; };
    for (std::size_t group = 0; group < c.groups.size(); ++group) {
      ASSERT_TRUE(reducer.shard(group).defined())
          << "Hint: finish() takes in all groups that are under way.";
      const auto& [name, layout] = c.groups[group];
      const Range own = shard_range(layout, comm.rank());
      const Values expected = c.sums(group, own, passes, ranks);
      const Values found = reducer.shard(group).to_vector();
      const auto right = std::ranges::mismatch(found, expected).in1 - found.begin();
      const char* hint = kOwnSlice;
      if (found == c.sums(group, own, passes, me)) hint = kWait;
      if (found == c.sums(group, own, {passes.end - 1, passes.end}, ranks)) hint = kPass;
      if (std::ranges::equal(found, expected, {}, times_ranks)) hint = kShare;
      if (own.begin + static_cast<std::size_t>(right) >= layout.count) hint = kPadding;
      ASSERT_EQ(found, expected) << name << ", shard of rank " << comm.rank() << "\n" << hint;
    }
  }
  /// Sums, what is sent and what is kept, of three steps.
  void expect_steps() {
    std::size_t kept = 0;
    std::size_t most = 0;  // bytes of groups at any time; the one before the first is the last
    std::size_t under_way = c.groups.back().layout.padded * size_of(c.dtype);
    for (const auto& [name, layout] : c.groups) {
      ultra::test::leave_garbage(device, layout.padded, c.dtype);
      kept += layout.shard * size_of(c.dtype);
      const std::size_t open = layout.padded * size_of(c.dtype);
      most = std::max(most, c.overlap == Overlap::kOn ? under_way + open : open);
      under_way = open;
    }
    for (std::size_t first = 0; first < 3 * c.passes; first += c.passes) {
      device.reset_memory_peaks();
      for (std::size_t pass = first; pass < first + c.passes; ++pass) {
        for (std::size_t group = 0; group < c.groups.size(); ++group) {
          make(pass, group);
          reducer.flush(group);
          EXPECT_TRUE(c.overlap == Overlap::kOn || reducer.shard(group).defined()) << kOneGroup;
        }
      }
      reducer.finish();
      expect_shards({first, first + c.passes});
      EXPECT_EQ(comm.stats().sent_bytes(),
                (first + c.passes) * kept * static_cast<std::size_t>(c.ranks - 1))
          << "bytes sent up to now\nHint: (S-1)/S of each group in each pass: a rank gets nothing "
             "but its shard.";
      const MemoryTracker memory = device.memory();
      const std::size_t shards = memory.current()[MemoryCategory::kGradients];
      const std::size_t left = memory.current()[MemoryCategory::kCommunication];
      const char* hint = c.overlap == Overlap::kOff ? kOneGroup : kTwoGroups;
      if (left > 0) hint = kOpen;
      if (shards < kept) hint = kClone;
      EXPECT_EQ(shards, kept) << "bytes of the shards\n" << kClone;
      EXPECT_EQ(left, 0U) << "bytes of groups when all have been taken in\n" << hint;
      EXPECT_LE(memory.peak(MemoryCategory::kCommunication).bytes, most)
          << "bytes of groups at the peak. " << hint;
      EXPECT_LE(memory.peak_total().bytes, most + kept)
          << "bytes of all memory at the peak\nHint: the group is reduced in place, and added to "
             "the shard in place.";
      reducer.drop();
    }
  }
};

/// The first group is not empty.
Case draw(ultra::test::Random& random, int ranks, Overlap overlap, std::size_t groups) {
  Case drawn{.ranks = ranks,
             .dtype = random.pick({DType::kF32, DType::kF64}),
             .overlap = overlap,
             .passes = random.between(1, 3)};
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t count = random.between(g == 0 ? 1 : 0, 60);
    drawn.groups.push_back({fmt::format("group {}", g), flat_layout(std::vector{count}, ranks)});
  }
  return drawn;
}

using ShardReducerTest = ultra::test::RandomTest;

TEST_F(ShardReducerTest, ShardsAreTheSumsOverAllPassesAndAtMostTwoGroupsAreInMemory) {
  for (int i = 0; i < 30 && !HasFailure(); ++i) {
    const Overlap overlap = i % 2 == 0 ? Overlap::kOff : Overlap::kOn;
    const Case c = draw(random, 1 + i % 5, overlap, random.between(1, 6));
    const auto steps = [&](const Communicator& shards) { Rank{c, shards}.expect_steps(); };
    ultra::test::on_ranks(c.ranks, c.str(), steps, ultra::test::on_call());
  }
}

/// Rank 0 is a group ahead of the others, who begin when it says so.
TEST_F(ShardReducerTest, TheRankComputesWhileOneGroupIsUnderWay) {
  const Case c = draw(random, static_cast<int>(random.between(2, 4)), Overlap::kOn, 2);
  const auto rank_ahead = [&](const Communicator& shards) {
    Rank rank{c, shards};
    const Tensor word = Tensor::zeros(Device::cpu(), {1}, DType::kF32);
    if (shards.rank() > 0) shards.recv(word, 0).wait();
    rank.make(0, 0);
    rank.reducer.flush(0);
    rank.make(0, 1);
    if (shards.rank() == 0) {
      for (int peer = 1; peer < c.ranks; ++peer) shards.send(word, peer).wait();
    }
    rank.reducer.flush(1);
    rank.reducer.finish();
    rank.expect_shards({0, 1});
  };
  ultra::test::on_ranks(
      c.ranks, c.str(), rank_ahead, {},
      "Hint: with Overlap::kOn flush() only begins to reduce, and open() does not wait for the "
      "last group: the rank goes on computing.");
}

}  // namespace
}  // namespace ultra::zero
