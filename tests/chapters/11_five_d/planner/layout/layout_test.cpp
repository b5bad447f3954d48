// Layouts: which are possible, in words, and how blocks are dealt out.
//
// Covers: chapters/11_five_d/planner/layout/layout.hpp
#include "chapters/11_five_d/planner/layout/layout.hpp"

#include "tests/support/expect_message.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using pipeline_parallel::ScheduleKind;

class Layouts : public ultra::test::RandomTest {
 protected:
  static Workload work(const char* model, std::size_t seq = 4096, std::size_t batch = 64) {
    return {.model = *find_model(model), .seq_len = seq, .global_batch = batch};
  }
  static void refused(const Workload& workload, const Layout& layout, const std::string& words) {
    const auto problem = why_impossible(workload, layout);
    ASSERT_TRUE(problem) << layout.str();
    EXPECT_THAT(*problem, HasSubstr(words));
  }
};

TEST_F(Layouts, WhatDoesNotDivideIsSaid) {
  refused(work("llama-8b"), {.tp = 3}, "heads 32 must be a multiple of tp 3");
  refused(work("llama-8b"), {.dp = 48}, "64 must be a multiple of dp x micro-batch 48");
  refused(work("llama-8b"), {.dp = 32, .micro_batch = 4}, "dp x micro-batch 128");
  refused(work("llama-8b", 4100), {.cp = 8}, "4100 must be a multiple of 2 cp");
  refused(work("llama-8b"), {.dp = 2, .ep = 2}, "ep 2 needs a model with experts");
  refused(work("mixtral-8x7b"), {.dp = 3, .ep = 3}, "must be a multiple");
  refused(work("mixtral-8x7b"), {.dp = 2, .ep = 4}, "dp x cp 2 must be a multiple of ep 4");
  refused(work("llama-8b"), {.pp = 64}, "64 chunks need as many blocks");
  EXPECT_FALSE(why_impossible(work("llama-8b"), {.dp = 8, .pp = 4, .cp = 2, .tp = 4}));
}

TEST_F(Layouts, SchedulesNeedMicroBatches) {
  Layout layout{.dp = 16, .pp = 8};
  layout.schedule.kind = ScheduleKind::kInterleaved;
  refused(work("llama-8b"), layout, "a multiple of pp 8 micro-batches, not 4");
  layout.schedule.kind = ScheduleKind::kZbV;
  refused(work("llama-8b"), layout, "zb-v needs 15 micro-batches; there are 4");
  layout.pp = 1;
  refused(work("llama-8b"), layout, "needs more than one stage");
}

TEST_F(Layouts, UlyssesDealsOutKeyValueHeads) {
  // 32 query heads share 8 key/value heads.
  Layout layout{.cp = 8};
  layout.context_method = context_parallel::ContextMethod::kUlysses;
  EXPECT_FALSE(why_impossible(work("llama-8b"), layout));
  layout.tp = 4;
  refused(work("llama-8b"), layout,
          "for Ulysses, a rank's key/value heads 2 must be a multiple of cp 8");
  layout.cp = 2;
  EXPECT_FALSE(why_impossible(work("llama-8b"), layout));
  layout.tp = 16;  // two ranks have the same head
  refused(work("llama-8b"), layout, "key/value heads 1 must be a multiple of cp 2");
  layout.cp = 1;  // nobody to exchange with
  EXPECT_FALSE(why_impossible(work("llama-8b"), layout));
  layout.cp = 8;
  layout.context_method = context_parallel::ContextMethod::kRing;
  EXPECT_FALSE(why_impossible(work("llama-8b"), layout));
}

TEST_F(Layouts, BlocksAddUpAndAreEven) {
  for (int round = 0; round < 50; ++round) {
    ModelShape model = *find_model("llama-8b");
    model.layers.shape.num_layers = random.between(1, 130);
    model.layers.dense_blocks = model.layers.shape.num_layers;
    const Layout layout{.pp = random.between(1, model.shape().num_layers)};
    for (const char* software : {"modern", "megatron-2022"}) {
      const auto blocks = blocks_of_stages(model, layout, find_software(software));
      ASSERT_EQ(blocks.size(), layout.pp);
      EXPECT_EQ(std::accumulate(blocks.begin(), blocks.end(), std::size_t{0}),
                model.shape().num_layers);
    }
    const auto even = blocks_of_stages(model, layout, find_software("megatron-2022"));
    EXPECT_LE(std::ranges::max(even) - std::ranges::min(even), 1U);
  }
}

TEST_F(Layouts, FirstAndLastStageHaveFewer) {
  // As Llama 3: 126 blocks on 16 stages, one less on the first and on the last.
  const auto blocks =
      blocks_of_stages(*find_model("llama-405b"), {.pp = 16}, find_software("llama3"));
  EXPECT_EQ(blocks.front(), 7U);
  EXPECT_EQ(blocks.back(), 7U);
  EXPECT_EQ(blocks[7], 8U);
}

TEST_F(Layouts, TheOutputTableCountsAsBlocks) {
  // 1.34 billion, of which the table is a fifth: as much as four blocks.
  EXPECT_THAT(blocks_of_stages(*find_model("nanotron-1.34b"), {.pp = 2}, find_software("nanotron")),
              ElementsAre(10, 6));
}

TEST_F(Layouts, AreWrittenAsPeopleSayThem) {
  Layout layout{.dp = 8, .pp = 4, .tp = 8, .recompute = memory::Recompute::kSelective};
  EXPECT_EQ(layout.str(),
            "dp 8 x pp 4 x tp 8, ZeRO-1, 1f1b, micro-batch 1, recompute selective, sp");
  EXPECT_EQ(layout.gpus(), 256U);
  layout = {.dp = 2, .cp = 4, .offload = true, .offload_activations = true};
  layout.context_method = context_parallel::ContextMethod::kUlysses;
  EXPECT_EQ(layout.str(),
            "dp 2 x cp 4, ZeRO-1, micro-batch 1, ulysses, offload, offload activations");
}

TEST_F(Layouts, UnknownSoftwareIsNamed) {
  test::expect_message<ConfigError>([] { (void)find_software("megatron-1999"); },
                                    {"megatron-1999", "megatron-2022", "nanotron"});
}

}  // namespace
}  // namespace ultra::planner
