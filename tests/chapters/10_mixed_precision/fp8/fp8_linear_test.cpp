// Linear layers in fp8 on one rank: against products of tensors on the grid, made by hand.
//
// Covers: chapters/10_mixed_precision/fp8/fp8_linear.hpp
// Covers: chapters/10_mixed_precision/fp8/fp8_factory.hpp

#include "chapters/10_mixed_precision/fp8/fp8_linear.hpp"

#include "chapters/10_mixed_precision/delayed_scaling.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/nn/layers/linear.hpp"
#include "common/ops/matmul.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

using ops::as_matrix;
using ops::Transpose;

constexpr Scaling kScalings[] = {Scaling::kNone, Scaling::kDelayed, Scaling::kCurrent,
                                 Scaling::kBlockwise};

/// Two linear maps of one input in fp8, on one rank.
class TwoMaps {
 public:
  TwoMaps(const Communicator& one, const Fp8Recipe& recipe, DType dtype,
          ultra::test::Random& random)
      : device(Device::cpu()),
        context_{config_, device, dtype, 1, nullptr, factory_},
        fp8(factory_, {.recipe = recipe, .tp = one, .tokens = one}),
        in(random.between(1, 200)) {
    const std::vector<nn::LinearSpec> specs = {
        {"model.layers.0.a.weight", in, random.between(1, 200), 0.1},
        {"model.layers.0.b.weight", in, random.between(1, 200), 3.0}};
    maps = fp8.column_linear(context_, specs);
    x = random.tensor(device, {2, 3, in}, dtype, 5.0);
    for (const nn::LinearSpec& spec : specs) {
      d_y.push_back(random.tensor(device, {2, 3, spec.out_features}, dtype, 1e-6));
    }
  }

  [[nodiscard]] nn::Parameter& weight(std::size_t map) { return *maps->parameters().at(map); }
  [[nodiscard]] std::span<float> history() {
    return maps->parameters().at(2)->value().span<float>();
  }

 private:
  nn::DenseFactory factory_;
  nn::ModelConfig config_;

 public:
  Device device;

 private:
  nn::BuildContext context_;

 public:
  Fp8Factory fp8;
  std::size_t in;
  std::unique_ptr<nn::Projections> maps;
  Tensor x;
  std::vector<Tensor> d_y;
};

/// A matrix on the grid with scales of its own maxima.
Tensor by_hand(const Tensor& x, const Fp8Recipe& recipe, const TileShape& tile, Fp8 format) {
  const Tensor rows = as_matrix(x);
  const GridPart part{{0, rows.size(0)}, {0, rows.size(1)}, {rows.size(0), rows.size(1), tile}};
  Tensor scales = amax_of(rows, part);
  if (recipe.scaling == Scaling::kNone) {
    scales.fill(1.0);
  } else {
    scales_from_amax(scales, format, recipe.margin);
  }
  return on_grid(rows, part, scales, format);
}

class Fp8Layers : public ultra::test::RandomTest {
 protected:
  /// Calls fn with maps of each recipe and type.
  void for_all(const std::function<void(TwoMaps&, const Fp8Recipe&)>& fn) {
    run_ranks(1, [&](Communicator& one) {
      for (const Scaling scaling : kScalings) {
        for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
          const Fp8Recipe recipe{.scaling = scaling,
                                 .history = random.between(1, 4),
                                 .margin = scaling == Scaling::kNone ? 0 : 1};
          TwoMaps maps(one, recipe, dtype, random);
          fn(maps, recipe);
        }
      }
    });
  }
};

TEST_F(Fp8Layers, TheThreeProductsAreThoseOfTensorsOnTheGrid) {
  for_all([](TwoMaps& two, const Fp8Recipe& recipe) {
    nn::Saved saved;
    const std::vector<Tensor> y = two.maps->forward(two.x, saved);
    const Tensor d_x = two.maps->backward(two.d_y, saved);
    EXPECT_TRUE(saved.empty());
    const Tensor x = by_hand(two.x, recipe, recipe.token_tile(), Fp8::kE4m3);
    Tensor expected_d_x = Tensor::zeros(two.device, x.shape(), x.dtype());
    for (std::size_t map = 2; map-- > 0;) {
      nn::Parameter& weight = two.weight(map);
      const Tensor w = by_hand(weight.value(), recipe, recipe.weight_tile(), Fp8::kE4m3);
      const Tensor d = by_hand(two.d_y[map], recipe, recipe.token_tile(), recipe.gradient_format());
      EXPECT_TRUE(
          test::all_equal(as_matrix(y[map]), ops::matmul(x, Transpose::kNo, w, Transpose::kYes)));
      EXPECT_TRUE(
          test::all_equal(weight.grad(), ops::matmul(d, Transpose::kYes, x, Transpose::kNo)));
      ops::matmul_into(expected_d_x, d, Transpose::kNo, w, Transpose::kNo,
                       map == 1 ? ops::Write::kOverwrite : ops::Write::kAccumulate);
    }
    EXPECT_TRUE(test::all_equal(as_matrix(d_x), expected_d_x));
  });
}

