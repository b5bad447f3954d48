#include "chapters/05_tensor_sequence_parallel/vocabulary/vocabulary_layers.hpp"

#include "chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/gpu/streams.hpp"
#include "common/ops/cross_entropy.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

class VocabularyLossRanks : public test::RandomTest {
 protected:
  static DeviceKind kind() {
    const DeviceKind of_tests = test::device_kind_of_tests();
    return has_streams(of_tests) ? of_tests : DeviceKind::kEmulated;
  }
};

TEST_F(VocabularyLossRanks, IsThatOfTheCpuAndNobodyWaits) {
  const std::size_t tokens = random.between(1, 9);
  const std::size_t vocab = random.between(1, 50);
  const std::size_t more = random.between(0, 3);
  const std::uint64_t draw = random.between(0, 1000);
  run_ranks(3, [&](Communicator& world) {
    test::Random own(draw + static_cast<std::uint64_t>(world.rank()));
    test::Random same(draw);
    const Range part = vocabulary_of(vocab, world);
    const Tensor logits =
        own.tensor(Device::cpu(), {tokens, vocab / 3 + 1 + more}, DType::kF64, 3.0);
    const Tensor targets = same.tokens(Device::cpu(), {tokens}, vocab);
    targets.span<std::int32_t>()[0] = -1;
    const Device gpu = Device::create(kind(), world.rank());
    const ops::LogitsOfPart there{logits.to(gpu), targets.to(gpu), part};
    const ops::LogitsOfPart again{logits.to(gpu), targets.to(gpu), part};
    const Tensor sum = Tensor::zeros(gpu, {1}, DType::kF64);

    const std::uint64_t waits = gpu.streams().synchronizations();
    EXPECT_EQ(loss_on_device(there, 7.0, world, sum), 0.0);
    EXPECT_EQ(gpu.streams().synchronizations(), waits);
    const double returned = loss_on_device(again, 7.0, world, {});
    const double expected = vocabulary_parallel_cross_entropy(logits, targets, part, 7.0, world);
    EXPECT_NEAR(returned, expected, 1e-12);
    EXPECT_EQ(sum.to_vector().front(), returned);
    EXPECT_TRUE(all_near(there.logits, logits.to_vector(), 1e-13));
  });
}

class VocabularyZLoss : public test::RandomTest {};

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
