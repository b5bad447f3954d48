// Products by their shapes.
#include "common/replay/product_time.hpp"

#include "tests/support/random.hpp"

namespace ultra::replay {
namespace {

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

TEST_F(ProductTime, MoreWorkIsNeverFaster) {
  for (int round = 0; round < 100; ++round) {
    const ProductShape shape{.m = static_cast<double>(random.between(1, 5000)),
                             .k = static_cast<double>(random.between(1, 5000)),
                             .n = static_cast<double>(random.between(1, 5000))};
    const double before = product_seconds(gpu_, shape, 2, gpu_.peak_flops);
    for (ProductShape larger :
         {ProductShape{shape.m * 2, shape.k, shape.n}, ProductShape{shape.m, shape.k * 2, shape.n},
          ProductShape{shape.m, shape.k, shape.n * 2}}) {
      EXPECT_GE(product_seconds(gpu_, larger, 2, gpu_.peak_flops), before * (1 - 1e-12));
    }
  }
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
