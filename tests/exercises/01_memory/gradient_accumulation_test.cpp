#include "chapters/01_memory/gradient_accumulation.hpp"

#include "common/train/step.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra {
namespace {

constexpr std::size_t kGlobalBatch = 12;
constexpr std::size_t kStep = 3;

class GradientAccumulation : public test::RandomTest {
 protected:
  GradientAccumulation() {
    config.vocab_size = data::kByteVocabulary;
    model = std::make_unique<nn::Model>(config, device, DType::kF64, seed, factory);
    test::randomize_weights(random, *model);
  }

  [[nodiscard]] train::LocalBatch share_of(Range sequences) const {
    return {.sequences = sequences,
            .largest = sequences.size(),
            .seq_len = config.max_seq_len,
            .global_tokens = static_cast<double>(sampler.global_tokens())};
  }

  /// Sequences of the global batch in one pass: the baseline, without the functions under test.
  double run_at_once(Range sequences) {
    const data::Batch batch = sampler.batch(device, kStep, sequences);
    return test::run_step(*model, {batch.tokens, batch.targets},
                          static_cast<double>(sampler.global_tokens()));
  }

  /// A share as the exercise cuts and orders it.
  double run_share(Range sequences, std::size_t micro_batch) {
    const std::vector<train::MicroBatch> micro_batches =
        memory::cut_share(share_of(sequences), micro_batch);
    expect_all_once(micro_batches, sequences.size(), micro_batch);
    const train::StepSchedule schedule = memory::accumulation_schedule(micro_batches.size());
    expect_complete(schedule, micro_batches.size());
    if (HasFailure()) return 0;
    nn::Model* const chunks[] = {model.get()};
    return train::run_schedule({.chunks = chunks,
                                .schedule = schedule,
                                .micro_batches = micro_batches,
                                .share = sampler.share(sequences),
                                .step = kStep});
  }

  static void expect_all_once(const std::vector<train::MicroBatch>& micro_batches,
                              std::size_t sequences, std::size_t micro_batch) {
    std::size_t next = 0;
    for (const train::MicroBatch& m : micro_batches) {
      EXPECT_EQ(m.sequences.begin, next)
          << "Hint: a micro-batch begins where the one before it ends; the first sequence of the "
             "share is number 0, wherever it stands in the global batch.";
      EXPECT_EQ(m.sequences.size(), micro_batch) << "Hint: all micro-batches have the same size.";
      next = m.sequences.end;
    }
    EXPECT_EQ(next, sequences) << "Hint: the share's last sequence belongs to a micro-batch too.";
  }

  static void expect_complete(const train::StepSchedule& schedule, std::size_t micro_batches) {
    try {
      train::expect_complete(schedule, micro_batches, 1);
    } catch (const InternalError& error) {
      ADD_FAILURE() << error.what()
                    << "\nHint: each micro-batch passes forward once, and then backward once.";
    }
  }

  [[nodiscard]] std::string diagnose(double ratio, std::size_t micro_batch, Range share) const {
    const auto is = [&](std::size_t of, std::size_t to) {
      return std::abs(ratio - test::count_of(of) / test::count_of(to)) < 1e-6;
    };
    const bool one = share.size() == micro_batch;
    if (!one && is(kGlobalBatch, micro_batch)) {
      return "Hint: each loss was averaged over its own tokens. Divide by the tokens of the global "
             "batch.";
    }
    if (share.size() < kGlobalBatch && is(kGlobalBatch, share.size())) {
      return "Hint: other ranks have the rest of the global batch, and the sum over all ranks is "
             "the mean. Divide by the tokens of the global batch, not of the share.";
    }
    return "";
  }

  void expect_equals_at_once(Range sequences, std::size_t micro_batch) {
    SCOPED_TRACE("micro-batches of " + std::to_string(micro_batch) + " for " +
                 std::to_string(sequences.size()) + " sequences of 12");
    model->drop_grads();
    const double expected_loss = run_at_once(sequences);
    const std::vector<Tensor> expected = test::gradients_of(*model);
    model->drop_grads();
    const double loss = run_share(sequences, micro_batch);
    if (HasFailure()) return;
    EXPECT_NEAR(loss, expected_loss, 1e-12 * expected_loss)
        << diagnose(loss / expected_loss, micro_batch, sequences);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double scale = test::largest_magnitude(expected[i].to_vector());
      EXPECT_TRUE(
          test::all_near(model->parameters()[i]->grad(), expected[i], 1e-12 * (1.0 + scale)))
          << model->parameters()[i]->name();
    }
  }

  nn::ModelConfig config = test::random_model_config(random);
  data::Dataset text = data::Dataset::from_file(test::kText);
  data::Sampler sampler{text, config.max_seq_len, kGlobalBatch, seed};
  nn::DenseFactory factory;
  std::unique_ptr<nn::Model> model;
};

TEST_F(GradientAccumulation, EqualsTheWholeBatchForEveryMicroBatchSize) {
  for (const std::size_t micro_batch : {12U, 1U, 2U, 3U, 4U, 6U}) {
    expect_equals_at_once({0, kGlobalBatch}, micro_batch);
  }
}

TEST_F(GradientAccumulation, OfAShareGivesItsShareOfTheWholeBatch) {
  for (const Range share : {Range{0, 4}, Range{4, 12}, Range{2, 6}}) {
    for (const std::size_t micro_batch : {4U, 2U}) expect_equals_at_once(share, micro_batch);
  }
}

TEST_F(GradientAccumulation, HoldsTheActivationsOfOneMicroBatch) {
  const auto peak = [&](std::size_t micro_batch) {
    model->drop_grads();
    device.reset_memory_peaks();
    run_share({0, kGlobalBatch}, micro_batch);
    return device.memory().peak(MemoryCategory::kActivations).bytes;
  };
  const std::size_t whole = peak(kGlobalBatch);
  for (const std::size_t micro_batch : {1U, 2U, 3U, 6U}) {
    EXPECT_EQ(kGlobalBatch * (peak(micro_batch) / micro_batch), whole)
        << "Hint: the activations of one micro-batch must be gone before the next begins: its "
           "backward pass frees them.";
  }
  EXPECT_EQ(device.memory().current()[MemoryCategory::kActivations], 0U);
}

TEST_F(GradientAccumulation, RejectsAMicroBatchThatDoesNotDivide) {
  for (const std::size_t micro_batch : {0U, 5U, 24U}) {
    EXPECT_THROW(static_cast<void>(memory::cut_share(share_of({0, kGlobalBatch}), micro_batch)),
                 ConfigError)
        << "Hint: the size must divide the number of sequences in the share: " << kGlobalBatch
        << " sequences in pieces of " << micro_batch;
  }
}

}  // namespace
}  // namespace ultra
