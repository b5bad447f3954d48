// Contract of exercise 03.4: the calls of a step in their order, and a step that is one rank's.
#include "chapters/03_data_parallel/accumulation.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "chapters/02_collectives/replicated_training.hpp"
#include "chapters/03_data_parallel/gradient_average.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"

namespace ultra::data_parallel {
namespace {

using test::Gradients;
using test::Replica;

/// Notes the calls, and the passes of the model between them.
class Recorder : public GradientSync {
 public:
  explicit Recorder(nn::Model& model) {
    nn::BlockHooks hooks;
    hooks.before_forward = [this](std::size_t layer) {
      if (layer == 0) calls.emplace_back("forward");
    };
    hooks.after_backward = [this](std::size_t layer) {
      if (layer == 0) calls.emplace_back("backward");
    };
    model.add_block_hooks(std::move(hooks));
  }

  void begin(Pass pass) override {
    calls.emplace_back(pass == Pass::kAccumulate ? "accumulate" : "synchronize");
  }
  void finish() override { calls.emplace_back("finish"); }

  std::vector<std::string> calls;
};

std::vector<std::string> expected_calls(std::size_t sequences, std::size_t micro_batch) {
  std::vector<std::string> calls;
  const std::size_t passes = ceil_div(sequences, micro_batch);
  for (std::size_t pass = 1; pass <= passes; ++pass) {
    calls.emplace_back(pass == passes ? "synchronize" : "accumulate");
    calls.emplace_back("forward");
    calls.emplace_back("backward");
  }
  calls.emplace_back("finish");
  return calls;
}

std::string hint(const std::vector<std::string>& found, const std::vector<std::string>& expected) {
  const auto count = [](const std::vector<std::string>& calls, const char* what) {
    return std::count(calls.begin(), calls.end(), what);
  };
  if (count(found, "forward") < count(expected, "forward")) {
    return "Hint: the last micro-batch is shorter when the size does not divide the share. Its "
           "sequences count, too.";
  }
  if (count(found, "synchronize") > 1) {
    return "Hint: every micro-batch communicates. Gradients add up on the replica, and what has "
           "been "
           "averaged must not be added to: only the last micro-batch synchronizes.";
  }
  if (count(found, "finish") == 0) {
    return "Hint: finish() is missing: without it the optimizer reads gradients that are still on "
           "their way.";
  }
  if (count(found, "finish") > 1 || found.back() != "finish") {
    return "Hint: finish() comes once, after the last micro-batch.";
  }
  if (count(expected, "accumulate") > 0 && found.front() == "synchronize") {
    return "Hint: gradients are final when the *last* micro-batch has made them, not the first: "
           "buckets would leave before the others have added to them.";
  }
  return "Hint: each micro-batch is begin(), forward, loss, backward; finish() comes at the end.";
}

class Accumulation : public ultra::test::RandomTest {
 protected:
  data::Dataset text = test::random_text(random);
  nn::ModelConfig config = test::random_config(random);
};

TEST_F(Accumulation, OnlyTheLastMicroBatchSynchronizes) {
  for (const std::size_t sequences : {1U, 2U, 5U, 7U, 8U}) {
    const data::Sampler share(text, config.max_seq_len, sequences, seed);
    for (const std::size_t micro_batch : {1U, 2U, 3U, 5U, 8U, 100U}) {
      SCOPED_TRACE(fmt::format("{} sequences, micro-batch {}", sequences, micro_batch));
      Replica replica(config, DType::kF32, seed);
      Recorder sync(replica.model);
      const double normalizer = static_cast<double>(share.global_tokens());
      static_cast<void>(
          accumulate_and_sync(replica.model, share, test::kStep, micro_batch, normalizer, sync));
      const std::vector<std::string> expected = expected_calls(sequences, micro_batch);
      EXPECT_EQ(sync.calls, expected) << hint(sync.calls, expected);
      if (HasFailure()) return;
    }
  }
}

TEST_F(Accumulation, EqualsTheShareInOnePass) {
  const data::Sampler share(text, config.max_seq_len, 7, seed);
  const double normalizer = random.uniform(1.0, 100.0);
  Replica whole(config, DType::kF64, seed);
  Gradients expected;
  expected.loss = test::one_pass(whole.model, share, {0, 7}, normalizer);
  expected.of = ultra::test::gradients_of(whole.model);
  for (const std::size_t micro_batch : {1U, 2U, 3U, 7U, 9U}) {
    SCOPED_TRACE(fmt::format("micro-batch {}", micro_batch));
    Replica replica(config, DType::kF64, seed);
    Recorder sync(replica.model);
    const double loss =
        accumulate_and_sync(replica.model, share, test::kStep, micro_batch, normalizer, sync);
    const std::string hint =
        "Hint: every micro-batch divides by the `normalizer` that was given, all losses add up, "
        "and "
        "so do the gradients; no sequence is left out.";
    EXPECT_NEAR(loss, expected.loss, 1e-12 * expected.loss) << hint;
    test::expect_gradients(replica.model, expected, 1e-12, hint);
    if (HasFailure()) return;
  }
}

TEST_F(Accumulation, HoldsTheActivationsOfOneMicroBatch) {
  const data::Sampler share(text, config.max_seq_len, 6, seed);
  const auto peak = [&](std::size_t micro_batch) {
    Replica replica(config, DType::kF32, seed);
    Recorder sync(replica.model);
    static_cast<void>(
        accumulate_and_sync(replica.model, share, test::kStep, micro_batch, 1.0, sync));
    return replica.device.memory().peak(MemoryCategory::kActivations).bytes;
  };
  const std::size_t of_one = peak(1);
  for (const std::size_t micro_batch : {2U, 3U, 6U}) {
    EXPECT_EQ(peak(micro_batch), micro_batch * of_one)
        << "Hint: give each micro-batch a Saved of its own, gone before the next begins.";
  }
}

TEST_F(Accumulation, RejectsEmptyMicroBatches) {
  const data::Sampler share(text, config.max_seq_len, 3, seed);
  Replica replica(config, DType::kF32, seed);
  Recorder sync(replica.model);
  EXPECT_THROW(
      static_cast<void>(accumulate_and_sync(replica.model, share, test::kStep, 0, 1.0, sync)),
      ConfigError);
}

TEST_F(Accumulation, ReplicasWithUnequalSharesMakeTheStepOfOneRank) {
  for (const std::size_t micro_batch : {1U, 2U, 3U}) {
    const std::size_t batch = random.pick({7U, 8U, 4U});
    const data::Sampler global(text, config.max_seq_len, batch, seed);
    const Gradients expected = test::on_one_device(config, DType::kF64, seed, global);
    SCOPED_TRACE(fmt::format("{} sequences on 3 replicas, micro-batch {}", batch, micro_batch));
    run_ranks(3, [&](Communicator& dp) {
      Replica replica(config, DType::kF64, seed);
      const auto sync =
          sync_in_buckets(replica.model, 100, Flush::kWhenReady, all_reduce_exchange(dp));
      const double own =
          accumulate_and_sync(replica.model, global.share(share_of_batch(batch, dp)), test::kStep,
                              micro_batch, loss_normalizer(global, dp), *sync);
      const double loss = collectives::average(own, replica.device, dp);
      EXPECT_NEAR(loss, expected.loss, 1e-10 * expected.loss);
      test::expect_gradients(replica.model, expected, 1e-10, "");
    });
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace ultra::data_parallel
