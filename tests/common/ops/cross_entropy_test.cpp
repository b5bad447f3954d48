// Covers: common/ops/partial_softmax.hpp

#include "common/ops/cross_entropy.hpp"

#include "common/gpu/streams.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/partial_softmax.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/finite_difference.hpp"

namespace ultra::ops {
namespace {

/// Loss, gradient and their largest errors, by plain loops in extended precision.
struct ExpectedLoss {
  ExpectedLoss(const Tensor& logits, const Tensor& targets, double normalizer) {
    const DType dtype = logits.dtype();
    const std::size_t vocab = logits.size(-1);
    const std::vector<double> x = logits.to_vector();
    const std::vector<double> ids = targets.to_vector();
    long double total = 0.0L;
    for (std::size_t row = 0; row < targets.numel(); ++row) {
      const double* z = x.data() + row * vocab;
      const auto target = static_cast<std::size_t>(ids[row]);
      const long double highest = *std::max_element(z, z + vocab);
      long double sum = 0.0L;
      for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(z[i] - highest);
      total += std::log(sum) + highest - z[target];
      // Each exponential: 2 ulp, and its argument's rounding eps |t| e^-|t| < eps; then the sum.
      loss_tolerance += (rounding_bound(dtype, count_of(vocab) + 4, 1.0) +
                         rounding_bound(DType::kF64, 4,
                                        std::abs(static_cast<double>(highest)) +
                                            std::abs(z[target]) + std::log(count_of(vocab)))) /
                        normalizer;
      for (std::size_t i = 0; i < vocab; ++i) {
        const double distance = static_cast<double>(highest) - z[i];
        const double p = static_cast<double>(std::exp(-static_cast<long double>(distance)) / sum);
        const double one_hot = i == target ? 1.0 : 0.0;
        gradient.push_back((p - one_hot) / normalizer);
        tolerances.push_back((rounding_bound(dtype, distance + count_of(vocab) + 7, p) +
                              rounding_bound(dtype, 2, one_hot) + 0x1.0p-125) /
                             normalizer);
      }
    }
    loss = static_cast<double>(total / static_cast<long double>(normalizer));
    loss_tolerance += rounding_bound(DType::kF64, count_of(targets.numel()), std::abs(loss));
  }

  double loss = 0.0;
  double loss_tolerance = 0.0;
  std::vector<double> gradient;
  std::vector<double> tolerances;
};

class CrossEntropyTest : public test::RandomTest {
 protected:
  void check(const Tensor& logits, const Tensor& targets, double normalizer) {
    const ExpectedLoss expected(logits, targets, normalizer);
    const double loss = cross_entropy_into_gradient(logits, targets, normalizer);
    EXPECT_NEAR(loss, expected.loss, expected.loss_tolerance) << logits.shape().str();
    EXPECT_TRUE(all_near(logits, expected.gradient, expected.tolerances)) << logits.shape().str();
  }
};

TEST_F(CrossEntropyTest, EqualsLogSoftmaxByPlainLoops) {
  for (int round = 0; round < 20; ++round) {
    const DType dtype = random.pick({DType::kF32, DType::kF64});
    const std::size_t vocab = random.pick({std::size_t{1}, random.between(2, 300)});
    const Shape batch{random.between(0, 3), random.between(1, 6)};
    const double scale = random.pick({0.1, 1.0, 20.0});
    check(random.tensor(device, {batch[0], batch[1], vocab}, dtype, scale),
          random.tokens(device, batch, vocab), random.uniform(0.5, 40.0));
  }
}

TEST_F(CrossEntropyTest, ExtremeLogitsNeitherOverflowNorTurnIntoNan) {
  for (const DType dtype : test::kFloatDTypes) {
    const Tensor logits = random.tensor(device, {4, 33}, dtype);
    logits.slice(0, {0, 1}).slice(1, {3, 4}).fill(1e4);
    logits.slice(0, {1, 2}).slice(1, {5, 6}).fill(-1e4);
    logits.slice(0, {2, 3}).fill(1e4);
    logits.slice(0, {3, 4}).fill(-1e4);
    const std::vector<std::int32_t> targets = {0, 5, 7, 32};
    check(logits, Tensor::from<std::int32_t>(device, {4}, targets), 4.0);
  }
}

TEST_F(CrossEntropyTest, TheGradientMatchesFiniteDifferences) {
  for (int round = 0; round < 4; ++round) {
    const std::size_t vocab = random.between(1, 40);
    const Tensor logits = random.tensor(device, {2, 3, vocab}, DType::kF64, 2.0);
    const Tensor targets = random.tokens(device, {2, 3}, vocab);
    const auto f = [&] { return cross_entropy_into_gradient(logits.clone(), targets, 6.0); };
    const Tensor gradient = logits.clone();
    static_cast<void>(cross_entropy_into_gradient(gradient, targets, 6.0));
    EXPECT_TRUE(test::gradients_match(random, f, {{"logits", logits, gradient}}));
  }
}

/// Kernels have no z-loss: --head-z-loss refuses devices.
class HeadZLossTest : public CrossEntropyTest {
 protected:
  void SetUp() override {
    if (has_streams(device.kind())) GTEST_SKIP() << "--head-z-loss refuses devices";
  }
};

TEST_F(HeadZLossTest, AZLossAddsTheSquareOfEachLogSumExp) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    const std::size_t vocab = random.between(1, 60);
    const double weight = random.uniform(1e-4, 0.5);
    const Tensor logits = cast(random.tensor(device, {5, vocab}, DType::kF64, 3.0), dtype);
    const std::vector<std::int32_t> targets = {0, kNoTarget, static_cast<std::int32_t>(vocab - 1),
                                               0, kNoTarget};
    const Tensor ids = Tensor::from<std::int32_t>(device, {5}, targets);
    const std::vector<double> x = logits.to_vector();
    double expected = 0;
    for (std::size_t row = 0; row < 5; ++row) {
      if (targets[row] == kNoTarget) continue;
      double sum = 0;
      for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(x[row * vocab + i]);
      expected += weight * std::log(sum) * std::log(sum) / 7.0;
    }
    const double without = cross_entropy_into_gradient(logits.clone(), ids, 7.0);
    const double with = cross_entropy_into_gradient(logits.clone(), ids, 7.0, weight);
    const double relative = dtype == DType::kF64 ? 1e-13 : 1e-5;
    EXPECT_NEAR(with - without, expected, relative * (std::abs(with) + std::abs(without)))
        << to_string(dtype);
  }
}

