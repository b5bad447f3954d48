// The executable 04_zero with --offload, started as a user starts it.
//
// Covers: chapters/04_zero/offload/offload_options.hpp

#include "chapters/04_zero/offload/offload_options.hpp"
#include "tests/support/programs/program.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ultra::test::ProgramTest;

class OffloadProgram : public ProgramTest {
 protected:
  OffloadProgram() : ProgramTest("04_zero") {}

  [[nodiscard]] std::string in_folder() const { return "file:" + folder.path(); }
};

TEST_F(OffloadProgram, LossesAreThoseWithoutIt) {
  const json expected = losses_of("--dp 2 --zero 3");
  for (const std::string& to : {std::string("memory"), in_folder() + " --offload-gbps 1"}) {
    const json summary =
        summary_of("--dp 2 --zero 3 --offload optimizer+params --offload-to " + to);
    EXPECT_EQ(summary.at("losses"), expected) << "bitwise";
    EXPECT_EQ(summary.at("config").at("offload"), "optimizer+params");
    for (const json& rank : summary.at("ranks")) {
      EXPECT_GT(rank.at("offload").at("stored_bytes"), 0);
      EXPECT_GT(rank.at("offload").at("optimizer").at("read_seconds"), 0.0);
      EXPECT_TRUE(rank.at("offload").at("optimizer").contains("exposed_seconds"));
    }
  }
}

TEST_F(OffloadProgram, TheTableAndTheTimelineSayWhatIsOnTheDeviceAndWhatMoves) {
  const test::TemporaryFolder elsewhere;
  const std::string path = elsewhere.path("trace.json");
  const std::string out = output_of("--dp 2 --zero 3 --offload optimizer+params --offload-to " +
                                    in_folder() + " --trace " + path);
  EXPECT_THAT(test::read_file(path),
              AllOf(HasSubstr("\"read block 0\""), HasSubstr("\"write block 0\""),
                    HasSubstr("\"storage\""), HasSubstr("\"storage waiting\"")));
  EXPECT_THAT(out, AllOf(ContainsRegex("\n +04.6 +- .* exact +- +- "),
                         ContainsRegex("Rank 0 has [0-9.]+ kB in a file, by"),
                         ContainsRegex("optimizer +read .* waited"),
                         ContainsRegex("weights +read .* waited")));
}

TEST_F(OffloadProgram, WhatCannotWorkIsRefused) {
  const std::string to = "--zero 1 --offload optimizer --offload-to ";
  refused({{to + "disk", {"--offload-to is 'disk'", "memory or file:DIR"}},
           {to + "file:", {"--offload-to is 'file:'", "memory or file:DIR"}},
           {to + "''", {"--offload-to is empty"}},
           {"--offload-to memory", {"--offload-to has no meaning", "without --offload"}},
           {"--offload-gbps 1", {"--offload-gbps has no meaning", "without --offload"}},
           {"--zero 1 --offload optimizer --offload-gbps 0",
            {"--offload-gbps is 0", "from 1e-06 to 1000000"}},
           {"--zero 1 --offload all", {"--offload is 'all'", "optimizer+params"}},
           {"--offload optimizer", {"--offload has no meaning without --zero 1, 2 or 3"}},
           {"--zero 2 --offload optimizer+params",
            {"--offload optimizer+params does not go together with --zero 2",
             "Use --zero 3, or --offload optimizer"}},
           {"--dp 2 --zero 3 --shards rows --offload optimizer+params",
            {"--offload optimizer+params does not go together with --shards rows"}}});
}

TEST(OffloadOptions, StorageIsMemoryOrAFile) {
  const auto settings = [](const std::string& to) {
    return test::options_of<OffloadOptions>("--offload optimizer --offload-to " + to).settings();
  };
  EXPECT_EQ(settings("file:/some/folder --offload-gbps 2.5").folder, "/some/folder");
  EXPECT_EQ(settings("file:/some/folder --offload-gbps 2.5").gigabytes_per_second, 2.5);
  EXPECT_EQ(settings("memory").folder, "");
}

}  // namespace
}  // namespace ultra::zero