TEST_F(Fp8Layers, WeightsAreWhatTheyWereAfterAPass) {
  for_all([](TwoMaps& two, const Fp8Recipe&) {
    const Tensor before = two.weight(1).value();
    const Tensor copy = before.clone();
    nn::Saved saved;
    static_cast<void>(two.maps->forward(two.x, saved));
    EXPECT_TRUE(two.weight(1).value().shares_storage(before));
    static_cast<void>(two.maps->backward(two.d_y, saved));
    EXPECT_TRUE(two.weight(1).value().shares_storage(before));
    EXPECT_TRUE(test::all_equal(two.weight(1).value(), copy));
  });
}

TEST_F(Fp8Layers, TheInputIsKeptInOneBytePerNumber) {
  for_all([](TwoMaps& two, const Fp8Recipe& recipe) {
    nn::Saved saved;
    static_cast<void>(two.maps->forward(two.x, saved));
    const std::size_t tokens = 2 * 3;
    const bool tiles = recipe.scaling == Scaling::kBlockwise;
    const std::size_t scales = tiles ? tokens * ((two.in + 127) / 128) : 1;
    EXPECT_EQ(saved.bytes(), tokens * ((two.in + 3) / 4 * 4) + 4 * scales);
    static_cast<void>(two.maps->backward(two.d_y, saved));
  });
}

TEST_F(Fp8Layers, AForwardPassWithoutABackwardPassKeepsNothing) {
  for_all([](TwoMaps& two, const Fp8Recipe&) {
    nn::Saved discard(nn::Saved::Mode::kDiscard);
    static_cast<void>(two.maps->forward(two.x, discard));
    EXPECT_TRUE(discard.empty());
  });
}

TEST_F(Fp8Layers, HistoriesNoteWhatThePassesHaveSeen) {
  run_ranks(1, [&](Communicator& one) {
    const Fp8Recipe recipe{.scaling = Scaling::kDelayed, .history = 2};
    TwoMaps two(one, recipe, DType::kF32, random);
    const auto front = [&](std::size_t tensor) { return two.history()[3 * tensor]; };
    const auto largest = [](const Tensor& x) {
      return static_cast<float>(test::largest_magnitude(x.to_vector()));
    };
    ASSERT_EQ(two.history().size(), 5U * 3);
    const nn::Pass ignored[] = {{.token_weight = 0.0}, {.recomputes = true}};
    for (const nn::Pass& pass : ignored) {
      nn::Saved saved(nn::Saved::Mode::kKeep, pass);
      static_cast<void>(two.maps->forward(two.x, saved));
      EXPECT_EQ(front(0), 0.0F);
    }
    nn::Saved saved;
    static_cast<void>(two.maps->forward(two.x, saved));
    EXPECT_EQ(front(0), largest(two.x));
    EXPECT_EQ(front(3), 0.0F);
    static_cast<void>(two.maps->backward(two.d_y, saved));
    for (std::size_t map = 0; map < 2; ++map) {
      EXPECT_EQ(front(1 + map), largest(two.weight(map).value()));
      EXPECT_EQ(front(3 + map), largest(two.d_y[map]));
    }
  });
}

TEST_F(Fp8Layers, ScalesFollowTheStepsBefore) {
  run_ranks(1, [&](Communicator& one) {
    const Fp8Recipe recipe{.scaling = Scaling::kDelayed, .history = 2};
    TwoMaps two(one, recipe, DType::kF32, random);
    nn::Saved discard(nn::Saved::Mode::kDiscard);
    static_cast<void>(two.maps->forward(two.x, discard));
    const std::span<float> input = two.history().first(3);
    end_amax_step(input);
    // A thousand times as large: with the scale of the step before, nearly everything saturates.
    const Tensor larger = two.x.clone();
    for (float& number : larger.span<float>()) number *= 1000;
    nn::Saved saved;
    static_cast<void>(two.maps->forward(larger, saved));
    const float scale = saved.get("input_scales").data<float>()[0];
    EXPECT_EQ(scale, power_of_two_scale(input[1], Fp8::kE4m3));
    end_amax_step(input);
    nn::Saved next;
    static_cast<void>(two.maps->forward(larger, next));
    EXPECT_EQ(next.get("input_scales").data<float>()[0], power_of_two_scale(input[1], Fp8::kE4m3));
    EXPECT_LT(next.get("input_scales").data<float>()[0], scale);
  });
}

