// Layouts as other programs' options.
//
// Covers: chapters/11_five_d/planner/export/exported_options.hpp
#include "chapters/11_five_d/planner/export/exported_options.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "tests/chapters/11_five_d/planner/export/parsed_options.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using test::Options;
using test::parsed_options;
using ::testing::Contains;

Workload work(const char* model = "llama-70b") {
  return {.model = *find_model(model), .seq_len = 4096, .global_batch = 512};
}

Layout layout() {
  Layout one{.dp = 8, .pp = 4, .cp = 2, .tp = 8, .micro_batch = 2};
  one.schedule = {.kind = pipeline_parallel::ScheduleKind::kInterleaved, .interleaved_chunks = 5};
  return one;
}

bool has(const Options& options, const char* flag) { return options.contains(flag); }

/// What validate_args() and TransformerConfig of Megatron-LM refuse (August 2026).
void expect_megatron_takes(const Options& options, const std::string& layout) {
  if (has(options, "--recompute-modules")) {
    EXPECT_THAT(options.at("--recompute-granularity"), ::testing::ElementsAre("selective"));
    for (const std::string& module : options.at("--recompute-modules")) {
      EXPECT_TRUE((std::set<std::string>{"core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp",
                                         "moe", "shared_experts"}
                       .contains(module)))
          << module;
      EXPECT_TRUE(module != "moe_act" || has(options, "--moe-grouped-gemm")) << layout;
    }
  }
  if (has(options, "--cpu-offloading-num-layers")) {
    EXPECT_THAT(options.at("--pipeline-model-parallel-size"), ::testing::ElementsAre("1"))
        << layout;
    EXPECT_FALSE(has(options, "--recompute-granularity")) << layout;
    EXPECT_LT(std::stoi(options.at("--cpu-offloading-num-layers").front()),
              std::stoi(options.at("--num-layers").front()));
  }
  if (has(options, "--optimizer-cpu-offload")) {
    EXPECT_TRUE(has(options, "--use-precision-aware-optimizer")) << layout;
    EXPECT_TRUE(has(options, "--use-distributed-optimizer")) << layout;
  }
  if (has(options, "--use-megatron-fsdp")) {
    EXPECT_THAT(options.at("--ckpt-format"), ::testing::ElementsAre("fsdp_dtensor"));
  }
  if (has(options, "--overlap-param-gather")) {
    EXPECT_TRUE(has(options, "--use-distributed-optimizer") &&
                has(options, "--overlap-grad-reduce"));
  }
}

