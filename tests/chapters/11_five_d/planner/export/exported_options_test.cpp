// Layouts as other programs' options.
//
// Covers: chapters/11_five_d/planner/export/exported_options.hpp
#include "chapters/11_five_d/planner/export/exported_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ultra::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Workload work(const char* model = "llama-70b") {
  return {.model = *find_model(model), .seq_len = 4096, .global_batch = 512};
}

Layout layout() {
  Layout one{.dp = 8, .pp = 4, .cp = 2, .tp = 8, .micro_batch = 2};
  one.schedule = {.kind = pipeline_parallel::ScheduleKind::kInterleaved, .interleaved_chunks = 5};
  return one;
}

TEST(ExportedOptions, OurFlags) {
  const std::string flags = book_flags(work(), layout());
  EXPECT_THAT(flags, HasSubstr("--dp 8 --pp 4 --cp 2 --tp 8 --cp-method all-gather --sp on "
                               "--schedule interleaved:5"));
  EXPECT_THAT(flags, HasSubstr("--zero 1"));
  EXPECT_THAT(flags, HasSubstr("--global-batch 512 --micro-batch 2"));
  const std::string plain = book_flags(work(), {.zero = zero::ZeroStage::kNone});
  EXPECT_EQ(plain, "--dp 1 --seq 4096 --global-batch 512 --micro-batch 1\n");
}

TEST(ExportedOptions, Megatrons) {
  const std::string options = megatron_options(work(), layout());
  for (const char* option :
       {"--tensor-model-parallel-size 8", "--pipeline-model-parallel-size 4",
        "--context-parallel-size 2", "--cp-comm-type all_gather",
        "--num-layers-per-virtual-pipeline-stage 4", "--sequence-parallel",
        "--use-distributed-optimizer", "--micro-batch-size 2", "--global-batch-size 512",
        "--num-query-groups 8", "--swiglu", "--bf16"}) {
    EXPECT_THAT(options, HasSubstr(option));
  }
  EXPECT_THAT(options, Not(HasSubstr("--recompute")));
  Layout other = layout();
  other.schedule = {.kind = pipeline_parallel::ScheduleKind::kZbV};
  other.recompute = memory::Recompute::kFull;
  other.zero = zero::ZeroStage::kNone;
  EXPECT_THAT(megatron_options(work(), other), HasSubstr("has no schedule zb-v"));
  EXPECT_THAT(megatron_options(work(), other), HasSubstr("--recompute-granularity full"));
  EXPECT_THAT(megatron_options(work(), other), Not(HasSubstr("--use-distributed-optimizer")));
}

TEST(ExportedOptions, ExpertsAreNamed) {
  const std::string options = megatron_options(work("mixtral-8x7b"), {.dp = 8, .ep = 8});
  EXPECT_THAT(options, HasSubstr("--num-experts 8"));
  EXPECT_THAT(options, HasSubstr("--expert-model-parallel-size 8"));
}

TEST(ExportedOptions, MethodsOfContextAndOffloadedActivations) {
  Layout other = layout();
  other.offload_activations = true;
  other.context_method = context_parallel::ContextMethod::kRing;
  EXPECT_THAT(book_flags(work(), other), HasSubstr("--cp-method ring"));
  EXPECT_THAT(megatron_options(work(), other), HasSubstr("--cp-comm-type p2p"));
  EXPECT_THAT(megatron_options(work(), other), HasSubstr("--cpu-offloading-num-layers 20"));
  const auto config = nlohmann::json::parse(deepspeed_config(work(), other));
  EXPECT_TRUE(config["activation_checkpointing"]["cpu_checkpointing"].get<bool>());
  other.context_method = context_parallel::ContextMethod::kUlysses;
  EXPECT_THAT(book_flags(work(), other), HasSubstr("--cp-method ulysses"));
  EXPECT_THAT(megatron_options(work(), other), HasSubstr("--cp-comm-type a2a"));
}

TEST(ExportedOptions, Nanotrons) {
  const std::string config = nanotron_config(work(), layout());
  for (const char* line : {"dp: 8", "pp: 4", "tp: 8", "pp_engine: 1f1b", "tp_mode: REDUCE_SCATTER",
                           "micro_batch_size: 2", "batch_accumulation_per_replica: 32",
                           "zero_stage: 1", "recompute_layer: false"}) {
    EXPECT_THAT(config, HasSubstr(line));
  }
}

TEST(ExportedOptions, DeepspeedsBatchesMultiply) {
  Layout one{.dp = 32, .zero = zero::ZeroStage::kParameters, .micro_batch = 4, .offload = true};
  const auto config = nlohmann::json::parse(deepspeed_config(work(), one));
  EXPECT_EQ(config["train_batch_size"].get<int>(),
            config["train_micro_batch_size_per_gpu"].get<int>() *
                config["gradient_accumulation_steps"].get<int>() * 32);
  EXPECT_EQ(config["zero_optimization"]["stage"], 3);
  EXPECT_EQ(config["zero_optimization"]["offload_optimizer"]["device"], "cpu");
  EXPECT_TRUE(config["bf16"]["enabled"].get<bool>());
}

}  // namespace
}  // namespace ultra::planner
