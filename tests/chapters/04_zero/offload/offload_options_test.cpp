#include "chapters/04_zero/offload/offload_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/parse_options.hpp"

namespace ultra::zero {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::ultra::test::message_of;
using Words = std::vector<std::string>;

OffloadOptions parsed(const Words& arguments) {
  OffloadOptions options;
  ultra::test::parse_into(arguments, options);
  return options;
}

void expect_refused(const Words& arguments, ZeroStage stage, const std::string& part,
                    const std::string& what_to_do) {
  EXPECT_THAT(message_of<ConfigError>([&] { parsed(arguments).validate(stage, DeviceKind::kCpu); }),
              AllOf(HasSubstr(part), HasSubstr(what_to_do)));
}

TEST(OffloadOptions, ByDefaultEverythingStays) {
  const OffloadOptions options = parsed({});
  options.validate(ZeroStage::kNone, DeviceKind::kCpu);
  EXPECT_EQ(options.what, Offload::kNone);
  EXPECT_TRUE(options.config().empty());
}

TEST(OffloadOptions, MomentsMayGoInEveryStageThatShardsThem) {
  for (const ZeroStage stage :
       {ZeroStage::kOptimizer, ZeroStage::kGradients, ZeroStage::kParameters}) {
    EXPECT_NO_THROW(parsed({"--offload", "optimizer"}).validate(stage, DeviceKind::kCpu));
  }
  expect_refused({"--offload", "optimizer"}, ZeroStage::kNone, "--offload has no meaning",
                 "--zero 1, 2 or 3");
}

TEST(OffloadOptions, WeightsMayGoInStage3) {
  const OffloadOptions options = parsed({"--offload", "optimizer+params"});
  EXPECT_NO_THROW(options.validate(ZeroStage::kParameters, DeviceKind::kCpu));
  EXPECT_TRUE(options.settings().offloads_parameters());
  expect_refused({"--offload", "optimizer+params"}, ZeroStage::kGradients, "--zero 2",
                 "Use --zero 3, or --offload optimizer");
}

TEST(OffloadOptions, StorageIsMemoryOrAFile) {
  const OffloadOptions file = parsed(
      {"--offload", "optimizer", "--offload-to", "file:/some/folder", "--offload-gbps", "2.5"});
  EXPECT_NO_THROW(file.validate(ZeroStage::kOptimizer, DeviceKind::kCpu));
  EXPECT_EQ(file.settings().folder, "/some/folder");
  EXPECT_EQ(file.settings().gigabytes_per_second, 2.5);
  const OffloadOptions memory = parsed({"--offload", "optimizer", "--offload-to", "memory"});
  EXPECT_NO_THROW(memory.validate(ZeroStage::kOptimizer, DeviceKind::kCpu));
  EXPECT_EQ(memory.settings().folder, "");
  for (const char* bad : {"disk", "file:", ""}) {
    expect_refused({"--offload", "optimizer", "--offload-to", bad}, ZeroStage::kOptimizer,
                   "--offload-to is '" + std::string(bad) + "'", "memory or file:DIR");
  }
}

TEST(OffloadOptions, FlagsWithoutMeaningAreRefused) {
  expect_refused({"--offload-to", "memory"}, ZeroStage::kOptimizer, "--offload-to has no meaning",
                 "without --offload");
  expect_refused({"--offload-gbps", "1"}, ZeroStage::kOptimizer, "--offload-gbps has no meaning",
                 "without --offload");
  expect_refused({"--offload", "optimizer", "--offload-gbps", "0"}, ZeroStage::kOptimizer,
                 "--offload-gbps 0", "more than 0");
  EXPECT_THAT(message_of<ConfigError>([] {
                static_cast<void>(parsed({"--offload", "all"}));
              }),
              AllOf(HasSubstr("--offload is 'all'"), HasSubstr("optimizer+params")));
  EXPECT_THAT(
      message_of<ConfigError>([] {
        parsed({"--offload", "optimizer"}).validate(ZeroStage::kOptimizer, DeviceKind::kCuda);
      }),
      HasSubstr("--device cpu"));
}

TEST(OffloadOptions, TheMetricsFileHasThem) {
  Words names;
  for (const auto& [name, value] :
       parsed({"--offload", "optimizer", "--offload-to", "file:/tmp"}).config()) {
    names.push_back(name);
  }
  EXPECT_EQ(names, (Words{"offload", "offload_to", "offload_backend"}));
}

}  // namespace
}  // namespace ultra::zero
