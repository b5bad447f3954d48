// PowerSGD on ranks: against one rank that holds the sum, with its bytes and its memory.

#include "chapters/03_data_parallel/compression/power_sgd.hpp"

#include "chapters/03_data_parallel/compression/compression_options.hpp"
#include "tests/chapters/03_data_parallel/compression/exchange_trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using namespace test;

class PowerSgdOnRanks : public RandomTest {
 protected:
  std::size_t draw_seed = random.between(0, 1000000);  ///< of the gradients, on all ranks
};

// M Q and M^T P are linear in M: so nothing but the sum counts, residuals included.
TEST_F(PowerSgdOnRanks, RanksDoWhatOneRankWithTheSumDoes) {
  const BucketContents contents = contents_of({{12, 9}, {5}, {20, 11}, {3, 2}}, 7);
  for (const int ranks : {1, 2, 3, 5}) {
    run_ranks(ranks, [&](Communicator& world) {
      const Device own = Device::cpu();
      const Communicator alone = test::alone(world);
      for (const ErrorFeedback feedback : {ErrorFeedback::kOff, ErrorFeedback::kOn}) {
        const PowerSgdOptions options{.rank = 2, .feedback = feedback};
        const auto many = power_sgd_exchange(world, options)(contents, own, DType::kF64);
        const auto one = power_sgd_exchange(alone, options)(contents, own, DType::kF64);
        for (std::size_t step = 0; step < 6; ++step) {
          const Tensor gradient = gradient_of(own, contents.count, DType::kF64, draw_seed,
                                              static_cast<std::size_t>(world.rank()), step);
          const Tensor sum = sum_of(gradient, world);
          const std::vector<double> found = exchanged(*many, gradient);
          expect_same_on_all(world, found);
          const std::vector<double> expected = exchanged(*one, sum);
          EXPECT_LE(distance(found, expected), 1e-10 * norm_of(expected)) << "step " << step;
        }
      }
    });
  }
}

TEST_F(PowerSgdOnRanks, WithFeedbackWhatWasLeftOutComesLater) {
  const BucketContents contents = contents_of({{10, 8}});
  run_ranks(2, [&](Communicator& world) {
    const Device own = Device::cpu();
    const auto with = power_sgd_exchange(world, {.rank = 2})(contents, own, DType::kF64);
    const auto without = power_sgd_exchange(world, {.rank = 2, .feedback = ErrorFeedback::kOff})(
        contents, own, DType::kF64);
    std::vector<double> expected(contents.count, 0.0);
    std::vector<double> found = expected;
    std::vector<double> found_without = expected;
    for (std::size_t step = 0; step < 200; ++step) {
      Tensor gradient = Tensor::zeros(own, {contents.count}, DType::kF64);
      if (step < 5) {
        gradient = gradient_of(own, contents.count, DType::kF64, draw_seed,
                               static_cast<std::size_t>(world.rank()), step);
      }
      add(expected, sum_of(gradient, world).to_vector());
      add(found, exchanged(*with, gradient));
      add(found_without, exchanged(*without, gradient));
    }
    EXPECT_LE(distance(found, expected), 1e-10 * norm_of(expected));
    EXPECT_GE(distance(found_without, expected), 0.1 * norm_of(expected));
  });
}

TEST_F(PowerSgdOnRanks, SentBytesAreTheClosedForm) {
  const BucketContents contents = contents_of({{31, 17}, {17}, {8, 40}, {2, 3}});
  EXPECT_EQ(power_sgd_counts(contents.shapes, 2),
            (PowerSgdCounts{.first = 2 * 31 + 17 + 2 * 8 + 6, .second = 2 * 17 + 2 * 40}));
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks(ranks, [&](Communicator& world) {
      const Device own = Device::cpu();
      for (const DType dtype : kFloatDTypes) {
        const Compression compression = parse_compression("powersgd:2");
        const auto exchange =
            make_exchange(compression, world, ErrorFeedback::kOn)(contents, own, dtype);
        const CommStats before = world.stats();
        static_cast<void>(exchanged(*exchange, gradient_of(own, contents.count, dtype, 1, 0, 0)));
        const CommStats after = world.stats();
        EXPECT_EQ(after[OpKind::kAllReduce].operations - before[OpKind::kAllReduce].operations, 2U);
        const Tensor sent = Tensor::empty(own, {1}, DType::kF64);
        sent.fill(static_cast<double>(after.sent_bytes() - before.sent_bytes()));
        world.all_reduce(sent).wait();
        EXPECT_NEAR(sent.to_vector()[0], ranks * compression.sent_bytes(ranks, contents, dtype),
                    1e-6)
            << "over all ranks";
      }
    });
  }
}

TEST_F(PowerSgdOnRanks, MemoryIsQAndAResidual) {
  run_ranks(2, [&](Communicator& world) {
    const Device own = Device::cpu();
    const auto used = [&] { return own.memory().current()[MemoryCategory::kCommunication]; };
    for (const ErrorFeedback feedback : {ErrorFeedback::kOff, ErrorFeedback::kOn}) {
      const auto exchange = power_sgd_exchange(world, {.rank = 2, .feedback = feedback})(
          contents_of({{64, 32}, {32}}), own, DType::kF32);
      const std::size_t kept =
          4 * (2 * 32 + (feedback == ErrorFeedback::kOn ? std::size_t{64} * 32 : 0));
      EXPECT_EQ(used(), kept);
      const Tensor bucket = gradient_of(own, 64 * 32 + 32, DType::kF32, 1, 0, 0);
      exchange->start(bucket);
      EXPECT_EQ(used(), kept + 4 * (2 * 64 + 32)) << "P and the rest";
      exchange->finish();
      EXPECT_EQ(used(), kept);
    }
  });
}

TEST_F(PowerSgdOnRanks, WhatIsBrokenReachesAllReplicas) {
  run_ranks(2, [&](Communicator& world) {
    const Device own = Device::cpu();
    for (const double broken : {std::nan(""), HUGE_VAL}) {
      const auto exchange =
          power_sgd_exchange(world, {.rank = 2})(contents_of({{20, 10}}), own, DType::kF32);
      const Tensor gradient = gradient_of(own, 200, DType::kF32, draw_seed, 0, 0);
      if (world.rank() == 1) gradient.slice(0, {77, 78}).fill(broken);
      for (const double value : exchanged(*exchange, gradient)) EXPECT_TRUE(std::isnan(value));
    }
  });
}

TEST_F(PowerSgdOnRanks, WorksOnBucketsWithoutMatricesAndOnEmptyOnes) {
  run_ranks(2, [&](Communicator& world) {
    const Device own = Device::cpu();
    for (const BucketContents& contents :
         {contents_of({{5}}), contents_of({}), contents_of({{0}})}) {
      const auto exchange = power_sgd_exchange(world, {.rank = 1})(contents, own, DType::kF32);
      const Tensor gradient = Tensor::empty(own, {contents.count}, DType::kF32);
      gradient.fill(2.0 * world.rank());
      EXPECT_EQ(exchanged(*exchange, gradient), std::vector<double>(contents.count, 2.0));
    }
  });
}

}  // namespace
}  // namespace ultra::data_parallel
