#include "chapters/03_data_parallel/compression/compression_options.hpp"

#include <initializer_list>

#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

/// Each text is refused with itself in quotes, and the hint.
void expect_refused(const std::string& hint, std::initializer_list<const char*> texts) {
  for (const char* text : texts) {
    const auto parse = [&] { static_cast<void>(parse_compression(text)); };
    test::expect_parts(test::message_of<ConfigError>(parse), {fmt::format("'{}'", text), hint});
  }
}

TEST(CompressionOptions, AreReadAndWritten) {
  EXPECT_EQ(parse_compression("none"), Compression{});
  EXPECT_EQ(parse_compression("topk:0.01"),
            (Compression{.kind = CompressionKind::kTopK, .fraction = 0.01}));
  EXPECT_EQ(parse_compression("int8"), Compression{.kind = CompressionKind::kInt8});
  EXPECT_EQ(parse_compression("onebit"), Compression{.kind = CompressionKind::kOneBit});
  EXPECT_EQ(parse_compression("powersgd:4"),
            (Compression{.kind = CompressionKind::kPowerSgd, .rank = 4}));
  for (const char* text : {"none", "topk:0.01", "topk:1", "int8", "onebit", "powersgd:4"}) {
    EXPECT_EQ(parse_compression(text).name(), text);
  }
  EXPECT_EQ(parse_compression("topk:1e-2").name(), "topk:0.01");
}

TEST(CompressionOptions, ThatCannotWorkSayWhatIsExpected) {
  expect_refused("none, topk:FRACTION, int8, onebit or powersgd:RANK",
                 {"", "top-k:0.1", "gzip", "TOPK:0.1", "int", ":"});
  expect_refused("the fraction to keep, above 0 and up to 1, for example topk:0.01",
                 {"topk", "topk:", "topk:0", "topk:-0.1", "topk:1.5", "topk:nan", "topk:inf",
                  "topk:0.1x", "topk:0.1:2", "topk:1%"});
  expect_refused("a whole number from 1 to 1000000",
                 {"powersgd", "powersgd:", "powersgd:0", "powersgd:-1", "powersgd:1.5",
                  "powersgd:99999999999999999999"});
  expect_refused("takes no number", {"int8:4", "none:1", "onebit:"});
}

TEST(CompressionOptions, SayWhatAReplicaSends) {
  const BucketContents contents{
      .number = 0, .shapes = {{64, 32}, {64}}, .count = std::size_t{64} * 32 + 64};
  const auto bytes = [&](const char* text, int replicas) {
    return parse_compression(text).sent_bytes(replicas, contents, DType::kF32);
  };
  EXPECT_EQ(bytes("none", 4), 2.0 * 3 / 4 * 4 * 2112);
  EXPECT_EQ(bytes("topk:0.5", 4), 3.0 * 4 * 2 * 1056);
  EXPECT_EQ(bytes("int8", 4), 3.0 * 4 * (528 + 9));
  EXPECT_EQ(bytes("onebit", 4), 3.0 * 4 * (66 + 17));
  EXPECT_EQ(bytes("powersgd:2", 4), 2.0 * 3 / 4 * 4 * (2 * 96 + 64));
  for (const char* text : {"none", "topk:0.5", "int8", "onebit", "powersgd:2"}) {
    EXPECT_EQ(bytes(text, 1), 0) << text;
  }
}

class EqualCopies : public test::RandomTest {
 protected:
  /// A parameter of the model, with a copy on two ranks of tensor parallelism or without.
  void add(std::size_t count, bool copied) {
    kept_.push_back(std::make_unique<nn::Parameter>(
        nn::ParameterSpec{.name = "weight " + std::to_string(kept_.size()),
                          .global_shape = {count},
                          .shard = {},
                          .initializer = {}},
        device, DType::kF32, seed));
    if (copied) kept_.back()->replicate({.group = "tensor", .size = 2, .index = 0});
    parameters.push_back(kept_.back().get());
  }

  std::vector<nn::Parameter*> parameters;

 private:
  std::vector<std::unique_ptr<nn::Parameter>> kept_;
};

TEST_F(EqualCopies, StandInBucketsOfTheirOwn) {
  for (const bool copied : {true, false, true, false}) add(10, copied);
  const std::vector<Bucket> buckets = buckets_of_equal_copies(parameters, 100);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_THAT(buckets[0].parameters, ElementsAre(3, 1));
  EXPECT_THAT(buckets[1].parameters, ElementsAre(2, 0));
}

TEST_F(EqualCopies, EveryParameterIsInOneBucketAndEarlierBucketsAreFullEarlier) {
  const std::size_t size = random.between(2, 20);
  for (std::size_t i = 0; i < size; ++i) add(random.between(1, 30), random.between(0, 1) == 1);
  std::vector<int> found(size);
  std::size_t full = size;
  for (const Bucket& bucket : buckets_of_equal_copies(parameters, random.between(0, 60))) {
    for (const std::size_t p : bucket.parameters) ++found[p];
    const std::size_t last = std::ranges::min(bucket.parameters);
    EXPECT_LT(last, full);
    full = last;
  }
  EXPECT_THAT(found, ::testing::Each(1));
}

}  // namespace
}  // namespace ultra::data_parallel
