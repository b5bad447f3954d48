#include "chapters/03_data_parallel/parameter_server/straggler.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "common/comm/run_ranks.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"

namespace ultra::data_parallel {
namespace {

class StragglerRanks : public ultra::test::RandomTest {};

TEST_F(StragglerRanks, OneReplicaTakesLongerAndComputesTheSame) {
  const Straggler straggler{.replica = 1, .delay = std::chrono::milliseconds(30)};
  const nn::ModelConfig config = test::random_config(random);
  const data::Dataset text = test::random_text(random);
  run_ranks(3, [&](Communicator& world) {
    test::Replica replica(config, DType::kF64, seed);
    const data::Sampler sampler(text, config.max_seq_len, 2, seed);
    int calls = 0;
    const train::ForwardBackward slow = with_straggler(
        [&](nn::Model& model, const data::Sampler& drawn, std::size_t step) {
          EXPECT_EQ(&model, &replica.model);
          EXPECT_EQ(drawn.global_batch_size(), 2U);
          ++calls;
          return 0.5 + static_cast<double>(step);
        },
        straggler, world);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(slow(replica.model, sampler, 0), 0.5);
    EXPECT_EQ(slow(replica.model, sampler, 7), 7.5);
    const auto taken = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(calls, 2);
    if (world.rank() == straggler.replica) {
      EXPECT_GE(taken, 2 * straggler.delay);
    }
  });
}

}  // namespace
}  // namespace ultra::data_parallel
