// Models by name: parameters and FLOP against published numbers.
//
// Covers: chapters/11_five_d/planner/model/model_shape.hpp
#include "chapters/11_five_d/planner/model/model_shape.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace ultra::planner {
namespace {

const ModelShape& called(const char* name) {
  const ModelShape* model = find_model(name);
  EXPECT_NE(model, nullptr) << name;
  return *model;
}

TEST(ModelShapes, ParametersOfPublishedModels) {
  EXPECT_EQ(parameters_of(called("llama-8b")), 8030261248.0);
  EXPECT_EQ(parameters_of(called("llama-70b")), 70553706496.0);
  EXPECT_EQ(parameters_of(called("llama-405b")), 405853388800.0);
  EXPECT_EQ(parameters_of(called("llama2-7b")), 6738415616.0);
  EXPECT_NEAR(parameters_of(called("deepseek-v3")), 671.03e9, 0.01e9);
}

TEST(ModelShapes, MegatronsTableOneRoundsToItsSizes) {
  // Narayanan et al. 2021, table 1, in billions as printed.
  const std::array<std::pair<const char*, double>, 10> sizes = {{{"megatron-1.7b", 1.7},
                                                                 {"megatron-3.6b", 3.6},
                                                                 {"megatron-7.5b", 7.5},
                                                                 {"megatron-18b", 18.4},
                                                                 {"megatron-39b", 39.1},
                                                                 {"megatron-76b", 76.1},
                                                                 {"megatron-145b", 145.6},
                                                                 {"megatron-310b", 310.1},
                                                                 {"megatron-530b", 529.6},
                                                                 {"megatron-1t", 1008.0}}};
  for (const auto& [name, billions] : sizes) {
    EXPECT_NEAR(parameters_of(called(name)) / 1e9, billions, 0.055 + 1e-4 * billions) << name;
  }
}

TEST(ModelShapes, ThePlaybooksAxis) {
  EXPECT_NEAR(parameters_of(called("nanotron-1.34b")), 1.342e9, 1e6);
  EXPECT_NEAR(parameters_of(called("nanotron-3.57b")), 3.574e9, 1e6);
  EXPECT_NEAR(parameters_of(called("nanotron-8.86b")), 8.858e9, 1e6);
  EXPECT_NEAR(parameters_of(called("nanotron-80b")), 79.994e9, 1e7);
}

TEST(ModelShapes, FlopsAsMegatronCountsThem) {
  // 72 B L s h^2 (1 + s / 6h + V / 12 h L), Korthikanti et al. 2022, appendix A.
  for (const char* name : {"megatron-22b", "megatron-175b", "megatron-1t"}) {
    const memory::TransformerShape& s = called(name).shape();
    const auto h = static_cast<double>(s.hidden_size);
    const auto l = static_cast<double>(s.num_layers);
    const auto v = static_cast<double>(s.vocab_size);
    const double expected = 72 * l * h * h * (1 + 2048 / (6 * h) + v / (12 * h * l));
    EXPECT_NEAR(model_flop_per_token(called(name), 2048) / expected, 1, 1e-12) << name;
  }
}

TEST(ModelShapes, ExpertsThatATokenDoesNotChooseAreNotMultiplied) {
  // Published: 37 billion activated, with both tables 37.55 (without the input table 36.63).
  EXPECT_NEAR(multiplied_parameters(called("deepseek-v3")), 36.63e9, 0.02e9);
}

TEST(ModelShapes, NamesAreFoundWithoutCaseAndOnce) {
  EXPECT_EQ(find_model("LLAMA-8B"), find_model("llama-8b"));
  EXPECT_EQ(find_model("llama-9b"), nullptr);
  std::set<std::string> names;
  for (const ModelShape& model : named_models()) {
    EXPECT_TRUE(names.insert(model.shape().name).second) << model.shape().name;
  }
}

}  // namespace
}  // namespace ultra::planner
