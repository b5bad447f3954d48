// The executable 04_zero with --offload, started as a user starts it.
//
// Covers: chapters/04_zero/offload/offload_options.hpp

#include <fstream>

#include "chapters/04_zero/offload/offload_options.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ultra::test::expect_success;
using ultra::test::ProgramTest;

class OffloadProgram : public ProgramTest {
 protected:
  OffloadProgram() : ProgramTest("04_zero") {}

  [[nodiscard]] std::string in_folder() const { return "file:" + folder.path(); }
};

TEST_F(OffloadProgram, LossesAreThoseWithoutIt) {
  for (const char* stage : {"1", "2", "3"}) {
    const json expected = summary_of({}, {"--dp", "2", "--zero", stage}).at("losses");
    for (const std::string& to : {std::string("memory"), in_folder()}) {
      const json summary = summary_of(
          {}, {"--dp", "2", "--zero", stage, "--offload", "optimizer", "--offload-to", to});
      EXPECT_EQ(summary.at("losses"), expected) << "bitwise";
      EXPECT_EQ(summary.at("config").at("offload"), "optimizer");
      for (const json& rank : summary.at("ranks")) {
        EXPECT_GT(rank.at("offload").at("stored_bytes"), 0);
        EXPECT_GT(rank.at("offload").at("optimizer").at("read_seconds"), 0.0);
        EXPECT_TRUE(rank.at("offload").at("optimizer").contains("exposed_seconds"));
      }
    }
  }
  EXPECT_EQ(summary_of({}, {"--dp", "2", "--zero", "3", "--offload", "optimizer+params",
                            "--offload-to", in_folder(), "--offload-gbps", "1"})
                .at("losses"),
            summary_of({}, {"--dp", "2", "--zero", "3"}).at("losses"))
      << "bitwise";
}

TEST_F(OffloadProgram, TheTableSaysWhatIsOnTheDeviceAndWhatIsNot) {
  const auto result = run({}, {"--dp", "2", "--zero", "3", "--offload", "optimizer+params",
                               "--offload-to", in_folder()});
  expect_success(result);
  EXPECT_THAT(result.out, AllOf(ContainsRegex("\n +04.6 +- .* exact +- +- "),
                                ContainsRegex("Rank 0 has [0-9.]+ kB in a file, by"),
                                ContainsRegex("optimizer +read .* waited"),
                                ContainsRegex("weights +read .* waited")));
}

TEST_F(OffloadProgram, TheTimelineShowsBlocks) {
  const std::string path = folder.path("trace.json");
  expect_success(run({{"--trace", path}}, {"--dp", "2", "--zero", "1", "--offload", "optimizer",
                                           "--offload-to", "memory"}));
  EXPECT_THAT(ultra::test::read_file(path), AllOf(HasSubstr("read block 0"), HasSubstr("storage")));
}

TEST_F(OffloadProgram, AMissingFolderIsOneLineAndLeavesNothing) {
  failed({}, 2, {folder.path("missing"), "cannot be made", "Make the folder"},
         {"--dp", "3", "--zero", "2", "--offload", "optimizer", "--offload-to",
          "file:" + folder.path("missing")});
}

TEST_F(OffloadProgram, WhatDoesNotGoTogetherIsRefused) {
  refused({}, {"--offload has no meaning without --zero"}, {"--offload", "optimizer"});
  refused({}, {"--offload optimizer+params does not go together with --zero 1"},
          {"--zero", "1", "--offload", "optimizer+params"});
  refused({}, {"--offload optimizer+params does not go together with --shards rows"},
          {"--dp", "2", "--zero", "3", "--shards", "rows", "--offload", "optimizer+params"});
}

using ultra::test::Words;

OffloadOptions valid(const std::string& line, ZeroStage stage) {
  const auto options = ultra::test::options_of<OffloadOptions>(line);
  EXPECT_NO_THROW(options.validate(stage)) << line;
  return options;
}

void expect_refused(ZeroStage stage, const std::vector<ultra::test::Refusal>& rows) {
  ultra::test::expect_refused<OffloadOptions>(
      rows, [&](const OffloadOptions& options) { options.validate(stage); });
}

TEST(OffloadOptions, ByDefaultEverythingStays) {
  const OffloadOptions options = valid("", ZeroStage::kNone);
  EXPECT_EQ(options.what, Offload::kNone);
  EXPECT_TRUE(options.config().empty());
}

TEST(OffloadOptions, MomentsMayGoInEveryStageThatShardsThem) {
  for (const ZeroStage stage :
       {ZeroStage::kOptimizer, ZeroStage::kGradients, ZeroStage::kParameters}) {
    static_cast<void>(valid("--offload optimizer", stage));
  }
  expect_refused(ZeroStage::kNone,
                 {{"--offload optimizer", {"--offload has no meaning", "--zero 1, 2 or 3"}}});
}

TEST(OffloadOptions, WeightsMayGoInStage3) {
  const OffloadOptions options = valid("--offload optimizer+params", ZeroStage::kParameters);
  EXPECT_TRUE(options.settings().offloads_parameters());
  expect_refused(ZeroStage::kGradients, {{"--offload optimizer+params",
                                          {"--zero 2", "Use --zero 3, or --offload optimizer"}}});
}

TEST(OffloadOptions, StorageIsMemoryOrAFile) {
  const OffloadOptions file =
      valid("--offload optimizer --offload-to file:/some/folder --offload-gbps 2.5",
            ZeroStage::kOptimizer);
  EXPECT_EQ(file.settings().folder, "/some/folder");
  EXPECT_EQ(file.settings().gigabytes_per_second, 2.5);
  const OffloadOptions memory =
      valid("--offload optimizer --offload-to memory", ZeroStage::kOptimizer);
  EXPECT_EQ(memory.settings().folder, "");
}

TEST(OffloadOptions, WhatCannotWorkIsRefused) {
  const std::string to = "--offload optimizer --offload-to ";
  expect_refused(
      ZeroStage::kOptimizer,
      {{to + "disk", {"--offload-to is 'disk'", "memory or file:DIR"}},
       {to + "file:", {"--offload-to is 'file:'", "memory or file:DIR"}},
       {to + "''", {"--offload-to is empty"}},
       {"--offload-to memory", {"--offload-to has no meaning", "without --offload"}},
       {"--offload-gbps 1", {"--offload-gbps has no meaning", "without --offload"}},
       {"--offload optimizer --offload-gbps 0", {"--offload-gbps is 0", "from 1e-06 to 1000000"}},
       {"--offload all", {"--offload is 'all'", "optimizer+params"}}});
}

TEST(OffloadOptions, TheMetricsFileHasThem) {
  Words names;
  const auto options = valid("--offload optimizer --offload-to file:/tmp", ZeroStage::kOptimizer);
  for (const auto& [name, value] : options.config()) names.push_back(name);
  EXPECT_EQ(names, (Words{"offload", "offload_to", "offload_backend"}));
}

}  // namespace
}  // namespace ultra::zero
