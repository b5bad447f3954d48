// Covers: chapters/01_memory/memory_options.hpp, chapters/01_memory/recompute_mode.hpp

#include "chapters/01_memory/memory_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Both option sets of the executable.
struct Flags {
  train::TrainOptions train;
  MemoryOptions memory;

  explicit Flags(const std::vector<std::string>& arguments) {
    ultra::test::parse_into(arguments, train, memory);
  }
};

/// The message of a ConfigError while parsing, checking or asking for an estimate.
std::string refusal(const std::vector<std::string>& arguments) {
  return ultra::test::message_of<ConfigError>([&] {
    const Flags flags(arguments);
    flags.memory.validate();
    static_cast<void>(flags.memory.request(flags.train));
  });
}

TEST(MemoryOptions, NoFlagsTrainWithoutRecomputation) {
  const Flags flags({});
  EXPECT_NO_THROW(flags.memory.validate());
  EXPECT_FALSE(flags.memory.estimates());
  EXPECT_EQ(flags.memory.recompute, RecomputeConfig{});
  EXPECT_EQ(flags.memory.config(),
            (train::ExtraConfig{{"recompute", "none"}, {"recompute_every", std::size_t{1}}}));
}

TEST(MemoryOptions, RecomputationReachesTheMetrics) {
  const Flags flags({"--recompute", "full", "--recompute-every", "3"});
  EXPECT_NO_THROW(flags.memory.validate());
  EXPECT_EQ(flags.memory.recompute,
            (RecomputeConfig{.mode = Recompute::kFull, .recompute_every = 3}));
  EXPECT_EQ(flags.memory.config(),
            (train::ExtraConfig{{"recompute", "full"}, {"recompute_every", std::size_t{3}}}));
}

TEST(MemoryOptions, ModesAreReadAsTheyAreWritten) {
  for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    EXPECT_EQ(parse_recompute(std::string(to_string(mode))), mode);
  }
}

TEST(MemoryOptions, AnEstimateTakesTheTrainersFlags) {
  const Flags flags({"--estimate", "llama-8b", "--seq", "4096", "--micro-batch", "2", "--precision",
                     "bf16-mixed-fp32grads", "--recompute", "selective", "--json"});
  EXPECT_NO_THROW(flags.memory.validate());
  ASSERT_TRUE(flags.memory.estimates());
  const EstimateRequest request = flags.memory.request(flags.train);
  EXPECT_EQ(request.shape.name, "llama-8b");
  EXPECT_EQ(request.batch, (MicroBatch{.size = 2, .seq_len = 4096}));
  EXPECT_EQ(request.precision, Precision::kBf16MixedFp32Grads);
  EXPECT_EQ(request.recompute.mode, Recompute::kSelective);
  EXPECT_TRUE(flags.memory.json);
  const MemoryEstimate estimate = estimate_memory(request);
  EXPECT_EQ(flags.memory.answer(flags.train), estimate_to_json(estimate).dump(2) + "\n");
  const Flags as_table({"--estimate", "llama-8b"});
  EXPECT_EQ(as_table.memory.answer(as_table.train),
            format_estimate(estimate_memory(as_table.memory.request(as_table.train))));
}

TEST(MemoryOptions, CustomIsTheModelOfTheFlags) {
  const Flags flags({"--estimate", "custom", "--layers", "3", "--hidden", "64", "--heads", "8",
                     "--kv-heads", "4", "--ffn", "99"});
  const TransformerShape shape = flags.memory.request(flags.train).shape;
  EXPECT_EQ(shape.num_layers, 3U);
  EXPECT_EQ(shape.hidden_size, 64U);
  EXPECT_EQ(shape.num_heads, 8U);
  EXPECT_EQ(shape.num_kv_heads, 4U);
  EXPECT_EQ(shape.ffn_hidden_size, 99U);
}

TEST(MemoryOptionsRefuse, ModesThatDoNotExist) {
  EXPECT_THAT(refusal({"--recompute", "some"}),
              AllOf(HasSubstr("--recompute 'some'"), HasSubstr("none, selective or full")));
  EXPECT_THAT(refusal({"--estimate", "llama-8b", "--precision", "int8"}),
              AllOf(HasSubstr("--precision 'int8'"), HasSubstr("fp32"), HasSubstr("bf16-mixed")));
}

TEST(MemoryOptionsRefuse, GroupsWithoutFullRecomputation) {
  EXPECT_THAT(refusal({"--recompute-every", "2"}),
              AllOf(HasSubstr("--recompute-every 2"), HasSubstr("needs --recompute full"),
                    HasSubstr("found --recompute none")));
  EXPECT_THAT(refusal({"--recompute", "full", "--recompute-every", "0"}),
              AllOf(HasSubstr("--recompute-every is 0"), HasSubstr("at least 1")));
  EXPECT_THAT(ultra::test::message_of<CLI::ParseError>([] {
                Flags({"--recompute-every", "-1"});
              }),
              AllOf(HasSubstr("--recompute-every"), HasSubstr("'-1'")));
}

TEST(MemoryOptionsRefuse, FlagsOfTheEstimateInATraining) {
  EXPECT_THAT(refusal({"--json"}),
              AllOf(HasSubstr("--json needs --estimate"), HasSubstr("--metrics")));
  EXPECT_THAT(refusal({"--precision", "fp32"}),
              AllOf(HasSubstr("--precision needs --estimate"), HasSubstr("--dtype")));
}

TEST(MemoryOptionsRefuse, UnknownModelsAndListTheKnown) {
  EXPECT_THAT(refusal({"--estimate", "llama-9b"}),
              AllOf(HasSubstr("'llama-9b'"), HasSubstr("llama-7b"), HasSubstr("gpt3-175b"),
                    HasSubstr("custom")));
}

}  // namespace
}  // namespace ultra::memory
