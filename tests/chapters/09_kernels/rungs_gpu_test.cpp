// Every rung of every ladder on a GPU computes what an f64 loop computes.

#include "kernels/device/device_info.hpp"
#include "tests/support/contracts/kernels.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ladders::rungs_gpu_test {

struct RungOnGpu {
  std::string ladder;
  int rung;
  std::string name;
};

// Those of one ladder, or of all.
std::vector<RungOnGpu> rungs_of(const std::string& wanted) {
  std::vector<RungOnGpu> cases;
  for (const auto& ladder : all_ladders()) {
    if (!wanted.empty() && ladder->info().name != wanted) {
      continue;
    }
    for (const RungInfo& rung : ladder->rungs()) {
      cases.push_back({.ladder = ladder->info().name, .rung = rung.number, .name = rung.name});
    }
  }
  return cases;
}

// A test for each rung, so that each can have a process of its own: behind the error of one kernel,
// every call of its process fails.
class RungsOnGpu : public test::RandomTest, public ::testing::WithParamInterface<RungOnGpu> {
 protected:
  void SetUp() override {
    if (kernels::list_devices().empty()) {
      GTEST_SKIP() << "no GPU on this machine";
    }
  }

  void expect_right(const Sizes& sizes, const std::vector<std::uint64_t>& seeds) const {
    if (ladder_->refusal(GetParam().rung, sizes, simt::Executor::kGpu).empty()) {
      for (const std::uint64_t one : seeds) {
        test::expect_right(*ladder_, GetParam().rung,
                           {.sizes = sizes, .seed = one, .executor = simt::Executor::kGpu});
      }
    }
  }
  void expect_right(const std::vector<Sizes>& all_sizes,
                    const std::vector<std::uint64_t>& seeds) const {
    for (const Sizes& sizes : all_sizes) {
      expect_right(sizes, seeds);
    }
  }

  std::unique_ptr<Ladder> ladder_ = test::find_ladder(GetParam().ladder);
};

std::string name_of_case(const ::testing::TestParamInfo<RungOnGpu>& rung) {
  return fmt::format("{}_{}_{}", rung.param.ladder, rung.param.rung, rung.param.name);
}

INSTANTIATE_TEST_SUITE_P(All, RungsOnGpu, ::testing::ValuesIn(rungs_of("")), name_of_case);

TEST_P(RungsOnGpu, AreRightForAnyShape) {
  Sizes sizes = ladder_->default_sizes(simt::Executor::kChecked);
  for (int draw = 0; draw < 6; ++draw) {
    expect_right(sizes, {seed});
    sizes = test::random_sizes(*ladder_, random);
  }
}

// Where the sizes of tiles show: one query, ends inside a tile of keys or of queries, rings of
// stages that go round several times, heads that share keys, rows that are shorter than a tile's.
class AttentionOnGpu : public RungsOnGpu {};

INSTANTIATE_TEST_SUITE_P(All, AttentionOnGpu, ::testing::ValuesIn(rungs_of("attention_bf16")),
                         name_of_case);

TEST_P(AttentionOnGpu, IsRightWhereTilesEndAndRingsGoRound) {
  constexpr std::uint64_t kFull = 4;  // an even seed: no causal mask
  constexpr std::uint64_t kCausal = 5;
  expect_right({{1, 1, 1, 1, 64},
                {1, 1, 1, 1, 128},
                {2, 3, 1, 127, 128},
                {1, 2, 4, 129, 128},
                {1, 1, 2, 193, 64},
                {2, 1, 2, 257, 40},
                {1, 2, 1, 640, 104},
                {2, 2, 2, 1100, 128},
                {2, 2, 2, 1100, 64}},
               {kFull, kCausal});
}

// The same, of gradients: blocks of keys that wait for each other's turns, many and few.
class AttentionGradientsOnGpu : public RungsOnGpu {};

INSTANTIATE_TEST_SUITE_P(All, AttentionGradientsOnGpu,
                         ::testing::ValuesIn(rungs_of("attention_backward_bf16")), name_of_case);

TEST_P(AttentionGradientsOnGpu, AreRightWhereTilesEndAndBlocksTakeTurns) {
  expect_right({{1, 1, 1, 1, 64},
                {1, 1, 1, 1, 128},
                {2, 3, 1, 127, 128},
                {1, 2, 4, 129, 128},
                {1, 1, 2, 193, 64},
                {2, 1, 2, 257, 40},
                {1, 2, 1, 640, 104},
                {2, 8, 2, 4096, 128},
                {2, 16, 1, 2100, 64}},
               {4, 5});
}

// Edges inside a tile, depths that end inside a stage and go round the ring, more tiles than
// multiprocessors, an odd number of tiles for clusters.
class ProductsOnGpu : public RungsOnGpu {};

INSTANTIATE_TEST_SUITE_P(All, ProductsOnGpu, ::testing::ValuesIn(rungs_of("matmul_bf16")),
                         name_of_case);

TEST_P(ProductsOnGpu, AreRightForRaggedMultiplesOfEight) {
  expect_right({{1, 8, 8}, {64, 64, 64}, {136, 264, 72}, {257, 520, 456}, {4101, 1288, 200}}, {5});
}

}  // namespace ultra::ladders::rungs_gpu_test
