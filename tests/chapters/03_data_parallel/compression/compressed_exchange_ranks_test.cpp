// Exchanges of compressed gradients on ranks: what they add up, that replicas agree, what error
// feedback gives back, and what is sent.

#include "chapters/03_data_parallel/compression/compressed_exchange.hpp"

#include "chapters/03_data_parallel/compression/compression_options.hpp"
#include "tests/chapters/03_data_parallel/compression/exchange_trial.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using namespace test;

constexpr const char* kNames[] = {"topk:0.1", "topk:1", "int8", "onebit"};

std::shared_ptr<const Compressor> compressor_named(const std::string& name) {
  if (name == "int8") return int8_compressor();
  if (name == "onebit") return one_bit_compressor();
  return top_k_compressor(parse_compression(name).fraction);
}

MakeBucketExchange exchange_named(const std::string& name, const Communicator& world,
                                  ErrorFeedback feedback) {
  return compressed_exchange(world, compressor_named(name), feedback);
}

std::vector<double> decompressed(const Compressor& compressor, const Tensor& gradient) {
  const Tensor message =
      Tensor::empty(gradient.device(),
                    {compressor.message_words(gradient.numel(), gradient.dtype())}, DType::kI32);
  compressor.compress(gradient, message);
  const Tensor sent = Tensor::zeros(gradient.device(), gradient.shape(), gradient.dtype());
  compressor.add_decompressed(message, 1, sent);
  return sent.to_vector();
}

class CompressedExchange : public RandomTest {
 protected:
  std::size_t draw_seed = random.between(0, 1000000);  ///< of the gradients, on all ranks
};

TEST_F(CompressedExchange, AddsUpWhatTheMessagesHold) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, random.between(2, 5000)}) {
      run_ranks(ranks, [&](Communicator& world) {
        const Device own = Device::cpu();
        for (const char* name : kNames) {
          for (const DType dtype : kFloatDTypes) {
            const auto exchange = exchange_named(name, world, ErrorFeedback::kOff)(
                contents_of({{count}}), own, dtype);
            for (std::size_t step = 0; step < 2; ++step) {
              const auto rank = static_cast<std::size_t>(world.rank());
              const std::vector<double> found =
                  exchanged(*exchange, gradient_of(own, count, dtype, draw_seed, rank, step));
              expect_same_on_all(world, found);
              std::vector<double> expected(count, 0.0);
              for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
                add(expected, decompressed(*compressor_named(name),
                                           gradient_of(own, count, dtype, draw_seed, r, step)));
              }
              for (std::size_t i = 0; i < count; ++i) {
                // N terms of up to 10.
                EXPECT_NEAR(found[i], expected[i], rounding_bound(dtype, ranks, 10.0 * ranks))
                    << name << " " << i;
              }
            }
          }
        }
      });
    }
  }
}

// Whole numbers: all sums are exact.
TEST_F(CompressedExchange, WithFeedbackWhatWasLeftOutComesLater) {
  for (const int ranks : {1, 2, 4}) {
    run_ranks(ranks, [&](Communicator& world) {
      const Device own = Device::cpu();
      const std::size_t count = 60;
      const auto make = [&](ErrorFeedback feedback) {
        return exchange_named("topk:0.1", world, feedback)(contents_of({{count}}), own,
                                                           DType::kF32);
      };
      const auto with = make(ErrorFeedback::kOn);
      const auto without = make(ErrorFeedback::kOff);
      std::vector<double> expected(count, 0.0);
      std::vector<double> found(count, 0.0);
      std::vector<double> found_without(count, 0.0);
      const Tensor zeros = Tensor::zeros(own, {count}, DType::kF32);
      for (std::size_t step = 0; step < 15; ++step) {
        Tensor gradient = zeros;  // ten steps at 6 of 60 entries send everything
        if (step < 5) {
          gradient = Tensor::empty(own, {count}, DType::kF32);
          for (std::size_t i = 0; i < count; ++i) {
            const std::size_t value =
                (i * 31 + step * 17 + static_cast<std::size_t>(world.rank())) % 23;
            gradient.span<float>()[i] = static_cast<float>(value) - 11.0F;
          }
        }
        add(expected, sum_of(gradient, world).to_vector());
        add(found, exchanged(*with, gradient));
        const std::vector<double> now = exchanged(*without, gradient);
        add(found_without, now);
        if (step >= 5) {
          EXPECT_EQ(now, zeros.to_vector()) << "nothing is remembered";
        }
      }
      EXPECT_EQ(found, expected);
      EXPECT_NE(found_without, expected);
    });
  }
}

