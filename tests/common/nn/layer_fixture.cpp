#include "tests/common/nn/layer_fixture.hpp"

#include "tests/support/compare.hpp"

namespace ultra::nn {

void LayerTest::check_layer(Layer& layer, const Tensor& x) {
  SCOPED_TRACE("input " + x.shape().str());
  randomize(layer);
  Saved saved;
  const Tensor y = layer.forward(x, saved);
  const Tensor d_y = random.tensor(device, y.shape(), DType::kF64);
  const Tensor d_x = layer.backward(d_y, saved);
  EXPECT_TRUE(saved.empty());

  std::vector<test::Differentiated> at = {{"x", x, d_x}};
  for (Parameter* parameter : layer.parameters()) {
    at.push_back({parameter->name(), parameter->value(), parameter->grad().clone()});
  }
  const auto f = [&] {
    Saved discard(Saved::Mode::kDiscard);
    return test::inner_product(d_y, layer.forward(x, discard));
  };
  EXPECT_TRUE(test::gradients_match(random, f, at, 10));

  const Tensor again = layer.forward(x, saved);
  EXPECT_TRUE(test::all_equal(layer.backward(d_y, saved), d_x));
  const double rows = test::count_of(x.numel());
  for (std::size_t i = 1; i < at.size(); ++i) {
    std::vector<double> doubled = at[i].gradient.to_vector();
    for (double& value : doubled) value *= 2.0;
    // The second contribution is added row by row: each addition rounds once.
    const double magnitude = test::largest_magnitude(doubled) + rows;
    EXPECT_TRUE(test::all_near(layer.parameters()[i - 1]->grad(), doubled,
                               test::rounding_bound(DType::kF64, rows, magnitude)));
  }
}

}  // namespace ultra::nn
