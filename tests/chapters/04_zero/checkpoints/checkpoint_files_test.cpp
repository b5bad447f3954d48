// Covers: chapters/04_zero/checkpoints/training_record.hpp

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"

#include <malloc.h>

#include <fstream>

#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "chapters/04_zero/checkpoints/trained_mixture.hpp"
#include "chapters/04_zero/checkpoints/training_record.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/sanitizer.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();

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
  test::Random random(test::seed_of_this_run());
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

class WrittenParts : public test::RandomTest {};

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

TEST_F(WrittenParts, OfAnotherFormAreRefused) {
  for (const char* text : {"", "[", "x", "5", "\"text\"", "[5]", "[[]]", "[null]", "[{}]",
                           R"([{"file": 1, "offset": 0, "bytes": 0, "crc32": 0}])",
                           R"([{"file": "f", "offset": "0", "bytes": 0, "crc32": 0}])",
                           R"([{"file": "f", "offset": 0, "bytes": null, "crc32": 0}])",
                           R"([{"file": "f", "offset": 0, "bytes": 0, "crc32": []}])",
                           R"([{"file": "f", "offset": 0, "bytes": 0}])", "null", "{}",
                           // A number that does not fit must not become another one.
                           R"([{"file": "f", "offset": -1, "bytes": 0, "crc32": 0}])",
                           R"([{"file": "f", "offset": 0.5, "bytes": 0, "crc32": 0}])",
                           R"([{"file": "f", "offset": 0, "bytes": 1e30, "crc32": 0}])",
                           R"([{"file": "f", "offset": 0, "bytes": 0, "crc32": 4294967296}])",
                           R"([{"file": "f", "offset": true, "bytes": 0, "crc32": 0}])"}) {
    EXPECT_THAT(
        message_of<FileError>([&] { static_cast<void>(parse_parts(text, "some/parts.json")); }),
        AllOf(HasSubstr("'some/parts.json' is damaged"), HasSubstr("Resume an older checkpoint")))
        << text;
  }
}

using Words = ultra::test::Words;

TEST(CheckpointOptions, WhatCannotWorkIsRefused) {
  for (const std::string flag : {"--save-every", "--keep"}) {
    const Words alone = {flag + " has no meaning without --checkpoint DIR"};
    test::expect_refused<CheckpointOptions>(
        {{flag + " 0", alone},
         {flag + " 5", alone},
         {flag + " 0 --resume a", alone},
         {flag + " 5 --resume a", alone},
         {"--checkpoint a " + flag + " 0", {flag, "at least 1, found 0"}}});
    for (const char* value : {"-1", "1.5", "x", "", "1e3", "99999999999999999999"}) {
      const Words words = {"--checkpoint", "a", flag, value};
      EXPECT_THROW(static_cast<void>(test::parsed<CheckpointOptions>(words)), ConfigError)
          << flag << value;
    }
  }
}

using Flags = std::map<std::string, std::string>;

/// What --experts 8 means beside its defaults, with other values.
std::string unlike_published(const Flags& changes) {
  Flags flags = {
      {"--experts", "8"},        {"--top-k", "2"},        {"--expert-ffn", "24"},
      {"--shared-experts", "0"}, {"--router", "softmax"}, {"--balance", "aux"},
      {"--aux-loss", "0.01"},    {"--z-loss", "0.001"},   {"--capacity-factor", "dropless"}};
  for (const auto& [flag, value] : changes) flags[flag] = value;
  return mixture_of(flags).value().unlike_published;
}

TEST(TrainedMixture, IsWhatTheFlagsSay) {
  EXPECT_FALSE(mixture_of({}).has_value());
  EXPECT_FALSE(mixture_of({{"--fp8-recipe delayed", "(with --precision fp8)"}}).has_value());
  const auto mixture = mixture_of({{"--experts", "8"}, {"--top-k", "3"}, {"--expert-ffn", "24"}});
  ASSERT_TRUE(mixture.has_value());
  EXPECT_EQ(mixture->experts, 8U);
  EXPECT_EQ(mixture->top_k, 3U);
  EXPECT_EQ(mixture->expert_ffn, 24U);
  EXPECT_EQ(mixture->unlike_published, "");
}

// MixtralSparseMoeBlock: softmax, top-k, the weights divided by their sum, and no more.
TEST(TrainedMixture, IsMixtralsOnlyWithoutWhatItLacks) {
  EXPECT_EQ(unlike_published({}), "");
  EXPECT_EQ(unlike_published({{"--balance", "none"}, {"--top-k", "8"}}), "");
  for (const auto& [flag, value] : Flags{{"--router", "sigmoid"},
                                         {"--top-k", "1"},
                                         {"--shared-experts", "1"},
                                         {"--balance", "bias"},
                                         {"--capacity-factor", "1.25"}}) {
    EXPECT_THAT(unlike_published({{flag, value}}), HasSubstr(flag)) << value;
  }
  EXPECT_THAT(unlike_published({{"--router", "sigmoid"}, {"--balance", "bias"}}),
              AllOf(HasSubstr("--router sigmoid"), HasSubstr("; "), HasSubstr("--balance bias")));
}

TEST(TrainedMixture, ANumberThatIsNoneIsDamage) {
  EXPECT_THAT(message_of<FileError>([] {
                unlike_published({{"--experts", "many"}});
              }),
              AllOf(HasSubstr("training.json"), HasSubstr("'many'")));
}

// What the record of a long training costs in memory.

/// The most memory that this process has had at once since forget_peak(), in bytes.
std::size_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    std::size_t kilobytes = 0;
    status >> kilobytes;
    return 1024 * kilobytes;
  }
  throw std::runtime_error("the system does not say how much memory a process has had");
}

void forget_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
}

/// Text of some 80 bytes per step: at most twice that while it grows, and no tree beside it.
TEST(RecordMemory, TakesLittleMoreThanItsText) {
  if (test::sanitizer_owns_the_heap()) GTEST_SKIP() << "the sanitizer has memory of its own";
  constexpr std::size_t kSteps = 50'000;
  TrainingRecord record;
  for (std::size_t step = 1; step <= kSteps; ++step) {
    record.steps.push_back({step, 1.0 / static_cast<double>(step), 1.5, 1e-3 / 3, 1e5 / 7});
  }
  forget_peak();
  const std::size_t before = peak_bytes();
  EXPECT_GT(to_json(record).size(), 40 * kSteps);
  EXPECT_LT(peak_bytes() - before, 160 * kSteps);
}

}  // namespace
}  // namespace ultra::zero
