#include "chapters/05_tensor_sequence_parallel/tensor_parallel_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::tensor_parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

TensorParallelOptions parse(const Words& words) {
  return ultra::test::parsed<TensorParallelOptions>(words);
}

std::string refused(const Words& words, std::size_t servers = 0) {
  return ultra::test::message_of<ConfigError>([&] { parse(words).validate(servers); });
}

TEST(TensorParallelOptions, SplitNothingByDefault) {
  const TensorParallelOptions options = parse({});
  EXPECT_NO_THROW(options.validate(2));
  EXPECT_FALSE(options.splits());
  EXPECT_EQ(options.layout(), TensorParallelLayout());
  EXPECT_EQ(options.replica().ranks, 1U);
  EXPECT_EQ(options.replica().flags, "");
}

TEST(TensorParallelOptions, ReadTheirFlags) {
  const TensorParallelOptions options =
      parse({"--tp", "4", "--sp", "on", "--tp-overlap", "ring", "--shapes", "json"});
  EXPECT_NO_THROW(options.validate(0));
  EXPECT_TRUE(options.splits());
  EXPECT_EQ(options.layout(),
            (TensorParallelLayout{.tp = 4, .sequence_parallel = SequenceParallel::kOn}));
  EXPECT_EQ(options.overlap, TensorOverlap::kRing);
  EXPECT_EQ(options.shapes, Shapes::kJson);
  EXPECT_EQ(options.replica().ranks, 4U);
  EXPECT_EQ(options.replica().flags, "--tp 4");
}

TEST(TensorParallelOptions, OverlapsHaveTheNamesOfTheFlag) {
  EXPECT_EQ(to_string(parse({}).overlap), "backward");
  for (const char* name : {"none", "backward", "ring"}) {
    EXPECT_EQ(to_string(parse({"--tp-overlap", name}).overlap), name);
  }
}

TEST(TensorParallelOptions, GoIntoTheMetricsFile) {
  const train::ExtraConfig config = parse({"--tp", "2", "--sp", "on"}).config();
  EXPECT_EQ(std::get<std::size_t>(config.at(0).second), 2U);
  EXPECT_EQ(std::get<std::string>(config.at(1).second), "on");
  EXPECT_EQ(std::get<std::string>(config.at(2).second), "backward");
}

TEST(TensorParallelOptions, RefusalsSayWhatDoesNotFit) {
  EXPECT_THAT(refused({"--tp", "0"}), HasSubstr("--tp is 0"));
  EXPECT_THAT(refused({"--tp", "4097"}), HasSubstr("at most 4096"));
  EXPECT_THAT(refused({"--sp", "on"}), HasSubstr("--sp on has no meaning without --tp"));
  EXPECT_THAT(refused({"--tp-overlap", "none"}), HasSubstr("--tp-overlap has no meaning"));
  EXPECT_THAT(refused({"--tp", "2", "--tp-overlap", "ring"}),
              HasSubstr("--tp-overlap ring needs --sp on"));
  EXPECT_THAT(refused({"--tp", "2"}, 1),
              AllOf(HasSubstr("--tp 2"), HasSubstr("--sync parameter-server")));
}

}  // namespace
}  // namespace ultra::tensor_parallel
