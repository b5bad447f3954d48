#include "common/nn/named_models.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"

namespace ultra::nn {
namespace {

// The sums over the published checkpoints.
TEST(NamedModels, HaveThePublishedNumbersOfParameters) {
  const std::map<std::string, std::size_t> published = {
      {"llama-1b", 1'235'814'400},   {"llama-7b", 6'738'415'616},     {"llama-8b", 8'030'261'248},
      {"llama-70b", 70'553'706'496}, {"llama-405b", 405'853'388'800}, {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-7b", 7'615'616'512}, {"qwen3-0.6b", 596'049'920},     {"qwen3-8b", 8'190'735'360}};
  EXPECT_EQ(published_models().size(), published.size());
  for (const auto& [name, config] : published_models()) {
    DenseFactory factory;
    std::size_t parameters = 0;
    for (const auto& [tensor, shape] : named_shapes(config, factory)) parameters += shape.numel();
    EXPECT_EQ(parameters, published.at(name)) << name;
  }
}

}  // namespace
}  // namespace ultra::nn
