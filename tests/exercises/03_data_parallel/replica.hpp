#pragma once
/// @file
/// A replica's model, data and steps.

#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/03_data_parallel/batch_shares.hpp"
#include "chapters/03_data_parallel/gradient_completion.hpp"
#include "common/base/numeric.hpp"
#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"
#include "common/train/step.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/model.hpp"

namespace ultra::data_parallel::test {

using ultra::test::Random;

/// The step that replicas make: not the first, so that nothing depends on its being 0.
inline constexpr std::size_t kStep = 3;

/// @brief Random bytes to train on.
inline data::Dataset random_text(Random& random) {
  std::vector<std::uint8_t> text(500);
  for (std::uint8_t& byte : text) byte = static_cast<std::uint8_t>(random.between(0, 255));
  return {std::move(text), "random bytes"};
}

/// @brief A small model of bytes.
inline nn::ModelConfig random_config(Random& random) {
  nn::ModelConfig config = ultra::test::random_model_config(random);
  config.vocab_size = data::kByteVocabulary;
  return config;
}

/// @brief A rank's model. All replicas of one seed have the same weights, of order one.
struct Replica {
  Replica(const nn::ModelConfig& config, DType dtype, std::uint64_t seed)
      : model(config, device, dtype, seed, factory) {
    Random random(seed);
    ultra::test::randomize_weights(random, model);
  }

  Device device = Device::cpu();
  nn::DenseFactory factory;
  nn::Model model;
};

/// @brief A rank's share of each batch.
inline train::LocalBatch share_of(const data::Sampler& global, const Communicator& dp) {
  const std::size_t batch = global.global_batch_size();
  return {.sequences = share_of_batch(batch, dp),
          .largest = ceil_div(batch, checked_cast<std::size_t>(dp.size())),
          .seq_len = global.seq_len(),
          .global_tokens = static_cast<double>(global.global_tokens())};
}

/// @brief A replica whose gradients an exchange adds up. Model and exchange outlive it.
class Followed {
 public:
  Followed(nn::Model& model, train::GradientExchange& exchange)
      : model_(model),
        exchange_(exchange),
        ledger_({&model}, {{.parameters = model.parameters(), .exchange = &exchange}},
                completing_action) {}

  /// @brief A whole step; keeps the gradients.
  double step(const data::Sampler& global, const Communicator& dp, std::size_t micro_batch) {
    const train::LocalBatch share = share_of(global, dp);
    const std::vector<train::MicroBatch> micro_batches = cut_share(share, micro_batch);
    schedule_ = memory::accumulation_schedule(micro_batches.size());
    const data::Sampler own = global.share(share.sequences);
    nn::Model* const chunk = &model_;
    ledger_.step_begins(schedule_);
    const double loss = train::run_schedule({.chunks = {&chunk, 1},
                                             .schedule = schedule_,
                                             .micro_batches = micro_batches,
                                             .share = own,
                                             .step = kStep,
                                             .ledger = &ledger_});
    ledger_.step_ends();
    finish();
    return loss;
  }

  /// @brief A step begins in which a test makes the gradients of so many passes.
  void begin(std::size_t passes) {
    schedule_ = memory::accumulation_schedule(passes);
    next_ = 0;
    ledger_.step_begins(schedule_);
  }
  /// @brief The next of them.
  void pass(const std::function<void()>& make_gradients) {
    ledger_.action_begins(next_);
    ledger_.action_ends();
    ledger_.action_begins(next_ + 1);
    make_gradients();
    ledger_.action_ends();
    next_ += 2;
  }
  /// @brief All of them are over: adds up.
  void finish() { exchange_.finish(); }

 private:
  nn::Model& model_;
  train::GradientExchange& exchange_;
  train::GradientLedger ledger_;
  train::StepSchedule schedule_;
  std::size_t next_ = 0;
};

/// @brief Forward and backward over sequences `samples` of the step in one pass.
inline double one_pass(nn::Model& model, const data::Sampler& sampler, Range samples,
                       double normalizer) {
  const data::Batch batch = sampler.batch(model.device(), kStep, samples);
  return ultra::test::run_step(model, {batch.tokens, batch.targets}, normalizer);
}

/// @brief Gives a parameter a gradient, as the backward pass does.
inline void make_gradient(nn::Parameter& parameter, double value) {
  parameter.add_grad([value](const Tensor& grad, ops::Write) { grad.fill(value); });
}

}  // namespace ultra::data_parallel::test
