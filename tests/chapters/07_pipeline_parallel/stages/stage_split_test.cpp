#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"

#include "chapters/01_memory/model_presets.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using Layers = std::vector<std::size_t>;

class StageSplits : public ultra::test::RandomTest {
 protected:
  static double longest(const Layers& layers, const Placement& placement, const PieceCosts& costs) {
    std::vector<double> loads(placement.stages(), 0.0);
    for (std::size_t part = 0; part < layers.size(); ++part) {
      loads[placement.at(part).stage] += static_cast<double>(layers[part]) * costs.block;
    }
    loads[placement.at(0).stage] += costs.embedding;
    loads[placement.at(placement.parts() - 1).stage] += costs.head;
    return *std::ranges::max_element(loads);
  }

  /// All ways to deal the layers out, one at least to each part.
  static void for_each_split(std::size_t layers, std::size_t parts, Layers& begun,
                             const std::function<void(const Layers&)>& fn) {
    if (begun.size() + 1 == parts) {
      begun.push_back(layers);
      fn(begun);
      begun.pop_back();
      return;
    }
    for (std::size_t n = 1; layers - n >= parts - begun.size() - 1; ++n) {
      begun.push_back(n);
      for_each_split(layers - n, parts, begun, fn);
      begun.pop_back();
    }
  }
};

TEST_F(StageSplits, NoOtherSplitHasALighterHeaviestRank) {
  for (int trial = 0; trial < 30; ++trial) {
    const std::size_t stages = random.between(1, 4);
    const Placement placement =
        stages > 1 && random.pick({true, false})
            ? Placement::v_shape(stages)
            : Placement::loop(stages, stages > 2 ? 1 : random.between(1, 2));
    const std::size_t layers = placement.parts() + random.between(0, 4);
    const PieceCosts costs{.embedding = 0.5 * static_cast<double>(random.between(0, 3)),
                           .block = 1,
                           .head = 0.7 * static_cast<double>(random.between(0, 5))};
    const Layers found = balanced_layers(layers, placement, costs);
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::size_t{0}), layers);
    double best = longest(found, placement, costs);
    Layers begun;
    for_each_split(layers, placement.parts(), begun, [&](const Layers& other) {
      EXPECT_GE(longest(other, placement, costs), best - 1e-9);
    });
    for (std::size_t stage = 0; stage < stages; ++stage) {
      Layers own;
      for (std::size_t chunk = 0; chunk < placement.chunks(); ++chunk) {
        own.push_back(found[placement.part_at({.stage = stage, .chunk = chunk})]);
      }
      EXPECT_LE(std::ranges::max(own) - std::ranges::min(own), 1U);
    }
  }
}

// Of a Llama-3 8B the head takes as much as 2.4 blocks at 4096 tokens: the last of 4 stages has
// that many fewer.
TEST_F(StageSplits, AHeavyHeadLeavesItsStageFewerLayers) {
  const PieceCosts costs = operations_of({.vocab_size = 128256,
                                          .hidden_size = 4096,
                                          .num_layers = 32,
                                          .num_heads = 32,
                                          .num_kv_heads = 8,
                                          .ffn_hidden_size = 14336,
                                          .max_seq_len = 4096});
  EXPECT_NEAR(costs.head / costs.block, 2.24, 0.01);
  EXPECT_EQ(balanced_layers(32, Placement::loop(4), costs), (Layers{9, 9, 8, 6}));
}

// 6 N operations per token, without attention: every weight is in one product.
TEST_F(StageSplits, OperationsFollowFromTheWeights) {
  nn::ModelConfig config;
  config.max_seq_len = 1;
  const PieceCosts costs = operations_of(config);
  const double h = static_cast<double>(config.hidden_size);
  const auto weights = static_cast<double>(memory::parameter_count(memory::shape_of(config)));
  const double tables = 2 * h * static_cast<double>(config.vocab_size);
  const double norms = h * (2 * static_cast<double>(config.num_layers) + 1);
  EXPECT_DOUBLE_EQ(costs.block * static_cast<double>(config.num_layers),
                   2 * (weights - tables - norms) + static_cast<double>(config.num_layers) * 4 * h);
  EXPECT_DOUBLE_EQ(costs.head, tables);
}

TEST_F(StageSplits, AreReadAsTheyAreWritten) {
  for (const char* text : {"balanced", "measured", "3,2,3", "7"}) {
    EXPECT_EQ(parse_stage_split(text).str(), text);
  }
  for (const char* text : {"", "1,", "1,,2", "a", "-1", "1.5", "Balanced"}) {
    EXPECT_THROW(static_cast<void>(parse_stage_split(text)), ConfigError) << text;
  }
}

TEST_F(StageSplits, RefusalsSayWhatDoesNotFit) {
  const auto refusal = [](const char* text, std::size_t layers, const Placement& placement) {
    return ultra::test::message_of<ConfigError>(
        [&] { expect_split(parse_stage_split(text), layers, placement); });
  };
  using ultra::test::expect_parts;
  expect_parts(refusal("balanced", 5, Placement::loop(3, 2)),
               {"--layers 5 are fewer than the 6 parts", "3 stages, 2 to a rank",
                "at least 6, a smaller --pp, or a schedule with fewer chunks."});
  EXPECT_THAT(refusal("balanced", 2, Placement::loop(3)),
              ::testing::EndsWith("Choose --layers of at least 3 or a smaller --pp."));
  expect_parts(refusal("2,2", 4, Placement::loop(4)), {"has 2 numbers", "4 parts"});
  expect_parts(refusal("2,3", 4, Placement::loop(2)), {"has 5 layers", "--layers 4"});
  expect_parts(refusal("0,4", 4, Placement::loop(2)), {"part 0 has 0 layers"});
  expect_parts(refusal("18446744073709551615,5", 4, Placement::loop(2)), {"part 0 has"});
  EXPECT_NO_THROW(expect_split(parse_stage_split("1,3"), 4, Placement::loop(2)));
}

}  // namespace
}  // namespace ultra::pipeline_parallel