/// Layouts of one model, with each ZeRO stage, recomputation and offload.
std::vector<Layout> many_layouts() {
  std::vector<Layout> all;
  for (const std::size_t pp : {1U, 4U}) {
    for (const zero::ZeroStage stage : zero::kZeroStages) {
      if (pp > 1 && stage > zero::ZeroStage::kOptimizer) continue;
      for (const memory::Recompute mode :
           {memory::Recompute::kNone, memory::Recompute::kSelective, memory::Recompute::kFull}) {
        for (const bool offloads : {false, true}) {
          all.push_back({.dp = 8,
                         .pp = pp,
                         .tp = 4,
                         .zero = offloads ? std::max(stage, zero::ZeroStage::kOptimizer) : stage,
                         .recompute = mode,
                         .offload = offloads,
                         .offload_activations = offloads});
        }
      }
    }
  }
  return all;
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

TEST(ExportedOptions, MegatronTakesThemAll) {
  for (const char* model : {"llama-70b", "megatron-175b", "mixtral-8x7b", "deepseek-v3"}) {
    for (const Layout& one : many_layouts()) {
      expect_megatron_takes(parsed_options(megatron_options(work(model), one)), one.str());
    }
  }
}

TEST(ExportedOptions, MegatronRecomputesWhatThePlanDrops) {
  const auto modules = [](const char* model) {
    const Layout selective{.dp = 8, .recompute = memory::Recompute::kSelective};
    return parsed_options(megatron_options(work(model), selective)).at("--recompute-modules");
  };
  EXPECT_THAT(modules("megatron-175b"), ElementsAre("core_attn"));
  EXPECT_THAT(modules("llama-70b"), ElementsAre("layernorm", "mlp"));
  EXPECT_THAT(modules("mixtral-8x7b"), ElementsAre("layernorm", "moe_act"));
  EXPECT_THAT(modules("deepseek-v3"), ElementsAre("layernorm", "mlp", "moe_act"));
  const Layout selective{.dp = 8, .recompute = memory::Recompute::kSelective};
  EXPECT_THAT(megatron_options(work(), selective), HasSubstr("# Megatron-LM cannot drop"));
  EXPECT_THAT(megatron_options(work("mixtral-8x7b"), selective),
              Not(HasSubstr("# Megatron-LM cannot drop")));
}

TEST(ExportedOptions, MegatronShardsByTheStagesNumber) {
  Layout one{.dp = 8, .zero = zero::ZeroStage::kParameters};
  EXPECT_THAT(megatron_options(work(), one),
              HasSubstr("--data-parallel-sharding-strategy optim_grads_params"));
  one.zero = zero::ZeroStage::kGradients;
  EXPECT_THAT(megatron_options(work(), one),
              ::testing::ContainsRegex("--data-parallel-sharding-strategy optim_grads[^_]"));
}

TEST(ExportedOptions, Torchtitans) {
  Layout one = layout();
  const std::string config = torchtitan_config(work(), one);
  for (const char* line :
       {"training.num_tokens_per_microbatch_per_dp_rank = 8192",
        "training.num_tokens_per_train_step = 2097152",
        "parallelism.data_parallel_shard_degree = 8", "parallelism.context_parallel_degree = 2",
        "parallelism.pipeline_parallel_schedule = \"Interleaved1F1B\"",
        "parallelism.num_pp_microbatches = 32",
        "parallelism.pipeline_parallel_layers_per_stage = 4", "activation_checkpoint = None",
        "# torchtitan has no ZeRO-1", "# Stages are outermost there"}) {
    EXPECT_THAT(config, HasSubstr(line));
  }
  one = {.dp = 8, .zero = zero::ZeroStage::kParameters, .recompute = memory::Recompute::kFull};
  EXPECT_THAT(torchtitan_config(work(), one), HasSubstr("fsdp_reshard_after_forward = \"always\""));
  EXPECT_THAT(torchtitan_config(work(), one), HasSubstr("FullAC.Config()"));
  EXPECT_THAT(torchtitan_config(work(), one), Not(HasSubstr("#")));
  one.zero = zero::ZeroStage::kNone;
  EXPECT_THAT(torchtitan_config(work(), one), HasSubstr("data_parallel_replicate_degree = 8"));
  EXPECT_THAT(torchtitan_config(work(), one), HasSubstr("data_parallel_shard_degree = 1\n"));
}

TEST(ExportedOptions, TorchtitansStagesAreAsManyAsPlanned) {
  // It makes ceil((blocks + places of the tables) / blocks of a stage) of them, and refuses numbers
  // that are no multiple of the ranks.
  for (const std::size_t pp : {2U, 3U, 4U, 7U, 8U, 16U}) {
    for (const char* model : {"llama-8b", "llama-70b", "llama-405b", "deepseek-v3"}) {
      const Layout one{.pp = pp};
      const std::string config = torchtitan_config(work(model), one);
      const auto number = [&](const std::string& field) {
        const std::size_t at = config.find(field + " = ");
        return at == std::string::npos ? 0 : std::stoul(config.substr(at + field.size() + 3));
      };
      const std::size_t of_stage = number("pipeline_parallel_layers_per_stage");
      if (of_stage == 0) continue;  // it finds them itself
      const std::size_t places = work(model).model.shape().num_layers +
                                 number("first_stage_less_layers") +
                                 number("last_stage_less_layers");
      EXPECT_EQ((places + of_stage - 1) / of_stage, pp) << model;
    }
  }
}

TEST(ExportedOptions, TorchtitanSaysWhatItDoesNotHave) {
  Layout one{.dp = 8, .pp = 4, .zero = zero::ZeroStage::kGradients, .offload = true};
  one.schedule = {.kind = pipeline_parallel::ScheduleKind::kZeroBubbleH1};
  EXPECT_THAT(torchtitan_config(work(), one), HasSubstr("# PyTorch has no schedule"));
  EXPECT_THAT(torchtitan_config(work(), one), HasSubstr("# enable_cpu_offload leaves weights"));
  one.recompute = memory::Recompute::kSelective;
  EXPECT_THAT(torchtitan_config(work(), one), HasSubstr("# SelectiveAC computes every second"));
  one.offload_activations = true;
  EXPECT_THAT(torchtitan_config(work(), one), HasSubstr("# torchtitan leaves no activations"));
  one.cp = 2;
  one.context_method = context_parallel::ContextMethod::kUlysses;
  EXPECT_THAT(torchtitan_config(work(), one), HasSubstr("# torchtitan has no Ulysses"));
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
  EXPECT_THAT(megatron_options(work(), other), HasSubstr("# Megatron-LM offloads no layers"));
  EXPECT_THAT(megatron_options(work(), other), Not(HasSubstr("--cpu-offloading-num-layers")));
  const Layout no_stages{.dp = 64, .offload_activations = true};
  EXPECT_THAT(megatron_options(work(), no_stages), HasSubstr("--cpu-offloading-num-layers 79"));
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
  EXPECT_THAT(config, HasSubstr("# nanotron has no schedule interleaved:5"));
}

TEST(ExportedOptions, NanotronSaysWhatItDoesNotHave) {
  Layout one{.dp = 8, .pp = 4};
  EXPECT_THAT(nanotron_config(work(), one), Not(HasSubstr("#")));
  one.recompute = memory::Recompute::kSelective;
  EXPECT_THAT(nanotron_config(work(), one), HasSubstr("# nanotron recomputes whole layers"));
  one = {.dp = 8, .offload = true};
  EXPECT_THAT(nanotron_config(work(), one), HasSubstr("# nanotron leaves nothing in the host's"));
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
  EXPECT_FALSE(config.contains("remarks"));
}

TEST(ExportedOptions, DeepspeedHasTheWholeMeshOrSaysWhatIsMissing) {
  const auto config = [](const Layout& layout, const char* model = "llama-70b") {
    return nlohmann::json::parse(deepspeed_config(work(model), layout));
  };
  const auto remarks = [&](const Layout& layout, const char* model = "llama-70b") {
    return config(layout, model).value("remarks", std::vector<std::string>{});
  };
  Layout tensor{.dp = 8, .tp = 8};
  EXPECT_EQ(config(tensor)["tensor_parallel"]["autotp_size"], 8);
  EXPECT_THAT(remarks(tensor), Contains(HasSubstr("does not split tokens between the matrices")));
  tensor.sequence_parallel = false;
  EXPECT_THAT(remarks(tensor), IsEmpty());
  const Layout stages{.dp = 4, .pp = 4, .tp = 8, .recompute = memory::Recompute::kFull};
  EXPECT_THAT(remarks(stages), Contains(HasSubstr("num_pp=4, num_mp=8, num_dp=4")));
  EXPECT_FALSE(config(stages).contains("tensor_parallel"));
  EXPECT_EQ(config(stages)["pipeline"]["activation_checkpoint_interval"], 1);
  EXPECT_THAT(remarks(layout()), Contains(HasSubstr("no schedule interleaved:5")));
  EXPECT_THAT(remarks(layout()), Contains(HasSubstr("cp 2 by all-gather is not DeepSpeed's")));
  Layout ulysses{.dp = 8, .cp = 8};
  ulysses.context_method = context_parallel::ContextMethod::kUlysses;
  EXPECT_EQ(config(ulysses)["sequence_parallel_size"], 8);
  EXPECT_EQ(config(ulysses)["data_parallel_size"], 8);
  EXPECT_THAT(remarks(ulysses), IsEmpty());
  EXPECT_THAT(remarks({.dp = 8, .ep = 8}, "mixtral-8x7b"), Contains(HasSubstr("ep_size=8")));
}

TEST(ExportedOptions, DeepspeedSaysWhatItDoesNotRecomputeOrOffload) {
  const auto remarks = [](const Layout& layout) {
    return nlohmann::json::parse(deepspeed_config(work(), layout))
        .value("remarks", std::vector<std::string>{});
  };
  EXPECT_THAT(remarks({.dp = 8, .recompute = memory::Recompute::kFull}),
              Contains(HasSubstr("deepspeed.checkpointing.checkpoint")));
  EXPECT_THAT(remarks({.dp = 8, .recompute = memory::Recompute::kSelective}),
              Contains(HasSubstr("no recompute selective")));
  EXPECT_THAT(remarks({.dp = 8, .offload_activations = true}),
              Contains(HasSubstr("only the inputs of recomputed blocks")));
  const Layout full{.dp = 8, .recompute = memory::Recompute::kFull, .offload_activations = true};
  EXPECT_THAT(remarks(full), SizeIs(1));
}

}  // namespace
}  // namespace ultra::planner
