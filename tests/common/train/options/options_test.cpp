#include "common/train/options/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TrainOptions parse(const std::vector<std::string>& arguments) {
  return test::parsed<TrainOptions>(arguments);
}

std::string parse_error(const std::vector<std::string>& arguments) {
  return test::message_of<CLI::ParseError>([&] { static_cast<void>(parse(arguments)); });
}

TEST(TrainOptions, EveryFlagReachesItsValue) {
  const TrainOptions o = parse({"--layers",
                                "3",
                                "--hidden",
                                "96",
                                "--heads",
                                "6",
                                "--kv-heads",
                                "3",
                                "--ffn",
                                "111",
                                "--seq",
                                "33",
                                "--global-batch",
                                "12",
                                "--micro-batch",
                                "6",
                                "--steps",
                                "77",
                                "--lr",
                                "0.25",
                                "--warmup",
                                "9",
                                "--clip",
                                "0.5",
                                "--seed",
                                "18446744073709551615",
                                "--dtype",
                                "f64",
                                "--device",
                                "cpu",
                                "--device-memory",
                                "64MB",
                                "--data",
                                "text",
                                "--metrics",
                                "m",
                                "--trace",
                                "t",
                                "--trace-steps",
                                "8"});
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
  EXPECT_FALSE(o.print_ranks);
  EXPECT_NO_THROW(o.validate());
}

TEST(TrainOptions, NoFlagsAreTheDefaultRun) {
  const TrainOptions o = parse({});
  EXPECT_EQ(o.dtype, DType::kF32);
  EXPECT_EQ(o.device, DeviceKind::kCpu);
  EXPECT_EQ(o.device_memory, std::nullopt) << "all there is";
  EXPECT_TRUE(o.data.empty() && o.metrics.empty() && o.trace.empty());
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
}

TEST(TrainOptions, HelpNamesEveryFlagWithItsDefault) {
  TrainOptions options;
  const std::string help = test::help_of([&](CLI::App& app) { options.add_to(app); });
  for (const char* flag :
       {"--layers",        "--hidden",       "--heads",       "--kv-heads", "--ffn",
        "--seq",           "--global-batch", "--micro-batch", "--steps",    "--lr",
        "--warmup",        "--clip",         "--seed",        "--dtype",    "--device",
        "--device-memory", "--data",         "--metrics",     "--trace",    "--trace-steps"}) {
    EXPECT_THAT(help, HasSubstr(flag));
  }
  EXPECT_THAT(help, HasSubstr("f32"));
}

const char* const kCounts[] = {"--layers", "--hidden", "--heads",        "--kv-heads",
                               "--ffn",    "--seq",    "--global-batch", "--micro-batch",
                               "--steps",  "--warmup", "--seed",         "--trace-steps"};

TEST(TrainOptions, CountsAreWholeNumbers) {
  for (const std::string flag : kCounts) {
    for (const std::string value : {"-1", "-18446744073709551615", "1.5", "1e3", "many", "",
                                    "18446744073709551616", "0x10", "7 "}) {
      EXPECT_THAT(parse_error({flag + "=" + value}), HasSubstr(flag)) << flag << " " << value;
    }
    EXPECT_THAT(parse_error({flag, "-3"}), AllOf(HasSubstr("'-3'"), HasSubstr("whole number")));
  }
}

TEST(TrainOptions, RatesAreNumbers) {
  for (const std::string flag : {"--lr", "--clip"}) {
    EXPECT_THAT(parse_error({flag, "high"}), AllOf(HasSubstr(flag), HasSubstr("high")));
  }
}

TEST(TrainOptions, UnknownTypesAndDevicesListTheKnown) {
  EXPECT_THAT(test::message_of<ConfigError>([] {
                parse({"--dtype", "bf16"});
              }),
              AllOf(HasSubstr("dtype 'bf16'"), HasSubstr("f32 or f64")));
  EXPECT_THAT(test::message_of<ConfigError>([] {
                parse({"--device", "tpu"});
              }),
              AllOf(HasSubstr("device 'tpu'"), HasSubstr("cpu or cuda")));
}

