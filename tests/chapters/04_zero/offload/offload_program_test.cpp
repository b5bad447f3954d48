// Covers: chapters/04_zero/offload/offload_options.hpp
//
// The executable 04_zero with --offload, started as a user starts it.

#include <fstream>

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

}  // namespace
}  // namespace ultra::zero
