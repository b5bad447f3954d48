// What work and messages take, by the numbers of a cluster.
//
// Covers: common/replay/cluster/link.hpp
// Covers: common/replay/product_time.hpp

#include "common/replay/prices.hpp"

#include "common/replay/product_time.hpp"
#include "tests/support/random.hpp"

namespace ultra::replay {
namespace {

using gpu::TapedWork;
using gpu::WorkKind;

class PricesTest : public ultra::test::RandomTest {
 protected:
  [[nodiscard]] std::size_t size() { return random.between(1, 1U << 20U); }

  const Cluster& h100_ = *find_cluster("dgx-h100");
};

TEST_F(PricesTest, AProductForEachOfALaunchAndOneKernel) {
  for (int round = 0; round < 100; ++round) {
    const TapedWork work{.kind = WorkKind::kProduct,
                         .count = random.between(1, 8),
                         .m = random.between(1, 9000),
                         .k = random.between(1, 9000),
                         .n = random.between(1, 9000),
                         .element_bytes = 2};
    const double one = product_seconds(h100_.gpu,
                                       {.m = static_cast<double>(work.m),
                                        .k = static_cast<double>(work.k),
                                        .n = static_cast<double>(work.n)},
                                       2, 989e12);
    EXPECT_DOUBLE_EQ(work_seconds(h100_, work), static_cast<double>(work.count) * one + 3e-6);
  }
}

TEST_F(PricesTest, ALargeProductsSizesMayMultiplyToTwoToThe64) {
  const std::size_t large = std::size_t{1} << 32U;
  const TapedWork work{
      .kind = WorkKind::kProduct, .m = large, .k = large, .n = 1, .element_bytes = 2};
  EXPECT_GT(work_seconds(h100_, work), 1);
}

TEST_F(PricesTest, PeaksByFormat) {
  EXPECT_EQ(peak_flops(h100_.gpu, 2), 989e12);
  EXPECT_EQ(peak_flops(h100_.gpu, 1), 1979e12);
  EXPECT_EQ(peak_flops(h100_.gpu, 4), 989e12 / 2);
  EXPECT_NEAR(peak_flops(h100_.gpu, 8), 67e12, 6e12) << "the data sheet";
  const GpuType& a100 = find_cluster("dgx-a100")->gpu;
  EXPECT_EQ(peak_flops(a100, 1), 312e12) << "it has no fp8";
  EXPECT_EQ(peak_flops(a100, 4), 156e12) << "tf32, by the data sheet";
  EXPECT_EQ(peak_flops(a100, 8), 19.5e12) << "f64, by the data sheet";
  GpuType measured = a100;
  measured.measured_products = {{.m = 64, .k = 64, .n = 64, .flops = 1e9}};
  for (const std::size_t bytes : {1U, 2U, 4U, 8U}) EXPECT_EQ(peak_flops(measured, bytes), 312e12);
}

TEST_F(PricesTest, AttentionByItsFlop) {
  const TapedWork work{.kind = WorkKind::kAttention, .element_bytes = 2, .flop = 1e12};
  EXPECT_DOUBLE_EQ(work_seconds(h100_, work), 1e12 / (989e12 * 0.4) + 3e-6);
}

TEST_F(PricesTest, TheRestByItsBytes) {
  const std::size_t read = size(), written = size();
  const double bytes = static_cast<double>(read + written);
  for (const WorkKind kind : {WorkKind::kElementwise, WorkKind::kCopy}) {
    const TapedWork work{.kind = kind, .read_bytes = read, .written_bytes = written};
    EXPECT_DOUBLE_EQ(work_seconds(h100_, work), bytes / (3350e9 * 0.9) + 3e-6);
  }
  const TapedWork to_host{.kind = WorkKind::kHostCopy, .read_bytes = read};
  EXPECT_DOUBLE_EQ(work_seconds(h100_, to_host), static_cast<double>(read) / 25e9 + 3e-6);
}

TEST_F(PricesTest, AMessageIsALink) {
  const double bytes = 8e9;
  EXPECT_DOUBLE_EQ(message_seconds(h100_, {.ranks = 2, .per_node = 2, .nodes = 1}, bytes),
                   3.4e-6 + bytes / 370e9);
  EXPECT_DOUBLE_EQ(message_seconds(h100_, {.ranks = 2, .per_node = 1, .nodes = 2}, bytes),
                   14e-6 + bytes / (50e9 * 0.35));
  Cluster shared = h100_;
  shared.nics_per_node = 2;
  EXPECT_DOUBLE_EQ(message_seconds(shared, {.ranks = 2, .per_node = 1, .nodes = 2}, bytes),
                   14e-6 + bytes / (50e9 * 0.35 / 4));
  EXPECT_EQ(message_seconds(h100_, {}, bytes), 0);
}

TEST_F(PricesTest, TheSlowestOfMany) {
  const Cluster& cluster = *find_cluster("dgx-h100");
  EXPECT_EQ(straggler_slowdown(cluster, 1), 1);
  // The expected maximum of n normal variables, by drawing them.
  constexpr int kRanks = 1000;
  double sum = 0;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    double most = -10;
    for (int rank = 0; rank < kRanks; ++rank) most = std::max(most, random.normal());
    sum += most;
  }
  const double predicted = (straggler_slowdown(cluster, kRanks) - 1) / cluster.straggler;
  EXPECT_NEAR(sum / kRounds / predicted, 1, 0.2);
}

// Products by their shapes.

class ProductTime : public ultra::test::RandomTest {
 protected:
  const GpuType& gpu_ = find_cluster("dgx-a100")->gpu;
  [[nodiscard]] double rate(const ProductShape& shape) const {
    return shape.flop() / product_seconds(gpu_, shape, 2, gpu_.peak_flops);
  }
};

TEST_F(ProductTime, LargeOnesReachTheEfficiencyAndNoneMore) {
  const double most = gpu_.peak_flops * gpu_.efficiency.products;
  EXPECT_GT(rate({.m = 16384, .k = 16384, .n = 16384}), 0.97 * most);
  for (int round = 0; round < 100; ++round) {
    const ProductShape shape{.m = static_cast<double>(random.between(1, 20000)),
                             .k = static_cast<double>(random.between(1, 20000)),
                             .n = static_cast<double>(random.between(1, 20000))};
    EXPECT_LE(rate(shape), most);
  }
}

TEST_F(ProductTime, SmallOnesWaitForTheMemory) {
  // One row: every weight is read for two FLOP.
  const double seconds = product_seconds(gpu_, {.m = 1, .k = 8192, .n = 8192}, 2, gpu_.peak_flops);
  const double bytes = 2.0 * (8192.0 * 8192 + 2 * 8192);
  EXPECT_GE(seconds, bytes / (gpu_.memory_bandwidth * gpu_.efficiency.memory) * (1 - 1e-12));
}

TEST_F(ProductTime, MeasuredProductsDecideWhereThereAreAny) {
  GpuType measured = gpu_;
  measured.measured_products = {{.m = 64, .k = 64, .n = 64, .flops = 1e9},
                                {.m = 4096, .k = 4096, .n = 4096, .flops = 1e11}};
  const auto speed = [&](const ProductShape& shape) {
    return shape.flop() / product_seconds(measured, shape, 4, 1);
  };
  EXPECT_DOUBLE_EQ(speed({.m = 64, .k = 64, .n = 64}), 1e9);
  EXPECT_DOUBLE_EQ(speed({.m = 4096, .k = 4096, .n = 4096}), 1e11);
  // As near to the one as to the other: their mean.
  EXPECT_NEAR(speed({.m = 512, .k = 512, .n = 512}), 1.01e11 / 2, 1e3);
  EXPECT_NEAR(speed({.m = 4096, .k = 64, .n = 512}), 1.01e11 / 2, 1e3);
  // Near one of them, its speed: 64 times as near, with weights to the power of -6.
  EXPECT_NEAR(speed({.m = 65, .k = 64, .n = 64}), 1e9, 1e2);
  EXPECT_NEAR(speed({.m = 2048, .k = 1024, .n = 4096}), 1e11, 1e9);
}

}  // namespace
}  // namespace ultra::replay