TEST(TrainOptions, DeviceMemoryIsASizeInBytes) {
  const auto bytes = [](const std::string& text) {
    return parse({"--device-memory", text}).device_memory;
  };
  EXPECT_EQ(bytes("64MB"), 64'000'000U);
  EXPECT_EQ(bytes("1.5GiB"), 1'610'612'736U);
  EXPECT_EQ(bytes("4096"), 4096U);
  EXPECT_EQ(bytes("0"), 0U) << "not the same as no limit";
  for (const std::string text : {"lots", "64 apples", "-1MB", "nan"}) {
    EXPECT_THAT(test::message_of<ConfigError>([&] { parse({"--device-memory=" + text}); }),
                AllOf(HasSubstr("--device-memory: '" + text + "' is not a size"),
                      HasSubstr("64MB, 1.5GiB or 4096")));
  }
}

/// The message of validate() after one change to the default options.
std::string refusal(const std::function<void(TrainOptions&)>& change) {
  TrainOptions options;
  change(options);
  return test::message_of<ConfigError>([&] { options.validate(); });
}

TEST(TrainOptionsValidate, EveryCountIsAtLeastOne) {
  const std::string hint = "is 0. It must be at least 1";
  const auto names_flag = [&](const std::string& flag) { return HasSubstr(flag + " " + hint); };
  EXPECT_THAT(refusal([](auto& o) { o.model.num_layers = 0; }), names_flag("--layers"));
  EXPECT_THAT(refusal([](auto& o) { o.model.hidden_size = 0; }), names_flag("--hidden"));
  EXPECT_THAT(refusal([](auto& o) { o.model.num_heads = 0; }), names_flag("--heads"));
  EXPECT_THAT(refusal([](auto& o) { o.model.num_kv_heads = 0; }), names_flag("--kv-heads"));
  EXPECT_THAT(refusal([](auto& o) { o.model.ffn_hidden_size = 0; }), names_flag("--ffn"));
  EXPECT_THAT(refusal([](auto& o) { o.model.max_seq_len = 0; }), names_flag("--seq"));
  EXPECT_THAT(refusal([](auto& o) { o.global_batch = 0; }), names_flag("--global-batch"));
  EXPECT_THAT(refusal([](auto& o) { o.micro_batch = 0; }), names_flag("--micro-batch"));
  EXPECT_THAT(refusal([](auto& o) { o.steps = 0; }), names_flag("--steps"));
}

TEST(TrainOptionsValidate, DivisionsHoldAndTheEquationIsShown) {
  EXPECT_THAT(refusal([](auto& o) { o.model.num_heads = 3; }),
              AllOf(HasSubstr("--heads must divide --hidden"), HasSubstr("128 % 3 = 2")));
  EXPECT_THAT(refusal([](auto& o) { o.model.num_kv_heads = 3; }),
              AllOf(HasSubstr("--kv-heads must divide --heads"), HasSubstr("4 % 3 = 1")));
  EXPECT_THAT(refusal([](auto& o) { o.model.hidden_size = 12; }), HasSubstr("12 / 4 = 3"))
      << "rotary positions turn pairs";
  EXPECT_THAT(refusal([](auto& o) { o.micro_batch = 5; }),
              AllOf(HasSubstr("--micro-batch must divide --global-batch"), HasSubstr("16 % 5 = 1"),
                    HasSubstr("Choose a divisor of 16")));
  EXPECT_THAT(refusal([](auto& o) { o.micro_batch = 32; }), HasSubstr("16 % 32 = 16"));
}

TEST(TrainOptionsValidate, RatesAreFiniteAndNotNegative) {
  for (const double value :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(refusal([&](auto& o) { o.learning_rate = value; }),
                AllOf(HasSubstr("--lr is "), HasSubstr("at least 0")));
    EXPECT_THAT(refusal([&](auto& o) { o.clip_norm = value; }),
                AllOf(HasSubstr("--clip is "), HasSubstr("at least 0")));
  }
  TrainOptions zero;
  zero.learning_rate = 0.0;
  zero.clip_norm = 0.0;
  EXPECT_NO_THROW(zero.validate()) << "no learning and no clipping are choices";
}

TEST(TrainOptionsValidate, SizesThatOverflowAreRefused) {
  constexpr std::size_t kLargest = std::numeric_limits<std::size_t>::max();
  const auto hint = AllOf(HasSubstr("10 TB"), HasSubstr("Choose smaller"));
  EXPECT_THAT(refusal([](auto& o) { o.model.num_layers = kLargest; }), hint);
  EXPECT_THAT(refusal([](auto& o) { o.model.hidden_size = kLargest / 8 * 8; }), hint);
  EXPECT_THAT(refusal([](auto& o) { o.model.ffn_hidden_size = kLargest; }), hint);
  EXPECT_THAT(refusal([](auto& o) { o.model.max_seq_len = kLargest; }), hint);
  EXPECT_THAT(refusal([](auto& o) { o.global_batch = kLargest / 4 * 4; }), hint);
  EXPECT_THAT(refusal([](auto& o) { o.global_batch = o.micro_batch = kLargest; }), hint);
}

TEST(TrainOptionsValidate, NoFileIsReadAndWrittenOrWrittenTwice) {
  EXPECT_THAT(refusal([](auto& o) { o.metrics = o.trace = "same"; }),
              AllOf(HasSubstr("--metrics and --trace"), HasSubstr("'same'")));
  EXPECT_THAT(refusal([](auto& o) { o.data = o.metrics = "same"; }),
              AllOf(HasSubstr("--data and --metrics"), HasSubstr("'same'")));
  EXPECT_THAT(refusal([](auto& o) { o.data = o.trace = "same"; }),
              AllOf(HasSubstr("--data and --trace"), HasSubstr("a file of its own")));
}

}  // namespace
}  // namespace ultra::train
