#include "common/train/options/options.hpp"

#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::train {
namespace {

using test::Words;

TrainOptions parse_training(const std::string& line) {
  return test::options_of<TrainOptions>(line);
}

const auto kParse = [](const Words& words) {
  static_cast<void>(test::parsed<TrainOptions>(words));
};

TEST(TrainOptions, EveryFlagReachesItsValue) {
  const TrainOptions o = parse_training(
      "--layers 3 --hidden 96 --heads 6 --kv-heads 3 --ffn 111 --seq 33 --global-batch 12 "
      "--micro-batch 6 --steps 77 --lr 0.25 --warmup 9 --clip 0.5 --seed 18446744073709551615 "
      "--dtype f64 --device cpu --device-memory 64MB --data text --metrics m --trace t "
      "--trace-steps 8 --vocab 50257 --tied-embeddings --init folder --tokens u16 --val-data other "
      "--val-every 5 --val-batches 7 --decay 4 --head-dim 18 --qk-norm --window 5 --mtp "
      "--mtp-weight 0.5 "
      "--head-z-loss 0.25");
  EXPECT_EQ(o.model.num_layers, 3U);
  EXPECT_EQ(o.model.hidden_size, 96U);
  EXPECT_EQ(o.model.num_heads, 6U);
  EXPECT_EQ(o.model.num_kv_heads, 3U);
  EXPECT_EQ(o.model.ffn_hidden_size, 111U);
  EXPECT_EQ(o.model.max_seq_len, 33U);
  EXPECT_EQ(o.global_batch, 12U);
  EXPECT_EQ(o.micro_batch, 6U);
  EXPECT_EQ(o.steps, 77U);
  EXPECT_EQ(o.learning_rate, 0.25);
  EXPECT_EQ(o.warmup, 9U);
  EXPECT_EQ(o.clip_norm, 0.5);
  EXPECT_EQ(o.seed, std::numeric_limits<std::uint64_t>::max()) << "every 64-bit seed is a seed";
  EXPECT_EQ(o.dtype, DType::kF64);
  EXPECT_EQ(o.device, DeviceKind::kCpu);
  EXPECT_EQ(o.device_memory, 64'000'000U);
  EXPECT_EQ(o.data, "text");
  EXPECT_EQ(o.metrics, "m");
  EXPECT_EQ(o.trace, "t");
  EXPECT_EQ(o.trace_steps, 8U);
  EXPECT_EQ(o.model.vocab_size, 50257U);
  EXPECT_TRUE(o.model.tied_embeddings);
  EXPECT_EQ(o.init, "folder");
  EXPECT_EQ(o.tokens, data::TokenFormat::kU16);
  EXPECT_EQ(o.val_data, "other");
  EXPECT_EQ(o.val_every, 5U);
  EXPECT_EQ(o.val_batches, 7U);
  EXPECT_EQ(o.decay, 4U);
  EXPECT_EQ(o.model.head_dim(), 18U);
  EXPECT_TRUE(o.model.qk_norm);
  EXPECT_EQ(o.model.sliding_window, 5U);
  EXPECT_TRUE(o.model.mtp);
  EXPECT_EQ(o.mtp_weight, 0.5);
  EXPECT_EQ(o.head_z_loss, 0.25);
  EXPECT_TRUE(parse_training("--qkv-bias").model.qkv_bias);
  EXPECT_EQ(parse_training("--head-chunks 3").model.head_chunks, 3U);
  EXPECT_EQ(o.given_model_flags,
            (std::vector<std::string>{"--layers", "--hidden", "--heads", "--kv-heads", "--ffn",
                                      "--seq", "--vocab", "--tied-embeddings", "--head-dim",
                                      "--qk-norm", "--window", "--mtp"}));
  EXPECT_EQ(o.data_file().path + o.val_file().path, "textother");
  EXPECT_EQ(o.val_file().vocab_size, 50257U);
  EXPECT_FALSE(o.print_ranks);
  EXPECT_NO_THROW(o.validate());
}

TEST(TrainOptions, LatentAttentionHasWidthsOfItsOwn) {
  TrainOptions o = parse_training(
      "--heads 6 --attention mla --kv-lora-rank 10 --q-lora-rank 0 --qk-nope-head-dim 8 "
      "--qk-rope-head-dim 4 --v-head-dim 7");
  const nn::LatentAttention expected{.on = true,
                                     .kv_lora_rank = 10,
                                     .q_lora_rank = 0,
                                     .qk_nope_head_dim = 8,
                                     .qk_rope_head_dim = 4,
                                     .v_head_dim = 7};
  EXPECT_EQ(o.model.latent, expected);
  EXPECT_EQ(o.model.norm_epsilon, 1e-6) << "as DeepSeek-V3 has it";
  o.settle_heads();
  EXPECT_EQ(o.model.num_kv_heads, 6U) << "a key and a value for each head";
  EXPECT_NO_THROW(o.validate());
  EXPECT_TRUE(parse_training("--attention mla-absorbed").model.latent.absorbed);
  EXPECT_FALSE(parse_training("--attention gqa").model.latent.on);
}

TEST(TrainOptions, WidthsOfLatentsWithoutLatentsAreRefused) {
  test::expect_refused<ConfigError>(kParse, {{"--attention mqa", {"'mqa'", "mla-absorbed"}}});
  for (const char* flag : {"--kv-lora-rank", "--q-lora-rank", "--qk-nope-head-dim",
                           "--qk-rope-head-dim", "--v-head-dim"}) {
    TrainOptions o = parse_training(std::string(flag) + " 8");
    test::expect_parts(test::message_of<ConfigError>([&] { o.settle_heads(); }),
                       {flag, "no meaning without --attention mla"});
  }
  TrainOptions o = parse_training("--attention mla --kv-heads 2");
  o.settle_heads();
  test::expect_parts(test::message_of<ConfigError>([&] { o.validate(); }),
                     {"--kv-heads is 2", "Leave --kv-heads out"});
}

TEST(TrainOptions, NoFlagsAreTheDefaultRun) {
  const TrainOptions o = parse_training("");
  EXPECT_EQ(o.dtype, DType::kF32);
  EXPECT_EQ(o.device, DeviceKind::kCpu);
  EXPECT_EQ(o.device_memory, std::nullopt) << "all there is";
  EXPECT_TRUE(o.data.empty() && o.metrics.empty() && o.trace.empty());
  EXPECT_TRUE(o.init.empty() && o.val_data.empty() && o.given_model_flags.empty());
  EXPECT_EQ(o.tokens, data::TokenFormat::kBytes);
  EXPECT_FALSE(o.model.tied_embeddings || o.model.mtp);
  EXPECT_EQ(o.mtp_weight, 0.3) << "DeepSeek-V3's, for most of its training";
  EXPECT_EQ(o.head_z_loss, 0.0);
  EXPECT_FALSE(o.validates_after(o.steps)) << "there is no text to validate on";
  EXPECT_EQ(o.trace_steps, 4U) << "the memory timeline shows four steps";
  EXPECT_NO_THROW(o.validate());
}

TEST(TrainOptions, ScheduleWarmsUpToTheHighestRateAndFalls) {
  TrainOptions o;
  o.learning_rate = 0.25;
  o.warmup = 10;
  o.steps = 40;
  EXPECT_DOUBLE_EQ(o.schedule().at(10), 0.25);
  EXPECT_LT(o.schedule().at(1), 0.25);
  EXPECT_DOUBLE_EQ(o.schedule().at(40), 0.25 * o.schedule().final_fraction);
  o.decay = 5;
  EXPECT_EQ(o.schedule().at(35), 0.25);
  EXPECT_DOUBLE_EQ(o.schedule().at(40), 0.25 * o.schedule().final_fraction);
}

TEST(TrainOptions, OtherValuesAreRefused) {
  test::expect_refused<ConfigError>(kParse,
                                    {{"--lr high", {"--lr is 'high'"}},
                                     {"--clip high", {"--clip is 'high'"}},
                                     {"--dtype bf16", {"--dtype 'bf16'", "f32 or f64"}},
                                     {"--device tpu", {"--device 'tpu'", "cpu, cuda or emulated"}},
                                     {"--matmul blas", {"--matmul is 'blas'", "vendor or ours"}},
                                     {"--tokens i64", {"--tokens is 'i64'", "u16 or u32"}}});
}

TEST(TrainOptions, OnlyAGpuHasAChoiceOfMatrixProducts) {
  EXPECT_NO_THROW(parse_training("--matmul ours --device emulated").validate());
  EXPECT_NO_THROW(parse_training("--matmul vendor --device cuda").validate());
  for (const std::string flags :
       {"--matmul vendor", "--matmul ours --device cpu", "--matmul vendor --device emulated"}) {
    const std::string message =
        test::message_of<ConfigError>([&] { parse_training(flags).validate(); });
    test::expect_parts(message, {"--matmul ", "--device cuda", "leave --matmul out"});
  }
}

TEST(TrainOptions, NumbersHaveLimits) {
  test::expect_refused<ConfigError>(
      kParse, {{"--global-batch 0", {"--global-batch is 0", "at least 1"}},
               {"--micro-batch 0", {"--micro-batch is 0", "at least 1"}},
               {"--val-every 0", {"--val-every is 0", "at least 1"}},
               {"--val-batches 0", {"--val-batches is 0", "at least 1"}},
               {"--steps 0", {"--steps is 0", "from 1 to 1000000000"}},
               {"--steps 18446744073709551615", {"--steps is 18446744073709551615"}},
               {"--warmup 1000000001", {"--warmup is 1000000001", "from 0 to 1000000000"}},
               {"--trace-steps 18446744073709551615", {"--trace-steps is "}}});
  for (const char* value : {"-1", "nan", "inf", "1e300", "''", "0x10"}) {
    test::expect_refused<ConfigError>(kParse, {{std::string("--lr ") + value, {"--lr is "}},
                                               {std::string("--clip ") + value, {"--clip is "}}});
  }
  const TrainOptions none = parse_training("--lr 0 --clip 0");
  EXPECT_EQ(none.learning_rate, 0.0) << "no learning and no clipping are choices";
  EXPECT_EQ(none.clip_norm, 0.0);
}

TEST(TrainOptions, NameTheirFiles) {
  const auto files = parse_training("--data d --metrics m --trace t").files();
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].flag + files[1].flag + files[2].flag, "--data--metrics--trace");
  EXPECT_EQ(files[0].path + files[1].path + files[2].path, "dmt");
  EXPECT_EQ(files[0].use, FileUse::kRead);
  EXPECT_EQ(files[1].use, FileUse::kWritten);
  EXPECT_EQ(files[2].use, FileUse::kWritten);
  const auto more = parse_training("--init i --mask m --val-data v").files();
  ASSERT_EQ(more.size(), 3U);
  EXPECT_EQ(more[0].flag + more[1].flag + more[2].flag, "--init--mask--val-data");
  EXPECT_EQ(more[0].path + more[1].path + more[2].path, "imv");
  for (const FileFlag& file : more) EXPECT_EQ(file.use, FileUse::kRead);
  EXPECT_TRUE(parse_training("").files().empty());
}