TEST_F(CompressedExchange, BucketsTravelSideBySide) {
  run_ranks(3, [&](Communicator& world) {
    const Device own = Device::cpu();
    const auto rank = static_cast<std::size_t>(world.rank());
    const MakeBucketExchange make = exchange_named("int8", world, ErrorFeedback::kOn);
    std::vector<std::unique_ptr<BucketExchange>> exchanges;
    std::vector<Tensor> buckets;
    for (std::size_t b = 0; b < 4; ++b) {
      exchanges.push_back(make(contents_of({{100 + b}}, b), own, DType::kF32));
      buckets.push_back(gradient_of(own, 100 + b, DType::kF32, draw_seed, rank, b));
    }
    for (std::size_t b = 0; b < 4; ++b) exchanges[b]->start(buckets[b]);
    for (std::size_t b = 0; b < 4; ++b) exchanges[b]->finish();
    for (std::size_t b = 0; b < 4; ++b) {
      const auto alone = make(contents_of({{100 + b}}, b), own, DType::kF32);
      EXPECT_EQ(buckets[b].to_vector(),
                exchanged(*alone, gradient_of(own, 100 + b, DType::kF32, draw_seed, rank, b)));
    }
  });
}

TEST_F(CompressedExchange, SentBytesAreTheClosedForm) {
  for (const int ranks : {1, 2, 3, 4}) {
    const std::size_t count = random.between(0, 5000);
    run_ranks(ranks, [&](Communicator& world) {
      const Device own = Device::cpu();
      for (const char* name : kNames) {
        for (const DType dtype : kFloatDTypes) {
          const BucketContents contents = contents_of({{count}});
          const Compression compression = parse_compression(name);
          const auto exchange =
              make_exchange(compression, world, ErrorFeedback::kOn)(contents, own, dtype);
          const CommStats before = world.stats();
          static_cast<void>(exchanged(*exchange, gradient_of(own, count, dtype, 1, 0, 0)));
          const CommStats after = world.stats();
          const std::size_t sent =
              after[OpKind::kAllGather].sent_bytes - before[OpKind::kAllGather].sent_bytes;
          EXPECT_EQ(after.sent_bytes() - before.sent_bytes(), sent) << "nothing else is sent";
          const std::size_t words = compressor_named(name)->message_words(count, dtype);
          EXPECT_EQ(sent, static_cast<std::size_t>(ranks - 1) * words * sizeof(std::int32_t))
              << name;
          EXPECT_EQ(static_cast<double>(sent), compression.sent_bytes(ranks, contents, dtype));
        }
      }
    });
  }
}

TEST_F(CompressedExchange, MemoryIsAResidualAndTheMessagesUnderWay) {
  run_ranks(2, [&](Communicator& world) {
    const Device own = Device::cpu();
    const auto used = [&] { return own.memory().current()[MemoryCategory::kCommunication]; };
    for (const ErrorFeedback feedback : {ErrorFeedback::kOff, ErrorFeedback::kOn}) {
      const auto exchange =
          exchange_named("onebit", world, feedback)(contents_of({{4096}}), own, DType::kF32);
      const std::size_t residual = feedback == ErrorFeedback::kOn ? 4096 * 4 : 0;
      EXPECT_EQ(used(), residual);
      const Tensor bucket = gradient_of(own, 4096, DType::kF32, 1, 0, 0);
      exchange->start(bucket);
      EXPECT_EQ(used(), residual + 2 * 4 * (4096 / 32 + 4096 / 128)) << "a message of each rank";
      exchange->finish();
      EXPECT_EQ(used(), residual);
    }
  });
}

