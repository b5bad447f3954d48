#include "chapters/05_tensor_sequence_parallel/options/tensor_parallel_options.hpp"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/support/programs/command_line.hpp"

namespace ultra::tensor_parallel {
namespace {

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
