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

TEST_F(RoundedSumsTest, ANormGoesBackByItsOwnStatistic) {
  RoundedSumsFactory factory(dense, {.norms = true});
  const nn::BuildContext built = context(1024, DType::kBF16);
  const auto norm = factory.norm(built, {"norm.weight"});
  const Tensor input = Tensor::empty(Device::cpu(), {1, 1, 1024}, DType::kBF16);
  input.fill(1.0);
  nn::Saved saved;
  static_cast<void>(norm->forward(input, saved));
  EXPECT_EQ(saved.get("reciprocal_rms").to_vector(), std::vector<double>{2.0});
  EXPECT_EQ(norm->backward(input.clone(), saved).shape(), input.shape());
  EXPECT_EQ(norm->parameters().size(), 1U);
}

TEST_F(RoundedSumsTest, ANormIsMadeAgainWithItsOwnSums) {
  RoundedSumsFactory factory(dense, {.norms = true});
  const nn::BuildContext built = context(1024, DType::kBF16);
  const auto norm = factory.norm(built, {"norm.weight"});
  const Tensor input = Tensor::empty(Device::cpu(), {1, 1, 1024}, DType::kBF16);
  input.fill(1.0);
  nn::Saved saved(nn::Saved::Mode::kRemake);
  const Tensor output = norm->forward(input, saved);
  ASSERT_EQ(saved.remakeables().size(), 1U);
  EXPECT_TRUE(saved.can_remake(output));
  EXPECT_THAT(cast(saved.remakeables()[0].make(), DType::kF32).to_vector(), ::testing::Each(2.0));
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
  try {
    static_cast<void>(parse_rounded_sums("norm"));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'norm' is no sum"));
  }
}

// Gradients added up in two bytes over many micro-batches drift away from their sum.

using SumDriftTest = ultra::test::RandomTest;

// Rounded to nearest, a number of p bits moves by at most 2^-p of itself.
TEST_F(SumDriftTest, RoundingOnceCostsOneRounding) {
  for (const std::size_t n : {1U, 64U, 256U}) {
    EXPECT_LE(sum_drift(n, DType::kBF16, seed).rounded_once, 0x1p-8) << n;
    EXPECT_LE(sum_drift(n, DType::kF16, seed).rounded_once, 0x1p-11) << n;
  }
}

TEST_F(SumDriftTest, RoundingEachTimeGrowsWithTheMicroBatches) {
  const SumDrift one = sum_drift(1, DType::kBF16, seed);
  EXPECT_EQ(one.rounded_each, 0.0) << "the sum of one is it";
  const SumDrift sixteen = sum_drift(16, DType::kBF16, seed);
  const SumDrift sixty_four = sum_drift(64, DType::kBF16, seed);
  const SumDrift many = sum_drift(1024, DType::kBF16, seed);
  EXPECT_GT(sixty_four.rounded_each, 2 * sixty_four.rounded_once);
  EXPECT_GT(sixty_four.rounded_each, sixteen.rounded_each);
  EXPECT_GT(many.rounded_each, 2 * sixty_four.rounded_each);
  EXPECT_LE(sixty_four.rounded_each, 64 * 0x1p-8) << "as if all roundings went one way";
}

// Three more bits: an eighth of the error.
TEST_F(SumDriftTest, MoreBitsDriftLess) {
  const double bf16 = sum_drift(64, DType::kBF16, seed).rounded_each;
  const double f16 = sum_drift(64, DType::kF16, seed).rounded_each;
  EXPECT_GT(bf16, 6 * f16);
  EXPECT_LT(bf16, 11 * f16);
}

TEST_F(SumDriftTest, TheTableHasSixRows) {
  const std::string table = sum_drift_table(seed);
  for (const char* row : {"  1  ", "  4  ", "  16  ", "  64  ", "  256  ", "  1024  "}) {
    EXPECT_THAT(table, ::testing::HasSubstr(row));
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
