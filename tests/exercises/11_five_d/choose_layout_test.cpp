// Contract of exercise 11.4: choose between layouts.
#include "chapters/11_five_d/planner/choose_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "common/base/errors.hpp"
#include "tests/support/random.hpp"

namespace ultra::planner {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFastest = "Hint: the most tokens per second and GPU.";
constexpr const char* kAllowed = "Hint: a layout must be possible and fit before it is predicted.";
constexpr const char* kFirst = "Hint: of equally fast layouts the first.";

Question on(replay::Cluster cluster) {
  return {.work = {.model = *find_model("llama2-13b"), .seq_len = 4096, .global_batch = 256},
          .cluster = std::move(cluster),
          .software = find_software("modern")};
}

/// Matrices shared inside nodes; or every layer's weights gathered by all.
const std::array<Layout, 2> kTwo = {Layout{.dp = 8, .tp = 8},
                                    Layout{.dp = 64,
                                           .zero = zero::ZeroStage::kParameters,
                                           .recompute = memory::Recompute::kSelective}};

TEST(ChooseLayout, ThreeClusters) {
  replay::Cluster slow_network = *replay::find_cluster("dgx-h100");
  slow_network.inter.bandwidth /= 40;
  replay::Cluster fast_network = *replay::find_cluster("dgx-h100");
  fast_network.inter.bandwidth *= 4;
  fast_network.intra.bandwidth /= 8;
  EXPECT_EQ(choose_layout(on(slow_network), kTwo), 0U) << kFastest;
  EXPECT_EQ(choose_layout(on(fast_network), kTwo), 1U) << kFastest;
  replay::Cluster small_memory = fast_network;
  small_memory.gpu.memory_bytes = largest_stage(on(fast_network), kTwo[0]).total();
  const double second = largest_stage(on(fast_network), kTwo[1]).total();
  if (second > small_memory.gpu.memory_bytes) {
    EXPECT_EQ(choose_layout(on(small_memory), kTwo), 0U) << kAllowed;
  } else {
    small_memory.gpu.memory_bytes = second;
    EXPECT_EQ(choose_layout(on(small_memory), kTwo), 1U) << kAllowed;
  }
}

TEST(ChooseLayout, PerGpuNotInAll) {
  // Twice the GPUs are faster together, but each does less.
  const Question q = on(*replay::find_cluster("dgx-h100"));
  const std::array<Layout, 2> layouts = {Layout{.dp = 32, .tp = 8}, Layout{.dp = 8, .tp = 8}};
  EXPECT_EQ(choose_layout(q, layouts), 1U) << kFastest;
}

TEST(ChooseLayout, WhatCannotBeIsNotChosen) {
  const Question q = on(*replay::find_cluster("dgx-h100"));
  const std::array<Layout, 3> layouts = {Layout{.dp = 7, .tp = 8},
                                         Layout{.dp = 64, .zero = zero::ZeroStage::kNone}, kTwo[0]};
  EXPECT_EQ(choose_layout(q, layouts), 2U) << kAllowed;
}

TEST(ChooseLayout, NoneAtAllIsAnErrorThatSaysWhy) {
  const Question q = on(*replay::find_cluster("dgx-h100"));
  const std::array<Layout, 2> layouts = {Layout{.dp = 7, .tp = 8},
                                         Layout{.dp = 64, .zero = zero::ZeroStage::kNone}};
  try {
    (void)choose_layout(q, layouts);
    FAIL() << kAllowed;
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("must be a multiple of dp x micro-batch 7"));
    EXPECT_THAT(error.what(), HasSubstr("needs"));
    EXPECT_THAT(error.what(), HasSubstr(layouts[1].str()));
  }
}

TEST(ChooseLayout, OfEqualOnesTheFirst) {
  const Question q = on(*replay::find_cluster("dgx-h100"));
  const std::array<Layout, 2> layouts = {kTwo[0], kTwo[0]};
  EXPECT_EQ(choose_layout(q, layouts), 0U) << kFirst;
}

}  // namespace
}  // namespace ultra::planner
