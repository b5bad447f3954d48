// Rungs whose blocks stay begin as many as the queue leaves them multiprocessors, and compute the same bits.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ladders/attention/attention_bf16/attention_bf16.hpp"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"
#include "kernels/simt/buffer.hpp"
#include "kernels/simt/report.hpp"

namespace ultra::ladders {
namespace spared_multiprocessors_test {

using simt::bf16;
constexpr simt::Executor kChecked = simt::Executor::kChecked;
using Elements = simt::Buffer<bf16, kChecked>;

// A result, and the blocks that made it.
struct Made {
  std::vector<std::uint16_t> bits;
  unsigned blocks;
};

Elements drawn(const char* name, std::size_t count) {
  std::vector<bf16> values;
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    values.emplace_back(static_cast<float>(state >> 24) / 128.0F - 1.0F);
  }
  return Elements(name, values);
}

Made made(const Elements& result, const simt::Report& report) {
  Made made{.bits = {}, .blocks = report.launches.at(0).grid.x};
  for (const bf16 value : result.download()) made.bits.push_back(value.bits());
  return made;
}

template <typename Launch>
void expect_same_by_fewer(const Launch& launch, const std::vector<unsigned>& blocks) {
  const Made all = launch(0);
  EXPECT_EQ(all.blocks, blocks[0]);
  for (const unsigned spare : {1U, 16U}) {
    const Made fewer = launch(spare);
    EXPECT_EQ(fewer.blocks, blocks[1]) << spare;
    EXPECT_EQ(fewer.bits, all.bits) << spare;
  }
}

// The emulated GPU has four multiprocessors: a quarter is one.
TEST(SparedMultiprocessors, AreLeftByAttention) {
  const kernels::attention::Shape shape{.batch = 1,
                                        .kv_heads = 1,
                                        .group = 3,
                                        .seq_len = 450,
                                        .head_dim = 64,
                                        .causal = true,
                                        .scale = 0.125F,
                                        .tokens_first = true};
  const auto q = drawn("q", std::size_t{3} * 450 * 64);
  const auto k = drawn("k", std::size_t{450} * 64);
  const auto v = drawn("v", std::size_t{450} * 64);
  expect_same_by_fewer(
      [&](unsigned spare) {
        Elements o("o", std::size_t{3} * 450 * 64);
        simt::Buffer<float, kChecked> lse("lse", std::size_t{3} * 450);
        simt::Report report;
        kernels::attention_bf16::persistent<kChecked>(
            {{.shape = shape,
              .q = q.data(),
              .k = k.data(),
              .v = v.data(),
              .o = o.data(),
              .lse = lse.data()}},
            {.report = &report, .spare_multiprocessors = spare});
        return made(o, report);
      },
      {4, 3});
}

TEST(SparedMultiprocessors, AreLeftByProducts) {
  const auto a = drawn("a", std::size_t{600} * 64);
  const auto b = drawn("b", std::size_t{520} * 64);
  const auto product = [&](auto launch) {
    return [&, launch](unsigned spare) {
      Elements c("c", std::size_t{600} * 520);
      simt::Report report;
      launch(kernels::matmul_bf16::Problem{.rows = 600,
                                           .columns = 520,
                                           .depth = 64,
                                           .a = a.data(),
                                           .b = b.data(),
                                           .c = c.data()},
             simt::Queue{.report = &report, .spare_multiprocessors = spare});
      return made(c, report);
    };
  };
  expect_same_by_fewer(
      product([](const auto&... of) { kernels::matmul_bf16::persistent<kChecked>(of...); }),
      {4, 3});
  // Clusters of two blocks: of three multiprocessors one is left over.
  expect_same_by_fewer(
      product([](const auto&... of) { kernels::matmul_bf16::cluster_multicast<kChecked>(of...); }),
      {4, 2});
}

}  // namespace spared_multiprocessors_test
}  // namespace ultra::ladders
