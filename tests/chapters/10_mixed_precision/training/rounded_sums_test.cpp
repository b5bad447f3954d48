// Layers whose sums are rounded after every addition: equal to the f32 ones where nothing needs
// rounding, and off by what counting in two bytes says where it does.
//

#include "chapters/10_mixed_precision/training/rounded_sums.hpp"

#include "common/ops/cross_entropy.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::mixed_precision {
namespace {

class RoundedSumsTest : public ultra::test::RandomTest {
 protected:
  nn::BuildContext context(std::size_t hidden, DType dtype) {
    config.hidden_size = hidden;
    return {.config = config,
            .device = Device::cpu(),
            .precision = nn::Precision(dtype),
            .seed = 1,
            .rope = nullptr,
            .factory = dense};
  }

  /// The output of a norm, and 1/rms of its tokens, for inputs that are all the same number.
  std::pair<double, double> normed(std::size_t hidden, double x, const RoundedSums& sums) {
    RoundedSumsFactory factory(dense, sums);
    const nn::BuildContext built = context(hidden, DType::kBF16);
    const auto norm = factory.norm(built, {"norm.weight"});
    const Tensor input = Tensor::empty(Device::cpu(), {1, 2, hidden}, DType::kBF16);
    input.fill(x);
    nn::Saved saved;
    const Tensor output = norm->forward(input, saved);
    return {cast(output, DType::kF32).to_vector().front(),
            saved.get("reciprocal_rms").to_vector().back()};
  }

  nn::ModelConfig config;
  nn::DenseFactory dense;
};

// Squares of one add up to 256, where counting stops: of 1,024 features a quarter counts.
TEST_F(RoundedSumsTest, AMeanSquareOfManyFeaturesStopsGrowing) {
  EXPECT_EQ(normed(1024, 1.0, {.norms = true}), std::pair(2.0, 2.0));
  const auto [output, reciprocal] = normed(1024, 1.0, {.loss = true});
  EXPECT_EQ(output, 1.0);
  EXPECT_NEAR(reciprocal, 1.0, 1e-5);
  EXPECT_EQ(normed(128, 1.0, {.norms = true}).first, 1.0);
}

// Equal logits of n tokens have the loss log n; counting to 256 needs no rounding, to 1,024 it does.
TEST_F(RoundedSumsTest, ADenominatorOfManyTermsStopsGrowing) {
  RoundedSumsFactory factory(dense, {.loss = true});
  const nn::BuildContext built = context(8, DType::kBF16);
  for (const auto& [vocab, counted] :
       std::vector<std::pair<std::size_t, double>>{{16, 16}, {256, 256}, {1024, 256}}) {
    const Tensor logits = Tensor::empty(Device::cpu(), {1, 1, vocab}, DType::kBF16);
    logits.fill(0.0);
    const Tensor target = Tensor::empty(Device::cpu(), {1, 1}, DType::kI32);
    target.span<std::int32_t>()[0] = 3;
    nn::Saved saved;
    const auto loss = factory.loss(built);
    const double found = loss->forward(logits, target, 1.0, saved);
    EXPECT_NEAR(found, std::log(counted), 0x1p-6 * std::log(counted));
    const std::vector<double> gradient = cast(loss->backward(saved), DType::kF32).to_vector();
    double sum = 0;
    for (const double each : gradient) sum += each;
    EXPECT_NEAR(sum, static_cast<double>(vocab) / counted - 1,
                0.05 * static_cast<double>(vocab) / counted);
  }
}

TEST_F(RoundedSumsTest, ATokenOfPaddingHasNoLoss) {
  RoundedSumsFactory factory(dense, {.loss = true});
  const nn::BuildContext built = context(8, DType::kF16);
  const Tensor logits = Tensor::empty(Device::cpu(), {1, 1, 5}, DType::kF16);
  logits.fill(1.0);
  const Tensor target = Tensor::empty(Device::cpu(), {1, 1}, DType::kI32);
  target.span<std::int32_t>()[0] = ops::kNoTarget;
  nn::Saved saved;
  const auto loss = factory.loss(built);
  EXPECT_EQ(loss->forward(logits, target, 1.0, saved), 0.0);
  EXPECT_EQ(cast(loss->backward(saved), DType::kF32).to_vector(), std::vector<double>(5, 0.0));
}

TEST_F(RoundedSumsTest, AListNamesSums) {
  EXPECT_EQ(parse_rounded_sums("norms").str(), "norms");
  EXPECT_EQ(parse_rounded_sums("loss,norms").str(), "norms,loss");
  EXPECT_EQ(parse_rounded_sums("softmax").str(), "softmax");
  EXPECT_EQ(parse_rounded_sums("softmax,norms,loss").str(), "norms,loss,softmax");
  EXPECT_EQ(RoundedSums{}.str(), "none");
  EXPECT_THAT(message_of<ConfigError>([] { static_cast<void>(parse_rounded_sums("norm")); }),
              HasSubstr("'norm' is no sum"));
}

}  // namespace
}  // namespace ultra::mixed_precision