TEST(TrainOptions, DeviceMemoryIsASizeInBytes) {
  EXPECT_EQ(parse_training("--device-memory 64MB").device_memory, 64'000'000U);
  EXPECT_EQ(parse_training("--device-memory 1.5GiB").device_memory, 1'610'612'736U);
  EXPECT_EQ(parse_training("--device-memory 4096").device_memory, 4096U);
  EXPECT_EQ(parse_training("--device-memory 0").device_memory, 0U) << "not the same as no limit";
  for (const std::string text : {"lots", "64 apples", "-1MB", "nan", "0x10", " 1"}) {
    const auto assign = [&] { kParse({"--device-memory=" + text}); };
    test::expect_parts(test::message_of<ConfigError>(assign),
                       {"--device-memory: '" + text + "' is not a size", "64MB, 1.5GiB or 4096"});
  }
}

/// The message of validate() after one change to the default options.
std::string refusal(const std::function<void(TrainOptions&)>& change) {
  TrainOptions options;
  change(options);
  return test::message_of<ConfigError>([&] { options.validate(); });
}

/// A change, and what the message of validate() has in it then.
struct Refused {
  std::function<void(TrainOptions&)> change;
  Words parts;
};

void expect_refusals(const std::vector<Refused>& rows) {
  for (const auto& [change, parts] : rows) test::expect_parts(refusal(change), parts);
}

TEST(TrainOptionsValidate, EveryExtentIsAtLeastOne) {
  const std::string hint = " is 0. It must be at least 1";
  expect_refusals({{[](auto& o) { o.model.vocab_size = 0; }, {"--vocab" + hint}},
                   {[](auto& o) { o.model.num_layers = 0; }, {"--layers" + hint}},
                   {[](auto& o) { o.model.hidden_size = 0; }, {"--hidden" + hint}},
                   {[](auto& o) { o.model.num_heads = 0; }, {"--heads" + hint}},
                   {[](auto& o) { o.model.num_kv_heads = 0; }, {"--kv-heads" + hint}},
                   {[](auto& o) { o.model.ffn_hidden_size = 0; }, {"--ffn" + hint}},
                   {[](auto& o) { o.model.max_seq_len = 0; }, {"--seq" + hint}}});
}

TEST(TrainOptionsValidate, DivisionsHoldAndTheEquationIsShown) {
  expect_refusals(
      {{[](auto& o) { o.model.num_heads = 3; }, {"--heads must divide --hidden", "128 % 3 = 2"}},
       {[](auto& o) { o.model.num_kv_heads = 3; }, {"--kv-heads must divide --heads", "4 % 3 = 1"}},
       {[](auto& o) { o.model.hidden_size = 12; }, {"12 / 4 = 3"}},  // rotary positions turn pairs
       {[](auto& o) { o.micro_batch = 5; },
        {"--micro-batch must divide --global-batch", "16 % 5 = 1", "Choose a divisor of 16"}},
       {[](auto& o) {
          o.steps = 20;
          o.decay = 6;
        },
        {"--warmup and --decay", "15 + 6 steps", "--steps is 20"}},
       {[](auto& o) { o.micro_batch = 32; }, {"16 % 32 = 16"}}});
}

TEST(TrainOptionsValidate, TokensAndValidationsNeedTheirText) {
  for (const char* line : {"--val-every 3", "--val-batches 3"}) {
    test::expect_parts(test::message_of<ConfigError>([&] { parse_training(line).validate(); }),
                       {std::string(line).substr(0, std::string(line).size() - 2),
                        "no meaning without --val-data"});
  }
  test::expect_parts(
      test::message_of<ConfigError>([] { parse_training("--tokens u16").validate(); }),
      {"--tokens", "Give --data FILE"});
  EXPECT_NO_THROW(parse_training("--tokens u32 --data d --val-data v --val-every 2").validate());
}

TEST(TrainOptionsValidate, AWeightNeedsItsLoss) {
  test::expect_parts(
      test::message_of<ConfigError>([] { parse_training("--mtp-weight 0.3").validate(); }),
      {"--mtp-weight has no meaning without --mtp", "Give both"});
  test::expect_parts(
      test::message_of<ConfigError>([] { parse_training("--mtp --mtp-weight 0").validate(); }),
      {"--mtp-weight is 0", "leave --mtp out"});
  test::expect_refused<ConfigError>(kParse, {{"--head-z-loss -1", {"--head-z-loss is -1"}},
                                             {"--mtp-weight -1", {"--mtp-weight is -1"}}});
}

TEST(TrainOptionsValidate, OnlyTheCpuHasAZLoss) {
  EXPECT_NO_THROW(parse_training("--head-z-loss 1e-4").validate());
  test::expect_parts(test::message_of<ConfigError>(
                         [] { parse_training("--head-z-loss 1e-4 --device emulated").validate(); }),
                     {"--head-z-loss is the CPU's alone", "Use --device cpu"});
  TrainOptions elsewhere = parse_training("--head-z-loss 1e-4");
  elsewhere.is_recorded = true;
  test::expect_parts(test::message_of<ConfigError>([&] { elsewhere.validate(); }), {"--on"});
}

TEST(TrainOptions, ValidationsFollowEveryNthStepAndTheLast) {
  const TrainOptions o = parse_training("--val-data v --val-every 4 --steps 10");
  const TrainOptions end = parse_training("--val-data v --steps 10");
  for (std::size_t step = 1; step <= 10; ++step) {
    EXPECT_EQ(o.validates_after(step), step == 4 || step == 8 || step == 10) << step;
    EXPECT_EQ(end.validates_after(step), step == 10) << step;
  }
}

// The second of 405 billion weights, whose states take 6.5 TB over all ranks.
TEST(TrainOptionsValidate, ModelsThatOthersTrainAreNotTooLarge) {
  for (const char* words :
       {"--layers 16 --hidden 2048 --heads 32 --kv-heads 8 --ffn 8192 --seq 4096 --vocab 128256 "
        "--micro-batch 4 --global-batch 4",
        "--layers 126 --hidden 16384 --heads 128 --kv-heads 8 --ffn 53248 --seq 8192 --vocab "
        "128256 "
        "--micro-batch 1 --global-batch 1024"}) {
    EXPECT_NO_THROW(parse_training(words).validate()) << words;
  }
}

TEST(TrainOptionsValidate, SizesThatOverflowAreRefused) {
  constexpr std::size_t kLargest = std::numeric_limits<std::size_t>::max();
  const Words parts = {"100 TB", "Choose smaller"};
  expect_refusals({{[](auto& o) { o.model.num_layers = kLargest; }, parts},
                   {[](auto& o) { o.model.hidden_size = kLargest / 8 * 8; }, parts},
                   {[](auto& o) { o.model.ffn_hidden_size = kLargest; }, parts},
                   {[](auto& o) { o.model.max_seq_len = kLargest; }, parts},
                   {[](auto& o) { o.global_batch = kLargest / 4 * 4; }, parts},
                   {[](auto& o) { o.global_batch = o.micro_batch = kLargest; }, parts}});
}

}  // namespace
}  // namespace ultra::train
