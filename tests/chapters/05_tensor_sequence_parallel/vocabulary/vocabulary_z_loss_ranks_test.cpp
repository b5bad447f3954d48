#include "chapters/05_tensor_sequence_parallel/vocabulary/vocabulary_z_loss.hpp"

#include "chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/ops/cross_entropy.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

class VocabularyZLoss : public ultra::test::RandomTest {};

// The whole logits on one rank are the truth; some ranks have fewer columns than others, or none.
TEST_F(VocabularyZLoss, OfPartsIsThatOfTheWholeLogits) {
  for (const int ranks : {1, 2, 3, 4}) {
    const std::size_t tokens = random.between(1, 9);
    const std::size_t vocab = random.between(1, 20);
    const double weight = random.uniform(0.01, 1.0);
    const Tensor logits = random.tensor(Device::cpu(), {tokens, vocab}, DType::kF64, 3.0);
    const Tensor targets = random.tokens(Device::cpu(), {tokens}, vocab);
    targets.span<std::int32_t>()[0] = ops::kNoTarget;
    const Tensor expected = logits.clone();
    const double loss = ops::cross_entropy_into_gradient(expected, targets, 7.0, weight);
    run_ranks(ranks, [&](Communicator& world) {
      const Range part = vocabulary_of(vocab, world);
      const std::size_t width = ceil_div(vocab, static_cast<std::size_t>(ranks));
      const Tensor own = Tensor::zeros(Device::cpu(), {tokens, width + 1}, DType::kF64);
      own.slice(1, {0, part.size()}).copy_from(logits.slice(1, part));
      const Tensor sums = vocabulary_log_sums(own, part, world);
      double found = vocabulary_parallel_cross_entropy(own, targets, part, 7.0, world);
      found += add_vocabulary_z_loss(own, targets, part, sums, weight, 7.0);
      EXPECT_NEAR(found, loss, 1e-12 * (1 + loss));
      EXPECT_TRUE(all_near(own.slice(1, {0, part.size()}).contiguous(),
                           expected.slice(1, part).contiguous().to_vector(), 1e-13));
      EXPECT_TRUE(all_near(own.slice(1, {part.size(), width + 1}).contiguous(),
                           std::vector<double>(tokens * (width + 1 - part.size()), 0.0), 0.0));
    });
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel
