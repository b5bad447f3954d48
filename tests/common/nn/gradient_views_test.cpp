// Gradients in views of a flat buffer, at any element of it: the same bits as in memory of their own.
#include "common/nn/layers/embedding_layer.hpp"
#include "common/nn/layers/linear.hpp"
#include "common/nn/layers/norm.hpp"
#include "tests/common/nn/layer_fixture.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::nn {
namespace {

constexpr double kUntouched = 7.0;

class GradientViewsTest : public LayerTest,
                          public ::testing::WithParamInterface<std::tuple<DType, std::size_t>> {
 protected:
  [[nodiscard]] static DType dtype() { return std::get<0>(GetParam()); }
  [[nodiscard]] static std::size_t offset() { return std::get<1>(GetParam()); }

  /// Two rounds of two micro-batches each; `micro_batch` runs one forward and backward.
  void expect_same_in_views(Module& module, const std::function<void()>& micro_batch) {
    const std::vector<Parameter*> parameters = module.parameters();
    micro_batch();
    micro_batch();
    std::vector<Tensor> own;
    for (Parameter* parameter : parameters) own.push_back(parameter->grad().clone());

    const Tensor flat = buffer_for(parameters);
    flat.fill(kUntouched);
    std::vector<Tensor> views;
    std::vector<HookHandle> hooks;
    std::size_t begin = offset();
    for (Parameter* parameter : parameters) {
      const Shape& shape = parameter->value().shape();
      views.push_back(flat.slice(0, {begin, begin + shape.numel()}).view(shape));
      begin += shape.numel() + 1;
      parameter->drop_grad();
      hooks.push_back(parameter->allocate_grad_by([view = views.back()] { return view; }));
    }
    for (int round = 0; round < 2; ++round) {
      micro_batch();
      micro_batch();
      for (std::size_t i = 0; i < views.size(); ++i) {
        EXPECT_TRUE(test::all_equal(views[i], own[i])) << parameters[i]->name();
        EXPECT_TRUE(parameters[i]->grad().shares_storage(flat));
        parameters[i]->drop_grad();
      }
    }
    for (const Tensor& view : views) view.fill(kUntouched);
    EXPECT_THAT(flat.to_vector(), ::testing::Each(kUntouched)) << "nothing beside the views";
  }

  /// Room for `offset` elements, the gradients, and one element behind each.
  [[nodiscard]] Tensor buffer_for(const std::vector<Parameter*>& parameters) const {
    std::size_t elements = offset();
    for (const Parameter* parameter : parameters) elements += parameter->value().numel() + 1;
    return Tensor::empty(device, {elements}, dtype(), MemoryCategory::kGradients);
  }

  void expect_same_in_views(Layer& layer, std::size_t in, std::size_t out) {
    randomize(layer);
    const Tensor x = random.tensor(device, {2, 5, in}, dtype());
    const Tensor d_y = random.tensor(device, {2, 5, out}, dtype());
    expect_same_in_views(layer, [&] {
      Saved saved;
      static_cast<void>(layer.forward(x, saved));
      static_cast<void>(layer.backward(d_y, saved));
    });
  }
};

TEST_P(GradientViewsTest, OfALinearMap) {
  for (const auto& [in, out] : {std::pair{3, 5}, {16, 33}, {64, 48}}) {
    const auto columns = static_cast<std::size_t>(in);
    const auto rows = static_cast<std::size_t>(out);
    DenseLinear linear(
        weight_spec(
            {.name = "w", .in_features = columns, .out_features = rows, .standard_deviation = 1.0}),
        device, dtype(), seed);
    expect_same_in_views(linear, columns, rows);
  }
}

TEST_P(GradientViewsTest, OfANorm) {
  RmsNorm norm(context(dtype()), {"w"});
  expect_same_in_views(norm, config.hidden_size, config.hidden_size);
}

TEST_P(GradientViewsTest, OfAnEmbedding) {
  DenseEmbedding embedding(context(dtype()));
  const Tensor tokens = random.tokens(device, {2, 5}, config.vocab_size);
  const Tensor d_y = random.tensor(device, {2, 5, config.hidden_size}, dtype());
  expect_same_in_views(embedding, [&] {
    Saved saved;
    static_cast<void>(embedding.forward(tokens, saved));
    embedding.backward(d_y, saved);
  });
}

INSTANTIATE_TEST_SUITE_P(AtOddElements, GradientViewsTest,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kF64),
                                            ::testing::Values(1, 3, 7)));

}  // namespace
}  // namespace ultra::nn
