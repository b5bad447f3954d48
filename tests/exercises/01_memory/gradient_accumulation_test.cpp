#include "chapters/01_memory/gradient_accumulation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/finite_difference.hpp"
#include "tests/support/model.hpp"
#include "tests/support/random.hpp"

namespace ultra {
namespace {

constexpr std::size_t kGlobalBatch = 12;
constexpr std::size_t kStep = 3;

std::vector<std::uint8_t> random_text(test::Random& random) {
  std::vector<std::uint8_t> text(500);
  for (std::uint8_t& byte : text) byte = static_cast<std::uint8_t>(random.between(0, 255));
  return text;
}

class GradientAccumulation : public test::RandomTest {
 protected:
  GradientAccumulation() {
    config.vocab_size = data::kByteVocabulary;
    model = std::make_unique<nn::Model>(config, device, DType::kF64, seed, factory);
    test::randomize_weights(random, *model);
  }

  /// The whole global batch in one pass: the baseline, written without the function under test.
  double run_whole() {
    const data::Batch batch = sampler.batch(device, kStep, {0, kGlobalBatch});
    return test::run_step(*model, {batch.tokens, batch.targets},
                          static_cast<double>(sampler.global_tokens()));
  }

  nn::ModelConfig config = test::random_model_config(random);
  data::Dataset dataset{random_text(random), "random bytes"};
  data::Sampler sampler{dataset, config.max_seq_len, kGlobalBatch, seed};
  nn::DenseFactory factory;
  std::unique_ptr<nn::Model> model;
};

double norm_of(const std::vector<Tensor>& tensors) {
  double squares = 0;
  for (const Tensor& t : tensors) squares += test::inner_product(t, t);
  return std::sqrt(squares);
}

std::string diagnose(const std::vector<Tensor>& whole, const std::vector<Tensor>& accumulated,
                     double num_micro_batches) {
  const double ratio = norm_of(accumulated) / norm_of(whole);
  if (num_micro_batches > 1.0 && std::abs(ratio - num_micro_batches) < 1e-6) {
    return "Hint: the gradient is as many times too large as there are micro-batches: each loss "
           "was "
           "averaged over its own tokens. Divide by the tokens of the global batch.";
  }
  return "";
}

TEST_F(GradientAccumulation, EqualsTheWholeBatchForEveryMicroBatchSize) {
  const double whole_loss = run_whole();
  const std::vector<Tensor> whole = test::gradients_of(*model);
  for (const std::size_t micro_batch : {1U, 2U, 3U, 4U, 6U, 12U}) {
    SCOPED_TRACE("micro-batch " + std::to_string(micro_batch));
    model->drop_grads();
    const double loss = memory::accumulate_gradients(*model, sampler, kStep, micro_batch);
    const std::vector<Tensor> grads = test::gradients_of(*model);
    EXPECT_NEAR(loss, whole_loss, 1e-12 * whole_loss);
    const std::string hint =
        diagnose(whole, grads, static_cast<double>(kGlobalBatch / micro_batch));
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const double scale = test::largest_magnitude(whole[i].to_vector());
      EXPECT_TRUE(test::all_near(grads[i], whole[i], 1e-12 * (1.0 + scale)))
          << model->parameters()[i]->name() << "\n"
          << hint;
    }
  }
}

TEST_F(GradientAccumulation, EveryMicroBatchReachesTheGradient) {
  const data::Batch last = sampler.batch(device, kStep, {kGlobalBatch - 1, kGlobalBatch});
  test::run_step(*model, {last.tokens, last.targets}, static_cast<double>(sampler.global_tokens()));
  const std::vector<Tensor> only_last = test::gradients_of(*model);
  model->drop_grads();
  memory::accumulate_gradients(*model, sampler, kStep, 1);
  bool same = true;
  const std::vector<Tensor> grads = test::gradients_of(*model);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    same = same && test::all_equal(grads[i], only_last[i]);
  }
  EXPECT_FALSE(same) << "Hint: only the last micro-batch is in the gradient. Gradients add up over "
                        "the micro-batches; drop them once per step, not in between.";
}

TEST_F(GradientAccumulation, HoldsTheActivationsOfOneMicroBatch) {
  const auto peak = [&](std::size_t micro_batch) {
    model->drop_grads();
    device.reset_memory_peaks();
    memory::accumulate_gradients(*model, sampler, kStep, micro_batch);
    return device.memory().peak(MemoryCategory::kActivations).bytes;
  };
  const std::size_t of_one = peak(1);
  for (const std::size_t micro_batch : {2U, 3U, 12U}) {
    EXPECT_EQ(peak(micro_batch), micro_batch * of_one)
        << "Hint: the activations of one micro-batch must be gone before the next begins. Give "
           "each micro-batch a Saved of its own.";
  }
  EXPECT_EQ(device.memory().current()[MemoryCategory::kActivations], 0U);
}

TEST_F(GradientAccumulation, RejectsAMicroBatchThatDoesNotDivide) {
  for (const std::size_t micro_batch : {0U, 5U, 24U}) {
    EXPECT_THROW(memory::accumulate_gradients(*model, sampler, kStep, micro_batch), ConfigError);
  }
}

}  // namespace
}  // namespace ultra