TEST_F(HeadZLossTest, TheGradientOfAZLossMatchesFiniteDifferences) {
  for (int round = 0; round < 4; ++round) {
    const std::size_t vocab = random.between(1, 40);
    const double weight = random.uniform(0.01, 2.0);
    const Tensor logits = random.tensor(device, {2, 3, vocab}, DType::kF64, 2.0);
    const Tensor targets = random.tokens(device, {2, 3}, vocab);
    targets.slice(0, {1, 2}).slice(1, {1, 2}).fill(kNoTarget);
    const auto f = [&] {
      return cross_entropy_into_gradient(logits.clone(), targets, 6.0, weight);
    };
    const Tensor gradient = logits.clone();
    static_cast<void>(cross_entropy_into_gradient(gradient, targets, 6.0, weight));
    EXPECT_TRUE(test::gradients_match(random, f, {{"logits", logits, gradient}}));
  }
}

TEST_F(CrossEntropyTest, ATokenWithoutATargetHasNoLossAndNoGradient) {
  for (const DType dtype : test::kFloatDTypes) {
    const std::size_t rows = random.between(1, 6);
    const Tensor logits = random.tensor(device, {rows + 1, 31}, dtype, 3.0);
    const Tensor targets = random.tokens(device, {rows + 1}, 31);
    const Tensor others = logits.slice(0, {0, rows}).clone();
    const double loss = cross_entropy_into_gradient(others, targets.slice(0, {0, rows}), 7.0);
    targets.slice(0, {rows, rows + 1}).fill(kNoTarget);
    EXPECT_EQ(cross_entropy_into_gradient(logits, targets, 7.0), loss);
    EXPECT_TRUE(test::all_equal(logits.slice(0, {0, rows}), others));
    EXPECT_EQ(test::largest_magnitude(logits.slice(0, {rows, rows + 1}).to_vector()), 0.0);
  }
}

TEST_F(CrossEntropyTest, BadInputIsNamed) {
  const Tensor logits = Tensor::zeros(device, {2, 3}, DType::kF32);
  const Tensor targets = Tensor::zeros(device, {2}, DType::kI32);
  const auto fails = [&](const Tensor& z, const Tensor& t, double normalizer) {
    return message_of<ShapeError>([&] { return cross_entropy_into_gradient(z, t, normalizer); });
  };
  EXPECT_THAT(fails(logits, Tensor::zeros(device, {3}, DType::kI32), 2.0),
              HasSubstr("targets of cross_entropy: expected [2] of i32, found [3]"));
  EXPECT_THAT(fails(logits, targets, 0.0), HasSubstr("normaliser must be positive, found 0"));
  EXPECT_THAT(fails(logits, targets, std::nan("")), HasSubstr("found nan"));
  fails(logits.transpose(0, 1), Tensor::zeros(device, {3}, DType::kI32), 2.0);
}

