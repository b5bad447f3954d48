// Contract of exercise 11.3: refuse or fit.
#include "chapters/11_five_d/planner/fit.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFits = "Hint: a layout fits when its largest stage is no larger than a GPU.";
constexpr const char* kPart =
    "Hint: the largest of the six parts of the memory, by its name in kMemoryParts.";
constexpr const char* kRemedy =
    "Hint: cheaper_layouts() is sorted: the first that is possible and fits.";

class FitTest : public ultra::test::RandomTest {
 protected:
  static Question question(const char* model, std::size_t batch) {
    return {.work = {.model = *find_model(model), .seq_len = 4096, .global_batch = batch},
            .cluster = *replay::find_cluster("dgx-h100"),
            .software = find_software("modern")};
  }
};

TEST_F(FitTest, WhatFitsHasNoRemedy) {
  const Question q = question("llama-1b", 8);
  const Fit judged = fit(q, {.dp = 8});
  EXPECT_TRUE(judged.fits) << kFits;
  EXPECT_EQ(judged.missing_bytes, 0);
  EXPECT_FALSE(judged.remedy) << kRemedy;
  EXPECT_EQ(judged.memory, largest_stage(q, {.dp = 8})) << kFits;
}

TEST_F(FitTest, TheLargestStageDecides) {
  // With one micro-batch no stage keeps more activations than another: the output table decides.
  Question q = question("llama-8b", 4);
  q.software.balances_stages = false;
  const Layout layout{.dp = 4, .pp = 4};
  const auto blocks = blocks_of_stages(q.work.model, layout, q.software);
  double most = 0;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    most = std::max(most, stage_memory(q, layout, blocks, stage).total());
  }
  EXPECT_DOUBLE_EQ(stage_memory(q, layout, blocks, 3).total(), most);
  EXPECT_DOUBLE_EQ(fit(q, layout).memory.total(), most) << kFits;
}

TEST_F(FitTest, ExactlyAsMuchAsThereIsFits) {
  Question q = question("llama-1b", 8);
  q.cluster.gpu.memory_bytes = largest_stage(q, {.dp = 8}).total();
  EXPECT_TRUE(fit(q, {.dp = 8}).fits) << kFits;
  q.cluster.gpu.memory_bytes -= 1;
  const Fit judged = fit(q, {.dp = 8});
  EXPECT_FALSE(judged.fits) << kFits;
  EXPECT_NEAR(judged.missing_bytes, 1, 1e-3);
}

TEST_F(FitTest, EveryPartHasItsName) {
  const auto largest_part = [](Question q, const Layout& layout, double room) {
    q.cluster.gpu.memory_bytes = room;
    return fit(q, layout).largest_part;
  };
  Question short_texts = question("llama-1b", 64);
  short_texts.work.seq_len = 128;
  short_texts.work.model.layers.shape.vocab_size = 8192;
  Question large = question("llama-405b", 512);
  large.work.seq_len = 128;
  const Layout offloaded{.zero = zero::ZeroStage::kNone, .offload = true};
  const Layout sharded{.dp = 64, .zero = zero::ZeroStage::kParameters};
  EXPECT_EQ(largest_part(question("llama-8b", 1), offloaded, 1e10), kMemoryParts[1]) << kPart;
  EXPECT_EQ(largest_part(question("llama-8b", 1), {}, 1e10), kMemoryParts[2]) << kPart;
  EXPECT_EQ(largest_part(question("llama-1b", 16), {.micro_batch = 16}, 1e10), kMemoryParts[3])
      << kPart;
  EXPECT_EQ(largest_part(large, {.dp = 512, .zero = zero::ZeroStage::kParameters}, 1e10),
            kMemoryParts[4])
      << kPart;
  EXPECT_EQ(largest_part(short_texts, sharded, 1e9), kMemoryParts[5]) << kPart;
}

TEST_F(FitTest, TheFirstRemedyOfTheList) {
  const char* models[] = {"llama-1b", "llama2-7b", "llama2-13b", "mixtral-8x7b"};
  for (int round = 0; round < 30; ++round) {
    Question q = question(models[random.between(0, 3)], 64);
    const Layout layout{.dp = random.pick({2U, 8U, 32U}),
                        .tp = random.pick({1U, 4U}),
                        .zero = zero::ZeroStage::kNone,
                        .micro_batch = random.pick({1U, 2U, 3U})};  // 3 do not divide the batch
    const std::vector<Layout> list = cheaper_layouts(layout);
    if (round % 2 == 0) {  // as much as one of them needs
      const Layout& one = list[random.between(0, list.size() - 1)];
      q.cluster.gpu.memory_bytes = largest_stage(q, one).total();
    }
    const Fit judged = fit(q, layout);
    if (judged.fits) continue;
    const auto fits = [&](const Layout& one) {
      return !why_impossible(q.work, one) &&
             largest_stage(q, one).total() <= q.cluster.gpu.memory_bytes;
    };
    const auto first = std::ranges::find_if(list, fits);
    EXPECT_EQ(judged.remedy.has_value(), first != list.end()) << layout.str() << "\n" << kRemedy;
    if (first != list.end() && judged.remedy) {
      EXPECT_EQ(*judged.remedy, *first) << layout.str() << "\n" << kRemedy;
    }
  }
}

TEST_F(FitTest, NothingHelpsATrillionOnOneGpu) {
  const Question q = question("megatron-1t", 1);
  const Fit judged = fit(q, {});
  EXPECT_FALSE(judged.fits) << kFits;
  EXPECT_FALSE(judged.remedy) << kRemedy;
  EXPECT_THAT(describe(judged, q), HasSubstr("more tp or pp, or more GPUs"));
}

}  // namespace
}  // namespace ultra::planner
