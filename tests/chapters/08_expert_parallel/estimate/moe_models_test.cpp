// Published numbers of parameters.
//
// Covers: chapters/08_expert_parallel/estimate/moe_models.hpp

#include "chapters/08_expert_parallel/estimate/moe_models.hpp"

#include <gtest/gtest.h>

#include <cstddef>

namespace ultra::expert_parallel {
namespace {

// arXiv 2401.04088, section 2: 47B parameters, 13B of them active.
TEST(MoeModels, Mixtral8x7B) {
  const MoeModel* model = find_moe_model("Mixtral-8x7B");
  ASSERT_NE(model, nullptr);
  const MoeParameters counts = parameter_counts(*model);
  EXPECT_EQ(counts.total, 46'702'792'704U) << "the elements of its safetensors files";
  EXPECT_EQ(counts.active, 12'879'925'248U);
  EXPECT_EQ(counts.routed, std::size_t{32} * 8 * 3 * 4096 * 14336);
}

// arXiv 2412.19437, section 4.2: 671B parameters, 37B of them active.
TEST(MoeModels, DeepSeekV3) {
  const MoeModel* model = find_moe_model("deepseek-v3");
  ASSERT_NE(model, nullptr);
  const MoeParameters counts = parameter_counts(*model);
  EXPECT_EQ(counts.total, 671'026'419'200U);
  EXPECT_EQ(counts.active, 37'552'297'472U) << "with both tables";
  EXPECT_EQ(find_moe_model("deepseek"), nullptr);
}

}  // namespace
}  // namespace ultra::expert_parallel