// The warm-up before compression: which exchange works when, and AdamW with a second moment that is
// kept against AdamW where both are the same.

class CompressionWarmup : public RandomTest {};

TEST_F(CompressionWarmup, CompressesAfterTheFirstSteps) {
  run_ranks(2, [&](Communicator& world) {
    const Device own = Device::cpu();
    const BucketContents contents = contents_of({{300}});
    const MakeBucketExchange plain = all_reduce_exchange(world);
    const MakeBucketExchange compressed =
        compressed_exchange(world, top_k_compressor(0.1), ErrorFeedback::kOn);
    for (const std::size_t steps : {0U, 1U, 3U}) {
      const auto switched = switch_exchange(steps, plain, compressed)(contents, own, DType::kF32);
      const auto first = plain(contents, own, DType::kF32);
      const auto then = compressed(contents, own, DType::kF32);
      for (std::size_t step = 0; step < 6; ++step) {
        const Tensor gradient = gradient_of(own, contents.count, DType::kF32, 1,
                                            static_cast<std::size_t>(world.rank()), step);
        EXPECT_EQ(exchanged(*switched, gradient),
                  exchanged(step < steps ? *first : *then, gradient))
            << "step " << step << " of " << steps << " without compression";
      }
    }
  });
}

struct State {
  Tensor value, m, v;

  [[nodiscard]] static State zeros(const Device& device, const Tensor& like) {
    const auto make = [&] { return Tensor::zeros(device, like.shape(), like.dtype()); };
    return {.value = make(), .m = make(), .v = make()};
  }

  void change_by(const optim::UpdateRule& rule, const Tensor& grad,
                 const optim::StepConstants& step) const {
    rule.apply(0, {.value = value, .grad = grad, .decay = true}, std::vector{m, v}, step);
  }
};

// A constant gradient has the second moment g^2 in every step, once its bias is corrected.
TEST_F(CompressionWarmup, KeptSecondMomentIsTheRunningOneForAConstantGradient) {
  for (const DType dtype : kFloatDTypes) {
    const Tensor grad = random.tensor(device, {40}, dtype);
    const State running = State::zeros(device, grad);
    const State kept = State::zeros(device, grad);
    const optim::Rule rule = keep_second_moment(3, optim::adamw());
    Tensor v_kept;
    for (int step = 1; step <= 10; ++step) {
      const optim::StepConstants constants{
          .learning_rate = 0.1, .gradient_scale = 0.5, .step = step};
      running.change_by(*optim::adamw(), grad, constants);
      kept.change_by(*rule, grad, constants);
      if (step == 3) v_kept = kept.v.clone();
      if (step <= 3) {
        EXPECT_TRUE(all_equal(kept.value, running.value)) << "step " << step;
      }
    }
    EXPECT_TRUE(all_equal(kept.v, v_kept)) << "it is kept";
    // Numbers stay below 4; each of ten steps has some 15 operations on them.
    const double tolerance = rounding_bound(dtype, 150, 4);
    EXPECT_TRUE(all_near(kept.m, running.m, tolerance));
    EXPECT_TRUE(all_near(kept.value, running.value, tolerance));
  }
}

TEST_F(CompressionWarmup, KeptSecondMomentForgetsLaterGradients) {
  const Tensor small = Tensor::empty(device, {1}, DType::kF64);
  const Tensor large = Tensor::empty(device, {1}, DType::kF64);
  small.fill(1);
  large.fill(100);
  const State state = State::zeros(device, small);
  const optim::AdamWConfig config{.beta1 = 0, .epsilon = 0, .weight_decay = 0};
  const optim::Rule rule = keep_second_moment(1, optim::adamw(config), config);
  const auto step = [&](const Tensor& grad, int number) {
    state.change_by(*rule, grad, {.learning_rate = 1, .step = number});
    return state.value.to_vector()[0];
  };
  EXPECT_NEAR(step(small, 1), -1, 1e-12);
  EXPECT_NEAR(step(large, 2), -101, 1e-10) << "100 times the gradient is 100 times the step";
}

}  // namespace
}  // namespace ultra::data_parallel
