// Covers: chapters/01_memory/memory_options.hpp, chapters/01_memory/recompute_mode.hpp

#include "chapters/01_memory/memory_options.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::memory {
namespace {

/// Both option sets of the executable.
struct Flags {
  train::TrainOptions train;
  MemoryOptions memory;

  explicit Flags(const ultra::test::Words& words) { ultra::test::parse_into(words, train, memory); }
  explicit Flags(const std::string& line) : Flags(ultra::test::words_of(line)) {}
};

/// A ConfigError while parsing, checking or asking for an estimate.
void expect_refused(const std::vector<ultra::test::Refusal>& rows) {
  const auto read = [](const ultra::test::Words& words) {
    const Flags flags(words);
    flags.memory.validate();
    static_cast<void>(flags.memory.request(flags.train));
  };
  ultra::test::expect_refused<ConfigError>(read, rows);
}

TEST(MemoryOptions, NoFlagsTrainWithoutRecomputation) {
  const Flags flags("");
  EXPECT_NO_THROW(flags.memory.validate());
  EXPECT_FALSE(flags.memory.estimates());
  EXPECT_EQ(flags.memory.recompute, RecomputeConfig{});
  EXPECT_EQ(flags.memory.config(),
            (train::ExtraConfig{{"recompute", "none"}, {"recompute_every", std::size_t{1}}}));
}

TEST(MemoryOptions, RecomputationReachesTheMetrics) {
  const Flags flags("--recompute full --recompute-every 3");
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
  const Flags flags(
      "--estimate llama-8b --seq 4096 --micro-batch 2 --precision bf16-mixed-fp32grads "
      "--recompute selective --json");
  EXPECT_NO_THROW(flags.memory.validate());
  ASSERT_TRUE(flags.memory.estimates());
  const EstimateRequest request = flags.memory.request(flags.train);
  EXPECT_EQ(request.shape.name, "llama-8b");
  EXPECT_EQ(request.batch, (BatchShape{.size = 2, .seq_len = 4096}));
  EXPECT_EQ(request.precision, NumberFormats::kBf16MixedFp32Grads);
  EXPECT_EQ(request.recompute.mode, Recompute::kSelective);
  EXPECT_TRUE(flags.memory.json);
  const MemoryEstimate estimate = estimate_memory(request);
  EXPECT_EQ(flags.memory.answer(flags.train), estimate_to_json(estimate).dump(2) + "\n");
  const Flags as_table("--estimate llama-8b");
  EXPECT_EQ(as_table.memory.answer(as_table.train),
            format_estimate(estimate_memory(as_table.memory.request(as_table.train))));
}

TEST(MemoryOptions, CustomIsTheModelOfTheFlags) {
  const Flags flags("--estimate custom --layers 3 --hidden 64 --heads 8 --kv-heads 4 --ffn 99");
  const TransformerShape shape = flags.memory.request(flags.train).shape;
  EXPECT_EQ(shape.num_layers, 3U);
  EXPECT_EQ(shape.hidden_size, 64U);
  EXPECT_EQ(shape.num_heads, 8U);
  EXPECT_EQ(shape.num_kv_heads, 4U);
  EXPECT_EQ(shape.ffn_hidden_size, 99U);
}

TEST(MemoryOptions, RefuseWhatCannotWork) {
  expect_refused(
      {{"--recompute some", {"--recompute 'some'", "none, selective or full"}},
       {"--estimate llama-8b --precision int8", {"--precision 'int8'", "fp32", "bf16-mixed"}},
       {"--estimate llama-9b", {"'llama-9b'", "llama-7b", "gpt3-175b", "custom"}},
       {"--recompute-every 2",
        {"--recompute-every 2", "needs --recompute full", "found --recompute none"}},
       {"--recompute full --recompute-every 0", {"--recompute-every is 0", "from 1 to"}},
       {"--json", {"--json needs --estimate", "--metrics"}},
       {"--precision fp32", {"--precision needs --estimate", "--dtype"}}});
  ultra::test::expect_refused<ConfigError>(
      [](const ultra::test::Words& words) { static_cast<void>(Flags(words)); },
      {{"--recompute-every -1", {"--recompute-every is -1"}}});
}

}  // namespace
}  // namespace ultra::memory
