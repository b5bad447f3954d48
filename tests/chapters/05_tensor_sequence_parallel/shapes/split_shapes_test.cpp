// Covers: chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_table.hpp

#include "chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/options/micro_batch_sizes.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_table.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/plain_training.hpp"

namespace ultra::tensor_parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Two key/value heads for four ranks, and a vocabulary that does not divide.
constexpr nn::ModelConfig kModel = {.vocab_size = 30,
                                    .hidden_size = 16,
                                    .num_layers = 1,
                                    .num_heads = 4,
                                    .num_kv_heads = 2,
                                    .ffn_hidden_size = 24,
                                    .max_seq_len = 8};

TEST(SplitShapes, OfModelsThatCannotBeSplitAreRefused) {
  EXPECT_THAT(ultra::test::message_of<ConfigError>([] {
                static_cast<void>(
                    describe_shapes(Shapes::kTable, kModel, {.size = 1, .seq_len = 8}, {.tp = 3}));
              }),
              HasSubstr("4 % 3 = 1"));
}

TEST(SplitShapes, OfModelsThatNoMachineRunsAreRefused) {
  const auto refusal = [](const nn::ModelConfig& model, std::size_t batch, int tp) {
    return ultra::test::message_of<ConfigError>([&] {
      static_cast<void>(describe_shapes(Shapes::kTable, model,
                                        {.size = batch, .seq_len = model.max_seq_len}, {.tp = tp}));
    });
  };
  constexpr std::size_t kLargest = std::numeric_limits<std::size_t>::max();
  EXPECT_THAT(refusal(kModel, kLargest, 1), HasSubstr("more than 64. Choose smaller"));
  nn::ModelConfig wide = kModel;
  wide.ffn_hidden_size = kLargest;
  EXPECT_THAT(refusal(wide, 1, 1), HasSubstr("--ffn"));
  nn::ModelConfig many_heads = kModel;
  many_heads.vocab_size = many_heads.ffn_hidden_size = 512;
  many_heads.hidden_size = 1024;
  many_heads.num_heads = many_heads.num_kv_heads = 512;
  EXPECT_THAT(refusal(many_heads, 1, 512), HasSubstr("--shapes runs a block on --tp 512 ranks"));
}

TEST(TensorStepOf, IsTheLargestShareInMicroBatches) {
  train::TrainOptions train;
  train.global_batch = 13;
  train.micro_batch = 2;
  const train::Setup setup = ultra::test::setup_of(
      train, 4, train::list_of(memory::technique(), technique()), "--tp 2 --recompute full");
  TensorParallelOptions options;
  options.tp = 2;
  const std::vector<std::size_t> micro_batches =
      data_parallel::micro_batch_sizes(setup.train, static_cast<std::size_t>(setup.replicas()));
  const TensorStep step = step_of(setup, options, micro_batches);
  EXPECT_THAT(step.micro_batches, ElementsAre(2, 2, 2, 1));
  EXPECT_EQ(step.block_forwards, 2U);
  EXPECT_EQ(step.layout.tp, 2);
}

}  // namespace
}  // namespace ultra::tensor_parallel
