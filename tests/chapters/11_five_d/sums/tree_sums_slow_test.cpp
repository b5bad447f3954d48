// Covers: chapters/11_five_d/sums/tree_sums.hpp, chapters/11_five_d/sums/parted_norm.hpp
// Hundreds of random meshes by trees, in each type, and dozens of the emulated device: what fewer of all leave
// to chance.

#include <gtest/gtest.h>

#include "tests/chapters/11_five_d/sums/random_meshes.hpp"

namespace ultra::five_d {
namespace {

struct ManyMeshes {
  const char* types;
  const char* device;
  int count;
};

class TreeSumsOnManyMeshes : public ::testing::TestWithParam<ManyMeshes> {};

TEST_P(TreeSumsOnManyMeshes, TrainToTheBitsOfOneRank) {
  const auto& [types, device, count] = GetParam();
  const std::uint64_t seed = ultra::test::seed_of_this_run();
  SCOPED_TRACE("ULTRA_TEST_SEED=" + std::to_string(seed));
  ultra::test::Random random(seed);
  test::RandomMeshes meshes(random, 16, device);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const test::Configuration many = meshes.draw(types);
    const test::Configuration one = meshes.alone(many);
    EXPECT_TRUE(test::bits_of(many) == test::bits_of(one)) << many.line() << "\n" << one.line();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, TreeSumsOnManyMeshes,
    ::testing::Values(ManyMeshes{"f32", "cpu", 300}, ManyMeshes{"bf16", "cpu", 300},
                      ManyMeshes{"f32", "emulated", 30}, ManyMeshes{"bf16", "emulated", 30}),
    [](const auto& mesh) { return std::string(mesh.param.types) + "_" + mesh.param.device; });

}  // namespace
}  // namespace ultra::five_d
