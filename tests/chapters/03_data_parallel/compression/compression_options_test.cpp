#include "chapters/03_data_parallel/compression/compression_options.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"

namespace ultra::data_parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  return test::message_of<ConfigError>([&] { static_cast<void>(parse_compression(text)); });
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

TEST(CompressionOptions, OfUnknownNameListTheKnown) {
  for (const char* text : {"", "top-k:0.1", "gzip", "TOPK:0.1", "int", ":"}) {
    EXPECT_THAT(refusal(text),
                AllOf(HasSubstr(fmt::format("'{}'", text)), HasSubstr("none, topk:FRACTION, int8, "
                                                                      "onebit or powersgd:RANK")));
  }
}

TEST(CompressionOptions, OutOfRangeSayWhatIsExpected) {
  for (const char* text : {"topk", "topk:", "topk:0", "topk:-0.1", "topk:1.5", "topk:nan",
                           "topk:inf", "topk:0.1x", "topk:0.1:2", "topk:1%"}) {
    EXPECT_THAT(
        refusal(text),
        AllOf(HasSubstr(fmt::format("'{}'", text)),
              HasSubstr("the fraction to keep, above 0 and up to 1, for example topk:0.01")));
  }
  for (const char* text : {"powersgd", "powersgd:", "powersgd:0", "powersgd:-1", "powersgd:1.5",
                           "powersgd:99999999999999999999"}) {
    EXPECT_THAT(refusal(text), AllOf(HasSubstr(fmt::format("'{}'", text)),
                                     HasSubstr("a whole number of at least 1")));
  }
  for (const char* text : {"int8:4", "none:1", "onebit:"}) {
    EXPECT_THAT(refusal(text),
                AllOf(HasSubstr(fmt::format("'{}'", text)), HasSubstr("takes no number")));
  }
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

}  // namespace
}  // namespace ultra::data_parallel
