// Estimates of models with experts, and the published numbers of parameters.
//
// Covers: chapters/08_expert_parallel/estimate/expert_estimate.hpp
// Covers: chapters/08_expert_parallel/estimate/moe_models.hpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstddef>

#include "chapters/08_expert_parallel/estimate/expert_estimate.hpp"
#include "chapters/08_expert_parallel/estimate/moe_models.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::expert_parallel {
namespace {

using ::testing::HasSubstr;

ExpertRequest mixtral(std::size_t ep, int ranks) {
  ExpertRequest request{.model = *find_moe_model("mixtral-8x7b"),
                        .batch = {.size = 1, .seq_len = 4096}};
  request.rank.ep = ep;
  request.rank.share.layout.seq_len = 4096;
  request.rank.share.layout.sequence = context_parallel::SequenceLayout::kContiguous;
  request.sharding = {.shards = ranks};
  return request;
}

TEST(ExpertEstimate, ExpertsAreDealtOutAndTheRestIsNot) {
  const std::vector<ExpertEstimate> all = estimate_up_to(mixtral(8, 8));
  ASSERT_EQ(all.size(), 4U);  // 1, 2, 4, 8
  const MoeParameters counts = parameter_counts(*find_moe_model("mixtral-8x7b"));
  for (const ExpertEstimate& one : all) {
    EXPECT_EQ(one.parameters.experts * one.ep, counts.routed);
    EXPECT_EQ(one.parameters.others, counts.total - counts.routed);
    EXPECT_EQ(one.states.parameters,
              2.0 * static_cast<double>(one.parameters.experts + one.parameters.others));
  }
  EXPECT_EQ(all[0].even, all[3].even) << "rows go away and others come";
  EXPECT_EQ(all[0].most, all[0].even) << "one rank has all experts";
  EXPECT_LT(*all[1].most, *all[2].most);
}

// Gradients of an expert are shared by the ranks that hold it, not by all.
TEST(ExpertEstimate, ShardsAreThoseOfTheRanksThatHoldAnExpert) {
  ExpertRequest request = mixtral(8, 16);
  request.sharding.stage = zero::ZeroStage::kParameters;
  const ExpertEstimate one = estimate_up_to(request).back();
  EXPECT_EQ(one.states.parameters, 2.0 * (static_cast<double>(one.parameters.experts) / 2 +
                                          static_cast<double>(one.parameters.others) / 16));
}

TEST(ExpertEstimate, ACapacityBoundsWhatARankCanGet) {
  ExpertRequest request = mixtral(8, 8);
  const std::size_t without = *estimate_up_to(request).back().most;
  request.model.moe.capacity_factor = 1.25;
  const ExpertEstimate bounded = estimate_up_to(request).back();
  EXPECT_LT(*bounded.most, without);
  EXPECT_GT(*bounded.most, *bounded.even);
}

TEST(ExpertEstimate, AnswersAsATableAndAsJson) {
  EXPECT_THAT(format_estimates(mixtral(4, 4)), HasSubstr("46,702,792,704 in total"));
  const auto json = nlohmann::json::parse(json_of_estimates(mixtral(4, 4)));
  EXPECT_EQ(json.at("active_parameters"), 12'879'925'248U);
  EXPECT_EQ(json.at("expert_layouts").size(), 3U);
}

TEST(ExpertEstimate, RefusesWhatCannotBeDealtOut) {
  EXPECT_THAT(ultra::test::message_of<ConfigError>(
                  [] { static_cast<void>(estimate_up_to(mixtral(3, 3))); }),
              HasSubstr("8 % 3 = 2"));
  EXPECT_THAT(ultra::test::message_of<ConfigError>(
                  [] { static_cast<void>(estimate_up_to(mixtral(8, 4))); }),
              HasSubstr("4 % 8 = 4"));
}

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
