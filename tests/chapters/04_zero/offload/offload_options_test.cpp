#include "chapters/04_zero/offload/offload_options.hpp"

#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

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
