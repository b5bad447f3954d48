// Covers: chapters/11_five_d/sums/tree_sums.hpp, chapters/11_five_d/sums/parted_norm.hpp
// Hundreds of random meshes by trees, in each type: what a hundred of all leave to chance.

#include <gtest/gtest.h>

#include "tests/chapters/11_five_d/sums/random_meshes.hpp"

namespace ultra::five_d {
namespace {

class TreeSumsOnManyMeshes : public ::testing::TestWithParam<const char*> {};

TEST_P(TreeSumsOnManyMeshes, TrainToTheBitsOfOneRank) {
  const std::uint64_t seed = ultra::test::seed_of_this_run();
  SCOPED_TRACE("ULTRA_TEST_SEED=" + std::to_string(seed));
  ultra::test::Random random(seed);
  test::RandomMeshes meshes(random, 16);
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    const test::Configuration many = meshes.draw(GetParam());
    const test::Configuration one = meshes.alone(many);
    EXPECT_TRUE(test::bits_of(many) == test::bits_of(one)) << many.line() << "\n" << one.line();
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TreeSumsOnManyMeshes, ::testing::Values("f32", "bf16"));

}  // namespace
}  // namespace ultra::five_d
