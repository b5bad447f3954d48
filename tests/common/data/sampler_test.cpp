// The sampler: which sequences a step sees, and that no layout changes it.
// Covers: common/data/dataset.hpp

#include "common/data/dataset.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data {
namespace {

/// A text in which token i is i: the first token of a sequence tells its position.
Dataset counting_text(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return {std::move(bytes), "counting"};
}

class Sampling : public test::RandomTest {
 protected:
  Dataset random_text(std::size_t size) {
    std::vector<std::uint8_t> bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.between(0, 255));
    return {std::move(bytes), "random bytes"};
  }

  std::vector<double> tokens_of(const Sampler& sampler, std::size_t step, Range samples) const {
    return sampler.batch(device, step, samples).tokens.to_vector();
  }
};

TEST_F(Sampling, TargetsAreTheTokensOneFurtherOn) {
  const Dataset text = random_text(random.between(50, 500));
  const std::size_t seq = random.between(2, 40);
  const Sampler sampler(text, seq, 6, seed);
  const Batch batch = sampler.batch(device, 3, {0, 6});
  ASSERT_EQ(batch.tokens.shape(), (Shape{6, seq}));
  ASSERT_EQ(batch.targets.shape(), (Shape{6, seq}));
  ASSERT_EQ(batch.tokens.dtype(), DType::kI32);
  for (std::size_t sample = 0; sample < 6; ++sample) {
    const std::span<const std::int32_t> tokens = batch.tokens.span<std::int32_t>();
    const std::span<const std::int32_t> targets = batch.targets.span<std::int32_t>();
    for (std::size_t i = 0; i + 1 < seq; ++i) {
      ASSERT_EQ(targets[sample * seq + i], tokens[sample * seq + i + 1]);
    }
  }
}

TEST_F(Sampling, AnySplitIntoRanksAndMicroBatchesSeesTheSameGlobalBatch) {
  const Dataset text = random_text(5000);
  for (int round = 0; round < 20; ++round) {
    const std::size_t global = random.between(1, 24);
    const std::size_t step = random.between(0, 1000);
    const Sampler sampler(text, random.between(1, 30), global, seed);
    const Batch whole = sampler.batch(device, step, {0, global});
    std::vector<double> tokens;
    std::vector<double> targets;
    for (std::size_t begin = 0; begin < global;) {
      const std::size_t end = begin + random.between(0, global - begin);
      const Batch part = sampler.batch(device, step, {begin, end});
      const std::vector<double> t = part.tokens.to_vector();
      const std::vector<double> u = part.targets.to_vector();
      tokens.insert(tokens.end(), t.begin(), t.end());
      targets.insert(targets.end(), u.begin(), u.end());
      begin = end;
    }
    ASSERT_EQ(tokens, whole.tokens.to_vector());
    ASSERT_EQ(targets, whole.targets.to_vector());
  }
}

// Start positions over 255 equally likely places. Pearson's statistic has mean 254 and deviation
// sqrt(2 * 254) = 22.5; six deviations above the mean come once in more than a million runs.
TEST_F(Sampling, EveryPositionIsEquallyLikely) {
  const Dataset text = counting_text(256);
  constexpr std::size_t kPlaces = 255;  // the last token is a target only
  constexpr std::size_t kPerStep = 255;
  constexpr std::size_t kSteps = 200;
  const Sampler sampler(text, 1, kPerStep, seed);
  std::vector<double> counts(kPlaces, 0.0);
  for (std::size_t step = 0; step < kSteps; ++step) {
    for (const double token : tokens_of(sampler, step, {0, kPerStep})) {
      counts.at(static_cast<std::size_t>(token)) += 1.0;
    }
  }
  const double expected = static_cast<double>(kSteps * kPerStep) / kPlaces;
  double statistic = 0.0;
  for (const double count : counts) {
    EXPECT_GT(count, 0.0) << "every place must be reachable";
    statistic += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(statistic, 254 + 6 * 22.5);
  EXPECT_GT(statistic, 254 - 6 * 22.5) << "more even than chance";
}

TEST_F(Sampling, TheShortestTextHasOnePlace) {
  const Dataset text = counting_text(9);
  const Sampler sampler(text, 8, 3, seed);
  const Batch batch = sampler.batch(device, 11, {0, 3});
  for (std::size_t i = 0; i < batch.tokens.numel(); ++i) {
    EXPECT_EQ(batch.tokens.span<std::int32_t>()[i], static_cast<std::int32_t>(i % 8));
  }
}

TEST_F(Sampling, ATextThatIsTooShortNamesBothLengthsAndTheFlag) {
  const Dataset text = counting_text(8);
  const std::string message =
      test::message_of<FileError>([&] { static_cast<void>(Sampler(text, 8, 3, seed)); });
  EXPECT_THAT(message, AllOf(HasSubstr("counting has 8 tokens"), HasSubstr("--seq + 1 = 9"),
                             HasSubstr("Give a longer text or a smaller --seq")));
}

}  // namespace
}  // namespace ultra::data