// The host does not look at the targets of a device with streams: the kernel says so by its loss.
TEST_F(CrossEntropyTest, TargetsOutsideOfTheVocabularyAreNamed) {
  const Tensor logits = Tensor::zeros(device, {2, 3}, DType::kF32);
  const Tensor targets = Tensor::zeros(device, {2}, DType::kI32);
  targets.slice(0, {1, 2}).fill(3);
  if (has_streams(device.kind())) {
    EXPECT_TRUE(std::isnan(cross_entropy_into_gradient(logits, targets, 2.0)));
    return;
  }
  EXPECT_THAT(
      message_of<ShapeError>([&] { return cross_entropy_into_gradient(logits, targets, 2.0); }),
      HasSubstr("target 3 at index 1 is outside of the vocabulary [0, 3)"));
}

TEST_F(CrossEntropyTest, TheLossIsWrittenOrAddedToANumberOfTheDevice) {
  for (const DType dtype : test::kFloatDTypes) {
    const Tensor logits = random.tensor(device, {5, 31}, dtype, 3.0);
    const Tensor targets = random.tokens(device, {5}, 31);
    const Tensor number = test::filled(device, {1}, DType::kF64, std::nan(""));
    cross_entropy_into_gradient(number, logits.clone(), targets, 7.0, Write::kOverwrite);
    cross_entropy_into_gradient(number, logits.clone(), targets, 7.0, Write::kAccumulate);
    const Tensor gradient = logits.clone();
    const double loss = cross_entropy_into_gradient(gradient, targets, 7.0);
    EXPECT_EQ(number.to_vector().front(), loss + loss);
    cross_entropy_into_gradient(number, logits, targets, 7.0, Write::kOverwrite);
    EXPECT_EQ(number.to_vector().front(), loss);
    EXPECT_TRUE(test::all_equal(logits, gradient));
  }
}

class PartialSoftmaxTest : public test::RandomTest {
 protected:
  void SetUp() override {
    if (!has_streams(device.kind())) GTEST_SKIP() << "the CPU's code reads the numbers itself";
  }

  Tensor drawn(const Shape& shape, DType dtype) { return random.tensor(device, shape, dtype); }
};

TEST_F(PartialSoftmaxTest, TwoPartsHaveTheLossAndTheGradientOfTheWhole) {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const std::size_t tokens = random.between(1, 40);
    const std::size_t vocab = random.between(2, 150);
    const std::size_t cut = random.between(0, vocab);
    const Tensor whole = drawn({tokens, vocab}, dtype);
    std::vector<std::int32_t> ids;
    for (std::size_t t = 0; t < tokens; ++t) {
      ids.push_back(static_cast<std::int32_t>(random.between(0, vocab)) - 1);  // -1: no target
    }
    const Tensor targets = Tensor::from<std::int32_t>(device, {tokens}, ids);
    const LogitsOfPart low{whole.slice(1, {0, cut}).clone(), targets, {0, cut}};
    const LogitsOfPart high{whole.slice(1, {cut, vocab}).clone(), targets, {cut, vocab}};
    const std::vector<double> a = highest_logits(low).to_vector();
    const std::vector<double> b = highest_logits(high).to_vector();
    std::vector<double> most;
    for (std::size_t t = 0; t < tokens; ++t) most.push_back(std::max(a[t], b[t]));
    const Tensor highest = Tensor::from<double>(device, {tokens}, most).to(dtype);
    const Tensor sums = exponentials_of_logits(low, highest);
    sums.copy_from(add(sums, exponentials_of_logits(high, highest)));
    const Tensor loss = Tensor::zeros(device, {1}, DType::kF64);
    const std::uint64_t waits = device.streams().synchronizations();
    cross_entropy_of_parts(loss, low, highest, sums, 3.0, Write::kOverwrite);
    cross_entropy_of_parts(loss, high, highest, sums, 3.0, Write::kAccumulate);
    EXPECT_EQ(device.streams().synchronizations(), waits) << "nobody waits";
    const double expected = cross_entropy_into_gradient(whole, targets, 3.0);
    const double tolerance = rounding_bound(dtype, count_of(vocab) + 20, 1.0);
    EXPECT_NEAR(loss.to_vector().front(), 2 * expected, 2 * tolerance * (1 + std::abs(expected)));
    if (cut > 0) {
      EXPECT_TRUE(all_near(low.logits, whole.slice(1, {0, cut}).to_vector(), tolerance));
    }
    if (cut < vocab) {
      EXPECT_TRUE(all_near(high.logits, whole.slice(1, {cut, vocab}).to_vector(), tolerance));
    }
  }
}

}  // namespace
}  // namespace ultra::ops
