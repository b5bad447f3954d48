#include "common/nn/model_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/model.hpp"

namespace ultra::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::function<void(ModelConfig&)>& spoil) {
  ModelConfig config;
  spoil(config);
  return test::message_of<ConfigError>([&] { config.validate(); });
}

TEST(ModelConfig, TheDefaultIsAModel) { EXPECT_NO_THROW(ModelConfig().validate()); }

class RandomModelConfig : public test::RandomTest {};

TEST_F(RandomModelConfig, LegalDimensionsAreAccepted) {
  for (int i = 0; i < 50; ++i) EXPECT_NO_THROW(test::random_model_config(random).validate());
}

TEST(ModelConfig, DerivesTheWidthsOfHeads) {
  const ModelConfig config{.hidden_size = 96, .num_heads = 12, .num_kv_heads = 3};
  EXPECT_EQ(config.head_dim(), 8U);
  EXPECT_EQ(config.kv_hidden_size(), 24U);
}

TEST(ModelConfig, HeadsMustDivideHidden) {
  EXPECT_THAT(refusal([](ModelConfig& c) { c.hidden_size = 130; }),
              AllOf(HasSubstr("--heads must divide --hidden"), HasSubstr("130 % 4 = 2")));
}

TEST(ModelConfig, KeyValueHeadsMustDivideHeads) {
  EXPECT_THAT(refusal([](ModelConfig& c) { c.num_kv_heads = 3; }),
              AllOf(HasSubstr("--kv-heads must divide --heads"), HasSubstr("4 % 3 = 1")));
}

TEST(ModelConfig, RotaryPositionsNeedAnEvenHeadDimension) {
  EXPECT_THAT(refusal([](ModelConfig& c) { c.hidden_size = 12; }),
              AllOf(HasSubstr("even head dimension"), HasSubstr("12 / 4 = 3")));
}

TEST(ModelConfig, NothingMayBeZero) {
  EXPECT_THAT(refusal([](ModelConfig& c) { c.vocab_size = 0; }), HasSubstr("--vocab is 0"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.hidden_size = 0; }), HasSubstr("--hidden is 0"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.num_layers = 0; }), HasSubstr("--layers is 0"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.num_heads = 0; }), HasSubstr("--heads is 0"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.num_kv_heads = 0; }), HasSubstr("--kv-heads is 0"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.ffn_hidden_size = 0; }), HasSubstr("--ffn is 0"));
  EXPECT_THAT(refusal([](ModelConfig& c) { c.max_seq_len = 0; }), HasSubstr("--seq is 0"));
}

}  // namespace
}  // namespace ultra::nn
