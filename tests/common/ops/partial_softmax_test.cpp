#include "common/ops/partial_softmax.hpp"

#include "common/gpu/streams.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/ops/elementwise.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ops {
namespace {

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

TEST_F(PartialSoftmaxTest, AttentionOverKeysInTwoPartsIsThatOverAll) {
  const std::size_t seq = random.between(1, 9);
  const std::size_t keys = random.between(2, 20);
  const std::size_t cut = random.between(1, keys - 1);
  const Tensor query = drawn({1, seq, 4, 6}, DType::kF64);
  const Tensor key = drawn({1, keys, 2, 6}, DType::kF64);
  const Tensor value = drawn({1, keys, 2, 6}, DType::kF64);
  const auto over = [&](Range range) {
    return attention(query, key.slice(1, range), value.slice(1, range),
                     {.mask = Mask::kNone, .scale = 0.5});
  };
  const AttentionResult merged = over({0, cut});
  const std::uint64_t waits = device.streams().synchronizations();
  merge_attention_on_device(merged, over({cut, keys}));
  EXPECT_EQ(device.streams().synchronizations(), waits) << "nobody waits";
  const AttentionResult whole = over({0, keys});
  EXPECT_TRUE(all_near(merged.output, whole.output.to_vector(), 1e-13));
  EXPECT_TRUE(all_near(merged.log_sum_exp, whole.log_sum_exp.to_vector(), 1e-13));
}

TEST(PartialSoftmaxOnTheCpu, IsRefused) {
  const Tensor x = Tensor::zeros(Device::cpu(), {1, 1, 1, 2}, DType::kF32);
  const Tensor log_sum = Tensor::zeros(Device::cpu(), {1, 1, 1}, DType::kF32);
  EXPECT_THROW(merge_attention_on_device({x, log_sum}, {x, log_sum}), InternalError);
}

}  // namespace
}  // namespace ultra::ops
