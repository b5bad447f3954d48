#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using ::ultra::test::message_of;

constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();

// Names -------------------------------------------------------------------------------------------

TEST(CheckpointFiles, AreCalledByTheirWriters) {
  EXPECT_EQ(optimizer_file(0, 1), "optimizer-00000-of-00001.safetensors");
  EXPECT_EQ(optimizer_file(12, 4096), "optimizer-00012-of-04096.safetensors");
  EXPECT_EQ(parts_file(3, 4), "parts-00003-of-00004.json");
  EXPECT_EQ(parts_file(123456, 1234567), "parts-123456-of-1234567.json");
}

TEST(StateName, GoesThroughText) {
  for (const StateName& name :
       {StateName{"exp_avg", "model.norm.weight", 128},
        StateName{"exp_avg_sq", "model.embed_tokens.weight", 0},
        StateName{"exp_avg", "down_proj", 96, 384}, StateName{"exp_avg", "", 0, kLargest},
        StateName{"exp_avg", "odd/name@with@signs+1", kLargest}, StateName{"exp_avg", "", 1}}) {
    const auto read = parse_state_name(to_string(name));
    ASSERT_TRUE(read) << to_string(name);
    EXPECT_EQ(read->state, name.state);
    EXPECT_EQ(read->parameter, name.parameter);
    EXPECT_EQ(read->begin, name.begin);
    EXPECT_EQ(read->stride, name.stride);
  }
  EXPECT_EQ(to_string(StateName{"exp_avg", "model.norm.weight", 128}),
            "exp_avg/model.norm.weight@128");
  EXPECT_EQ(to_string(StateName{"exp_avg", "down_proj", 96, 384}), "exp_avg/down_proj@96+384");
}

TEST(StateName, OtherTextsAreNone) {
  for (const char* text : {"",
                           "/",
                           "@",
                           "@/",
                           "exp_avg",
                           "exp_avg/",
                           "exp_avg/w",
                           "exp_avg/w@",
                           "exp_avg/w@x",
                           "exp_avg/w@-1",
                           "exp_avg/w@1x",
                           "exp_avg/w@ 1",
                           "exp_avg/w@18446744073709551616",
                           "exp_avg/w@1+",
                           "exp_avg/w@+1",
                           "exp_avg/w@1+0",
                           "exp_avg/w@1+2+3",
                           "exp_avg/w@1+-2",
                           "/w@1",
                           "w@1",
                           "exp_avg@1/w"}) {
    EXPECT_FALSE(parse_state_name(text)) << text;
  }
}

// Rows: a shard of columns is one tensor, whatever the number of rows, but for rows that a piece
// begins or ends within.
TEST(RowsOfRuns, AreTheRunsInTheirOrder) {
  ultra::test::Random random(ultra::test::seed_of_this_run());
  for (int round = 0; round < 50; ++round) {
    const Shape whole{random.between(1, 9), random.between(1, 9)};
    const std::size_t begin = random.between(0, whole[1] - 1);
    const std::vector<Range> shard = {{0, whole[0]}, {begin, random.between(begin + 1, whole[1])}};
    const std::size_t count = whole[0] * shard[1].size();
    const std::size_t first = random.between(0, count);
    const auto runs = checkpoint::element_runs(whole, shard, {first, random.between(first, count)});
    const std::vector<RowsOfRuns> rows = rows_of(runs);
    EXPECT_LE(rows.size(), 3U);
    std::vector<checkpoint::ElementRun> unfolded;
    for (const RowsOfRuns& group : rows) {
      EXPECT_EQ(group.stride > 0, group.rows > 1);
      for (std::size_t row = 0; row < group.rows; ++row) {
        unfolded.push_back({.global = group.first.global + row * group.stride,
                            .local = group.first.local + row * group.first.count,
                            .count = group.first.count});
      }
    }
    EXPECT_EQ(unfolded, runs);
  }
  EXPECT_THAT(rows_of({}), IsEmpty());
}

// Parts -------------------------------------------------------------------------------------------

