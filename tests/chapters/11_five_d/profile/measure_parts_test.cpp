// What the profile measures of a block, as far as it can be known before: signs, sizes, and a link
// of a known speed.
//
// Covers: chapters/11_five_d/profile/measure_parts.hpp
#include "chapters/11_five_d/profile/measure_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/comm/run_ranks.hpp"

namespace ultra::profile {
namespace {

BlockExtents small_block(DType dtype) {
  BlockExtents block{.model = {}, .batch = 2, .seq = 16, .dtype = dtype};
  block.model.hidden_size = 32;
  block.model.num_heads = 4;
  block.model.num_kv_heads = 2;
  block.model.ffn_hidden_size = 48;
  return block;
}

TEST(MeasuredParts, AreSpeedsForEitherType) {
  run_ranks(2, [](Communicator& world) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      for (const double speed : {measure_attention(world, small_block(dtype)),
                                 measure_elementwise(world, small_block(dtype))}) {
        EXPECT_GT(speed, 0);
        EXPECT_TRUE(std::isfinite(speed));
      }
    }
  });
}

TEST(MeasuredParts, ALinkIsNoFasterThanItIs) {
  RankOptions options;
  options.algorithms = std::make_shared<const collectives::BookAlgorithms>();
  options.link = ultra::LinkSpeed{.latency = 1e-3, .bytes_per_second = 0.02e9};
  run_ranks(
      3,
      [](Communicator& world) {
        BlockExtents block = small_block(DType::kF32);
        block.batch = 8;
        block.seq = 384;  // 128 tokens of 8 sequences for each rank: 128 KB, 6.5 ms
        const LinkSpeed link = measure_exchange(world, world, block);
        EXPECT_GE(link.latency, 1e-3);
        EXPECT_GT(link.bandwidth, 0);
        // Both together say how long a message took, which no load makes shorter.
        const double bytes = (8.0 * 128 - 1) * 32 * 4;
        EXPECT_GE(link.latency + bytes / link.bandwidth, 1e-3 + bytes / 0.02e9);
      },
      options);
}

TEST(MeasuredParts, AllRanksAgreeOnWhatSumsSteal) {
  run_ranks(4, [](Communicator& world) {
    const Communicator pair = world.split(world.rank() % 2, world.rank(), "pair");
    const double stolen = measure_stolen(world, pair, DType::kF32);
    EXPECT_GE(stolen, 0);
    EXPECT_LE(stolen, 1);
    const Tensor all = Tensor::zeros(Device::cpu(), {4}, DType::kF64);
    world.all_gather(Tensor::from<double>(Device::cpu(), {1}, std::vector{stolen}).clone(), all);
    EXPECT_THAT(all.to_vector(), ::testing::Each(stolen));
  });
}

}  // namespace
}  // namespace ultra::profile
