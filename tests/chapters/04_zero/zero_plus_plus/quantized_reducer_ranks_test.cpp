// Gradients that change hands quantised: the owner's sums against sums made from the same pieces
// by one rank.

#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp"

#include "common/ops/elementwise.hpp"
#include "tests/chapters/04_zero/zero_plus_plus/zero_plus_plus_case.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

/// Some groups of gradients on some ranks.
struct Case {
  int ranks = 1;
  std::optional<std::size_t> node_size;
  BlockFormat format;
  DType dtype = DType::kF32;
  Overlap overlap = Overlap::kOn;
  std::vector<std::size_t> counts;
  std::uint64_t seed = 0;

  [[nodiscard]] std::string str() const {
    return fmt::format("{} ranks in nodes of {}, {} bits, blocks of {}, {}, {} groups", ranks,
                       node_size.value_or(0), static_cast<int>(format.bits), format.block,
                       to_string(dtype), counts.size());
  }
  [[nodiscard]] FlatLayout layout(std::size_t group) const {
    return flat_layout(std::vector<std::size_t>{counts[group]}, ranks);
  }
  /// Ranks of the first step, and nodes of the second.
  [[nodiscard]] std::size_t nodes() const {
    const std::size_t size = node_size.value_or(static_cast<std::size_t>(ranks));
    return size > 1 ? static_cast<std::size_t>(ranks) / size : 1;
  }
  /// [padded] A rank's gradients, zeros behind the end.
  [[nodiscard]] Tensor gradients(int rank, std::size_t group, int pass) const {
    const Tensor all = Tensor::zeros(Device::cpu(), {layout(group).padded}, dtype);
    Random random(seed + static_cast<std::uint64_t>(rank) + 10 * group +
                  1000 * static_cast<std::uint64_t>(pass));
    random.fill(all.slice(0, {0, counts[group]}), 1.0);
    return all;
  }
  /// [shard] The sum that an owner should have, made by one rank step by step.
  [[nodiscard]] Tensor sum(int owner, std::size_t group, int pass) const {
    const Range range = shard_range(layout(group), owner);
    const std::size_t per_node = static_cast<std::size_t>(ranks) / nodes();
    const Tensor all = Tensor::zeros(Device::cpu(), {range.size()}, dtype);
    for (std::size_t node = 0; node < nodes(); ++node) {
      const Tensor of_node = Tensor::zeros(Device::cpu(), {range.size()}, dtype);
      for (std::size_t member = 0; member < per_node; ++member) {
        const int rank = static_cast<int>(node * per_node + member);
        add(of_node, gradients(rank, group, pass).slice(0, range).clone());
      }
      if (nodes() == 1) {
        all.copy_from(of_node);
      } else {
        add(all, of_node);
      }
    }
    return all;
  }

 private:
  void add(const Tensor& sum, const Tensor& numbers) const {
    const std::size_t bytes = quantized_bytes(format, numbers.numel(), dtype);
    const Tensor message = Tensor::empty(Device::cpu(), {bytes / 4}, DType::kI32);
    quantize(format, numbers, message);
    add_dequantized(format, message, sum);
  }
};

/// One rank's reducer.
struct ReducerRank {
  ReducerRank(const Communicator& dp, const Case& the_case)
      : c(the_case), comm(dp), reducer(make(dp)) {}

  QuantizedReducer make(const Communicator& dp) {
    std::vector<ReducedGroup> groups;
    for (std::size_t g = 0; g < c.counts.size(); ++g) {
      groups.push_back({.name = fmt::format("group {}", g), .layout = c.layout(g)});
    }
    std::optional<NodeGroups> nodes;
    if (c.node_size) nodes = make_node_groups(dp, *c.node_size);
    return {groups, dp, nodes, c.format, device, c.dtype, c.overlap};
  }

  void pass(int number) {
    for (std::size_t g = 0; g < c.counts.size(); ++g) {
      const Tensor memory = reducer.open(g);
      memory.slice(0, {0, c.counts[g]})
          .copy_from(c.gradients(comm.rank(), g, number).slice(0, {0, c.counts[g]}));
      reducer.flush(g);
    }
  }

  Case c;
  Communicator comm;
  Device device = Device::cpu();
  QuantizedReducer reducer;
};

class QuantizedReducerTest : public ZeroPlusPlusTest {
 protected:
  Case draw_case(int ranks) {
    Case c{.ranks = ranks,
           .node_size = {},
           .format = {.bits = random.pick({QuantizedBits::kFour, QuantizedBits::kEight}),
                      .block = random.between(1, 40)},
           .dtype = random.pick({DType::kF32, DType::kF64}),
           .overlap = random.pick({Overlap::kOff, Overlap::kOn}),
           .counts = {},
           .seed = seed};
    if (random.between(0, 2) > 0) c.node_size = draw_node_size(ranks);
    for (std::size_t g = 0; g < random.between(1, 4); ++g) {
      c.counts.push_back(random.between(1, 150));
    }
    return c;
  }
};

TEST_F(QuantizedReducerTest, PassesAreAddedUpBitForBitUntilTheyAreDropped) {
  const auto expect_sums = [](ReducerRank& rank) {
    for (int step = 0; step < 2; ++step) {
      rank.pass(0);
      rank.pass(1);
      rank.reducer.finish();
      for (std::size_t g = 0; g < rank.c.counts.size(); ++g) {
        const Tensor sum = rank.c.sum(rank.comm.rank(), g, 0);
        ops::add_into(sum, rank.c.sum(rank.comm.rank(), g, 1));
        EXPECT_TRUE(all_equal(rank.reducer.shard(g), sum));
      }
      EXPECT_EQ(rank.device.memory().current()[MemoryCategory::kCommunication], 0U);
      rank.reducer.drop();
      EXPECT_EQ(rank.device.memory().current().total(), 0U);
    }
  };
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int round = 0; round < 3; ++round) {
      const Case c = draw_case(ranks);
      ultra::test::on_ranks(
          ranks, c.str(),
          [&](Communicator& dp) {
            ReducerRank rank(dp, c);
            expect_sums(rank);
          },
          in_rank_order(Progress::kOnCall));
    }
  }
}

}  // namespace
}  // namespace ultra::zero
