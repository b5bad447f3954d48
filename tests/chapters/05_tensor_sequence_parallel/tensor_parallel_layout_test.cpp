#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"

#include <variant>

#include "chapters/05_tensor_sequence_parallel/options/tensor_parallel_options.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

constexpr auto kOn = SequenceParallel::kOn;

class Layout : public ultra::test::RandomTest {
 protected:
  static std::string refused(const TensorParallelLayout& layout, const nn::ModelConfig& model) {
    return ultra::test::message_of<ConfigError>([&] { layout.validate(model); });
  }

  nn::ModelConfig model = {.hidden_size = 48,
                           .num_heads = 12,
                           .num_kv_heads = 4,
                           .ffn_hidden_size = 60,
                           .max_seq_len = 24};
};

TEST_F(Layout, WhatDividesIsAllowed) {
  for (const int tp : {1, 2, 4, 12}) {
    EXPECT_NO_THROW((TensorParallelLayout{.tp = tp}.validate(model))) << tp;
    EXPECT_NO_THROW((TensorParallelLayout{.tp = tp, .sequence_parallel = kOn}.validate(model)));
  }
}

TEST_F(Layout, RefusalsNameTheEquationAndTheFlag) {
  EXPECT_THAT(refused({.tp = 0}, model), HasSubstr("--tp is 0"));
  EXPECT_THAT(refused({.tp = 24}, model),
              AllOf(HasSubstr("--tp 24 is more than --heads 12"), HasSubstr("at most 12")));
  EXPECT_THAT(refused({.tp = 5}, model),
              AllOf(HasSubstr("--tp must divide --heads"), HasSubstr("12 % 5 = 2")));
  model.ffn_hidden_size = 62;
  EXPECT_THAT(refused({.tp = 4}, model),
              AllOf(HasSubstr("--tp must divide --ffn"), HasSubstr("62 % 4 = 2")));
  model.ffn_hidden_size = 60;
  EXPECT_THAT(refused({.tp = 6}, model),
              AllOf(HasSubstr("--kv-heads"), HasSubstr("4 % 6 = 4"), HasSubstr("6 % 4 = 2")));
  model.max_seq_len = 22;
  EXPECT_THAT(refused({.tp = 4, .sequence_parallel = kOn}, model),
              AllOf(HasSubstr("--sp on"), HasSubstr("22 % 4 = 2"), HasSubstr("--seq")));
  EXPECT_NO_THROW((TensorParallelLayout{.tp = 4}.validate(model)));
}

TEST_F(Layout, AModelThatCannotBeIsRefusedAsSuch) {
  model.num_heads = 5;
  EXPECT_THAT(refused({.tp = 1}, model), HasSubstr("--heads must divide --hidden"));
}

TEST_F(Layout, PartsAddUpToTheWhole) {
  for (int round = 0; round < 20; ++round) {
    const std::size_t ranks = random.between(1, 9);
    const TensorParallelLayout layout{.tp = static_cast<int>(ranks), .sequence_parallel = kOn};
    const std::size_t heads = ranks * random.between(1, 5);
    EXPECT_EQ(layout.local_heads(heads) * ranks, heads);
    EXPECT_EQ(layout.local_seq_len(heads) * ranks, heads);
    const std::size_t vocabulary = random.between(1, 99);
    EXPECT_GE(layout.local_vocab_size(vocabulary) * ranks, vocabulary);
    EXPECT_LT(layout.local_vocab_size(vocabulary) * ranks, vocabulary + ranks);
    const std::size_t kv_heads = random.pick<std::size_t>({1, ranks, 2 * ranks});
    EXPECT_EQ(layout.local_kv_heads(kv_heads) * ranks, kv_heads * layout.kv_copies(kv_heads));
  }
}

TEST_F(Layout, OneRankSplitsNothing) {
  const TensorParallelLayout one{.tp = 1, .sequence_parallel = kOn};
  EXPECT_FALSE(one.splits_sequences());
  EXPECT_EQ(one.local_seq_len(7), 7U);
  EXPECT_EQ(one.local_vocab_size(7), 7U);
  EXPECT_EQ(one.kv_copies(3), 1U);
}

TensorParallelOptions parse(const std::string& line) {
  return ultra::test::options_of<TensorParallelOptions>(line);
}

TEST(TensorParallelOptions, SplitNothingByDefault) {
  const TensorParallelOptions options = parse("");
  EXPECT_NO_THROW(options.validate());
  EXPECT_FALSE(options.splits());
  EXPECT_EQ(options.layout(), TensorParallelLayout());
}

TEST(TensorParallelOptions, ReadTheirFlags) {
  const TensorParallelOptions options = parse("--tp 4 --sp on --tp-overlap ring --shapes json");
  EXPECT_NO_THROW(options.validate());
  EXPECT_TRUE(options.splits());
  EXPECT_EQ(options.layout(),
            (TensorParallelLayout{.tp = 4, .sequence_parallel = SequenceParallel::kOn}));
  EXPECT_EQ(options.overlap, TensorOverlap::kRing);
  EXPECT_EQ(options.shapes, Shapes::kJson);
}

TEST(TensorParallelOptions, OverlapsHaveTheNamesOfTheFlag) {
  EXPECT_EQ(to_string(parse("").overlap), "backward");
  for (const std::string name : {"none", "backward", "ring"}) {
    EXPECT_EQ(to_string(parse("--tp-overlap " + name).overlap), name);
  }
}

TEST(TensorParallelOptions, GoIntoTheMetricsFile) {
  const train::ExtraConfig config = parse("--tp 2 --sp on").config();
  EXPECT_EQ(std::get<std::size_t>(config.at(0).second), 2U);
  EXPECT_EQ(std::get<std::string>(config.at(1).second), "on");
  EXPECT_EQ(std::get<std::string>(config.at(2).second), "backward");
}

TEST(TensorParallelOptions, RefusalsSayWhatDoesNotFit) {
  ultra::test::expect_refused<TensorParallelOptions>(
      {{"--tp 0", {"--tp is 0"}},
       {"--tp 4097", {"--tp is 4097", "to 4096"}},
       {"--sp on", {"--sp on has no meaning without --tp"}},
       {"--tp-overlap none", {"--tp-overlap has no meaning"}},
       {"--tp 2 --tp-overlap ring", {"--tp-overlap ring needs --sp on"}}});
}

}  // namespace
}  // namespace ultra::tensor_parallel