class WrittenParts : public ultra::test::RandomTest {};

TEST_F(WrittenParts, GoThroughJson) {
  EXPECT_THAT(parse_parts(to_json(std::vector<WrittenPart>{}), "path"), IsEmpty());
  std::vector<WrittenPart> parts = {
      {"a \"file\"", 0, kLargest, std::numeric_limits<std::uint32_t>::max()},
      {"model.safetensors", kLargest, 0, 0}};
  for (int i = 0; i < 50; ++i) {
    parts.push_back({"file-" + std::to_string(i), random.between(0, kLargest),
                     random.between(0, kLargest),
                     static_cast<std::uint32_t>(random.between(0, 0xffffffff))});
  }
  const std::vector<WrittenPart> read = parse_parts(to_json(parts), "path");
  ASSERT_EQ(read.size(), parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(read[i].file, parts[i].file);
    EXPECT_EQ(read[i].offset, parts[i].offset);
    EXPECT_EQ(read[i].bytes, parts[i].bytes);
    EXPECT_EQ(read[i].crc32, parts[i].crc32);
  }
}

void expect_damaged(const std::string& text) {
  EXPECT_THAT(
      message_of<FileError>([&] { static_cast<void>(parse_parts(text, "some/parts.json")); }),
      AllOf(HasSubstr("'some/parts.json' is damaged"), HasSubstr("Resume an older checkpoint")))
      << text;
}

TEST_F(WrittenParts, OfAnotherFormAreRefused) {
  for (const char* text : {"", "[", "x", "5", "\"text\"", "[5]", "[[]]", "[null]", "[{}]",
                           R"([{"file": 1, "offset": 0, "bytes": 0, "crc32": 0}])",
                           R"([{"file": "f", "offset": "0", "bytes": 0, "crc32": 0}])",
                           R"([{"file": "f", "offset": 0, "bytes": null, "crc32": 0}])",
                           R"([{"file": "f", "offset": 0, "bytes": 0, "crc32": []}])",
                           R"([{"file": "f", "offset": 0, "bytes": 0}])"}) {
    expect_damaged(text);
  }
}

TEST_F(WrittenParts, ThatAreNoListAreRefused) {
  for (const char* text : {"null", "{}"}) expect_damaged(text);
}

/// A number that does not fit must not become another one.
TEST_F(WrittenParts, NumbersThatDoNotFitAreRefused) {
  for (const char* text : {R"([{"file": "f", "offset": -1, "bytes": 0, "crc32": 0}])",
                           R"([{"file": "f", "offset": 0.5, "bytes": 0, "crc32": 0}])",
                           R"([{"file": "f", "offset": 0, "bytes": 1e30, "crc32": 0}])",
                           R"([{"file": "f", "offset": 0, "bytes": 0, "crc32": 4294967296}])",
                           R"([{"file": "f", "offset": true, "bytes": 0, "crc32": 0}])"}) {
    expect_damaged(text);
  }
}

// Bytes -------------------------------------------------------------------------------------------

TEST(PendingPart, IsItsTextOrItsNumbers) {
  const PendingPart text{.file = "f", .offset = 0, .text = "some text", .values = {}};
  EXPECT_EQ(text.bytes().size(), 9U);
  EXPECT_EQ(text.bytes()[0], std::byte{'s'});
  const Tensor f64 = Tensor::from<double>(Device::cpu(), {3}, std::vector<double>{1, 2, 3}).clone();
  const PendingPart numbers{.file = "f", .offset = 0, .text = {}, .values = f64};
  EXPECT_EQ(numbers.bytes().size(), 24U);
  EXPECT_EQ(numbers.bytes().data(), std::as_bytes(f64.span<double>()).data()) << "no copy";
  const PendingPart f32{.file = "f",
                        .offset = 0,
                        .text = {},
                        .values = Tensor::zeros(Device::cpu(), {3}, DType::kF32)};
  EXPECT_EQ(f32.bytes().size(), 12U);
}

}  // namespace
}  // namespace ultra::zero
