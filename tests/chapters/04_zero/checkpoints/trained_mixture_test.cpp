#include "chapters/04_zero/checkpoints/trained_mixture.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using Flags = std::map<std::string, std::string>;

/// What --experts 8 means beside its defaults, with other values.
std::string unlike_published(const Flags& changes) {
  Flags flags = {
      {"--experts", "8"},        {"--top-k", "2"},        {"--expert-ffn", "24"},
      {"--shared-experts", "0"}, {"--router", "softmax"}, {"--balance", "aux"},
      {"--aux-loss", "0.01"},    {"--z-loss", "0.001"},   {"--capacity-factor", "dropless"}};
  for (const auto& [flag, value] : changes) flags[flag] = value;
  return mixture_of(flags).value().unlike_published;
}

TEST(TrainedMixture, IsWhatTheFlagsSay) {
  EXPECT_FALSE(mixture_of({}).has_value());
  EXPECT_FALSE(mixture_of({{"--fp8-recipe delayed", "(with --precision fp8)"}}).has_value());
  const auto mixture = mixture_of({{"--experts", "8"}, {"--top-k", "3"}, {"--expert-ffn", "24"}});
  ASSERT_TRUE(mixture.has_value());
  EXPECT_EQ(mixture->experts, 8U);
  EXPECT_EQ(mixture->top_k, 3U);
  EXPECT_EQ(mixture->expert_ffn, 24U);
  EXPECT_EQ(mixture->unlike_published, "");
}

// MixtralSparseMoeBlock: softmax, top-k, the weights divided by their sum, and no more.
TEST(TrainedMixture, IsMixtralsOnlyWithoutWhatItLacks) {
  EXPECT_EQ(unlike_published({}), "");
  EXPECT_EQ(unlike_published({{"--balance", "none"}, {"--top-k", "8"}}), "");
  for (const auto& [flag, value] : Flags{{"--router", "sigmoid"},
                                         {"--top-k", "1"},
                                         {"--shared-experts", "1"},
                                         {"--balance", "bias"},
                                         {"--capacity-factor", "1.25"}}) {
    EXPECT_THAT(unlike_published({{flag, value}}), HasSubstr(flag)) << value;
  }
  EXPECT_THAT(unlike_published({{"--router", "sigmoid"}, {"--balance", "bias"}}),
              AllOf(HasSubstr("--router sigmoid"), HasSubstr("; "), HasSubstr("--balance bias")));
}

TEST(TrainedMixture, ANumberThatIsNoneIsDamage) {
  EXPECT_THAT(message_of<FileError>([] {
                unlike_published({{"--experts", "many"}});
              }),
              AllOf(HasSubstr("training.json"), HasSubstr("'many'")));
}

}  // namespace
}  // namespace ultra::zero