TEST_F(Fp8Layers, OnlyLinearsOfBlocksAreInFp8) {
  run_ranks(1, [&](Communicator& one) {
    nn::DenseFactory dense;
    Fp8Factory fp8(dense, {.recipe = {.scaling = Scaling::kDelayed}, .tp = one, .tokens = one});
    nn::ModelConfig config;
    config.num_layers = 2;
    const nn::Model model(config, device, DType::kF32, 1, fp8, nn::StageSpec::whole(config));
    std::vector<std::string> histories;
    for (const nn::Parameter* parameter : model.parameters()) {
      if (parameter->name().ends_with(kHistorySuffix)) histories.push_back(parameter->name());
    }
    EXPECT_THAT(histories, ElementsAre("model.layers.0.self_attn.q_proj.fp8_amax_history",
                                       "model.layers.0.self_attn.o_proj.fp8_amax_history",
                                       "model.layers.0.mlp.gate_proj.fp8_amax_history",
                                       "model.layers.0.mlp.down_proj.fp8_amax_history",
                                       "model.layers.1.self_attn.q_proj.fp8_amax_history",
                                       "model.layers.1.self_attn.o_proj.fp8_amax_history",
                                       "model.layers.1.mlp.gate_proj.fp8_amax_history",
                                       "model.layers.1.mlp.down_proj.fp8_amax_history"));
  });
}

// Experts in fp8 on one rank: each expert's products are those of a linear layer of its own.

using expert_parallel::GroupedExpertLinears;

constexpr std::size_t kMaps = 2;

class Fp8Experts : public ultra::test::RandomTest {
 protected:
  /// The weights of each map and expert.
  GroupedExpertLinears::Weights weights(std::size_t map, std::size_t experts, std::size_t in,
                                        std::size_t out) {
    GroupedExpertLinears::Weights all;
    for (std::size_t e = 0; e < experts; ++e) {
      all.push_back(std::make_unique<nn::Parameter>(
          nn::ParameterSpec{.name = fmt::format("model.layers.0.{}.{}.weight", map, e),
                            .global_shape = {out, in},
                            .shard = {{0, out}, {0, in}},
                            .initializer = {.standard_deviation = 0.1}},
          device, nn::Precision(DType::kF64), seed, nn::Values::kAllocated));
    }
    return all;
  }

  Device device = Device::cpu();
};

TEST_F(Fp8Experts, EachExpertIsALayerInFp8) {
  run_ranks(1, [&](Communicator& one) {
    const nn::ModelConfig config;
    nn::DenseFactory dense;
    const nn::BuildContext context{config, device, DType::kF64, seed, nullptr, dense};
    const Fp8Scope scope{
        .recipe = {.scaling = Scaling::kBlockwise}, .tp = one, .tokens = one, .history_copies = {}};
    const std::size_t in = random.between(1, 300);
    const std::size_t out = random.between(1, 300);
    std::vector<std::size_t> rows = {random.between(1, 9), 0, random.between(1, 9)};
    const std::size_t all = std::reduce(rows.begin(), rows.end());
    std::vector<GroupedExpertLinears::Weights> maps;
    for (std::size_t map = 0; map < kMaps; ++map)
      maps.push_back(weights(map, rows.size(), in, out));
    Fp8ExpertLinears experts(context, std::make_unique<GroupedExpertLinears>(std::move(maps)),
                             scope);
    const Tensor x = random.tensor(device, {all, in}, DType::kF64, 3.0);
    const std::vector<Tensor> d_y = {random.tensor(device, {all, out}, DType::kF64, 1e-6),
                                     random.tensor(device, {all, out}, DType::kF64, 1e3)};
    nn::Saved saved;
    const std::vector<Tensor> y = experts.forward(x, rows, saved);
    EXPECT_EQ(saved.bytes(), all * ((in + 3) / 4 * 4) + 4 * all * ((in + 127) / 128));
    const Tensor d_x = experts.backward(d_y, rows, saved);
    EXPECT_TRUE(saved.empty());

    Fp8Factory fp8(dense, scope);
    std::size_t begin = 0;
    for (std::size_t e = 0; e < rows.size(); ++e) {
      const Range group{begin, begin + rows[e]};
      begin = group.end;
      if (rows[e] == 0) continue;
      const auto maps_of_expert = fp8.column_linear(
          context,
          {{"model.layers.0.a.weight", in, out, 0.1}, {"model.layers.0.b.weight", in, out, 0.1}});
      const auto of = [&](std::size_t map) { return experts.parameters()[map * rows.size() + e]; };
      for (std::size_t map = 0; map < kMaps; ++map) {
        maps_of_expert->parameters()[map]->value().copy_from(of(map)->value());
      }
      nn::Saved kept;
      const auto part = [&](const Tensor& t) {
        return t.slice(0, group).contiguous().view({1, rows[e], t.size(1)});
      };
      const std::vector<Tensor> expected = maps_of_expert->forward(part(x), kept);
      const std::vector<Tensor> gradients = {part(d_y[0]), part(d_y[1])};
      EXPECT_TRUE(test::all_equal(part(d_x), maps_of_expert->backward(gradients, kept)));
      for (std::size_t map = 0; map < kMaps; ++map) {
        EXPECT_TRUE(test::all_equal(part(y[map]), expected[map]));
        EXPECT_TRUE(test::all_equal(of(map)->grad(), maps_of_expert->parameters()[map]->grad()));
      }
    }
  });
}

}  // namespace
}  // namespace ultra::mixed_precision
