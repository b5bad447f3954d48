// What routers make of logits, and the gradients.
//
// Covers: chapters/08_expert_parallel/moe/affinities.hpp

#include "chapters/08_expert_parallel/moe/affinities.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/compare.hpp"
#include "tests/support/finite_difference.hpp"
#include "tests/support/random.hpp"

namespace ultra::expert_parallel {
namespace {

using ultra::test::gradients_match;
using ultra::test::inner_product;

class Affinities : public ultra::test::RandomTest {};

TEST_F(Affinities, AreSoftmaxOrSigmoid) {
  const std::vector<double> values = {0, std::log(2.0), std::log(5.0)};
  const Tensor logits = Tensor::from<double>(device, {1, 3}, values);
  EXPECT_TRUE(ultra::test::all_near(affinities_of(logits, RouterKind::kSoftmax),
                                    {1.0 / 8, 2.0 / 8, 5.0 / 8}, 1e-15));
  EXPECT_TRUE(ultra::test::all_near(affinities_of(logits, RouterKind::kSigmoid),
                                    {1.0 / 2, 2.0 / 3, 5.0 / 6}, 1e-15));
  EXPECT_TRUE(ultra::test::all_near(
      probabilities_of(affinities_of(logits, RouterKind::kSigmoid), RouterKind::kSigmoid),
      {0.25, 1.0 / 3, 5.0 / 12}, 1e-15));
  EXPECT_TRUE(ultra::test::all_near(log_sum_exp(logits), {std::log(8.0)}, 1e-15));
}

TEST_F(Affinities, LargeLogitsDoNotOverflow) {
  const std::vector<float> values = {500.0F, 499.0F, -500.0F};
  const Tensor logits = Tensor::from<float>(device, {1, 3}, values);
  for (const RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSigmoid}) {
    for (const double affinity : affinities_of(logits, kind).to_vector()) {
      EXPECT_TRUE(affinity >= 0 && affinity <= 1) << affinity;
    }
  }
}

TEST_F(Affinities, GradientsAreThoseOfFiniteDifferences) {
  for (const RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSigmoid}) {
    const Tensor logits = random.tensor(device, {3, 4}, DType::kF64);
    const Tensor d = random.tensor(device, {3, 4}, DType::kF64);
    EXPECT_TRUE(gradients_match(
        random, [&] { return inner_product(affinities_of(logits, kind), d); },
        {{"logits", logits, affinities_backward(d, affinities_of(logits, kind), kind)}}));
    const Tensor affinities = affinities_of(logits, kind);
    EXPECT_TRUE(gradients_match(
        random, [&] { return inner_product(probabilities_of(affinities, kind), d); },
        {{"affinities", affinities, probabilities_backward(d, affinities, kind)}}));
  }
  const Tensor logits = random.tensor(device, {3, 4}, DType::kF64);
  const Tensor d_logits = Tensor::zeros(device, {3, 4}, DType::kF64);
  add_z_loss_gradient(d_logits, logits, 0.3);
  const auto z_loss = [&] {
    const Tensor sums = log_sum_exp(logits);
    return 0.3 * inner_product(sums, sums);
  };
  EXPECT_TRUE(gradients_match(random, z_loss, {{"logits", logits, d_logits}}));
}

}  // namespace
}  // namespace ultra::expert_parallel
