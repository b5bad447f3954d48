#include "chapters/01_memory/written_parts.hpp"

#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::memory {
namespace {

class WrittenParts : public ultra::test::RandomTest {};

/// Largest ratio of a bound on the error to the values: each way is a chain of `roundings`.
double tolerance(DType dtype, double roundings, const Tensor& values) {
  return ultra::test::rounding_bound(dtype, roundings,
                                     ultra::test::largest_magnitude(values.to_vector()));
}

TEST_F(WrittenParts, ANormThatIsWrittenOutHasTheGradientsOfTheOperation) {
  const nn::ModelConfig config = ultra::test::random_model_config(random);
  nn::DenseFactory dense;
  WrittenNormFactory written(dense);
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const nn::BuildContext context{.config = config,
                                   .device = device,
                                   .precision = dtype,
                                   .seed = seed,
                                   .rope = nullptr,
                                   .factory = written};
    const auto expected = dense.norm(context, {"norm"});
    const auto actual = written.norm(context, {"norm"});
    ASSERT_EQ(actual->parameters().size(), 1U);
    random.fill(expected->parameters()[0]->value(), 1.0);
    actual->parameters()[0]->value().copy_from(expected->parameters()[0]->value());

    const Shape shape{random.between(1, 3), random.between(1, 9), config.hidden_size};
    const Tensor x = random.tensor(device, shape, dtype);
    const Tensor d_y = random.tensor(device, shape, dtype);
    nn::Saved saved_expected;
    nn::Saved saved_actual;
    EXPECT_TRUE(ultra::test::all_equal(actual->forward(x, saved_actual),
                                       expected->forward(x, saved_expected)));
    const Tensor d_x = expected->backward(d_y, saved_expected);
    // Sums over the hidden size (d_x) and over the rows (d_weight).
    const double terms = ultra::test::count_of(config.hidden_size) + 8;
    const double rows = ultra::test::count_of(shape[0] * shape[1]) + 8;
    EXPECT_TRUE(ultra::test::all_near(actual->backward(d_y, saved_actual), d_x,
                                      8 * tolerance(dtype, terms, d_x)));
    const Tensor& d_weight = expected->parameters()[0]->grad();
    EXPECT_TRUE(ultra::test::all_near(actual->parameters()[0]->grad(), d_weight,
                                      8 * tolerance(dtype, rows, d_weight)));
  }
}

TEST_F(WrittenParts, GradientsOfANormAddUpOverMicroBatches) {
  const nn::ModelConfig config = ultra::test::random_model_config(random);
  nn::DenseFactory dense;
  WrittenNormFactory written(dense);
  const nn::BuildContext context{.config = config,
                                 .device = device,
                                 .precision = DType::kF64,
                                 .seed = seed,
                                 .rope = nullptr,
                                 .factory = written};
  const auto norm = written.norm(context, {"norm"});
  const Tensor x = random.tensor(device, {2, 3, config.hidden_size}, DType::kF64);
  std::vector<double> once;
  for (int times = 1; times <= 3; ++times) {
    nn::Saved saved;
    static_cast<void>(norm->forward(x, saved));
    static_cast<void>(norm->backward(x, saved));
    if (times == 1) once = norm->parameters()[0]->grad().to_vector();
  }
  const Tensor& grad = norm->parameters()[0]->grad();
  for (double& value : once) value *= 3.0;
  EXPECT_TRUE(ultra::test::all_near(grad, once, tolerance(DType::kF64, 4, grad)));
}

TEST_F(WrittenParts, TheWrittenUpdateIsTheLibrarysUpdate) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const Shape shape{random.between(1, 20), random.between(1, 20)};
    const Tensor value = random.tensor(device, shape, dtype);
    const Tensor first = Tensor::zeros(device, shape, dtype);
    const Tensor second = Tensor::zeros(device, shape, dtype);
    const Tensor library_value = value.clone();
    const Tensor library_first = first.clone();
    const Tensor library_second = second.clone();
    for (int step = 1; step <= 5; ++step) {
      const Tensor grad = random.tensor(device, shape, dtype);
      const ops::AdamWStep constants{.learning_rate = 0.01, .gradient_scale = 0.5, .step = step};
      written_adamw(value, grad, first, second, constants);
      ops::adamw_into(library_value, grad, library_first, library_second, constants);
    }
    // A step moves a weight by about the learning rate, whatever the gradient; 1 - beta2 = 0.05
    // magnifies the rounding of beta2 twentyfold.
    const double roundings = 20.0 * 5 * 16;
    EXPECT_TRUE(ultra::test::all_near(value, library_value,
                                      tolerance(dtype, 5 * 4, library_value) +
                                          5 * 0.01 * roundings * ultra::test::epsilon_of(dtype)));
    EXPECT_TRUE(
        ultra::test::all_near(first, library_first, tolerance(dtype, 5 * 8, library_first)));
    EXPECT_TRUE(
        ultra::test::all_near(second, library_second, tolerance(dtype, roundings, library_second)));
  }
}

}  // namespace
}  // namespace ultra::memory
