#include "tests/devices/layouts.hpp"

#include <fmt/format.h>

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/parameter_server/server_technique.hpp"
#include "chapters/11_five_d/five_d.hpp"

namespace ultra::devices {
namespace {

using enum Likeness;

const std::string kLatents =
    " --kv-heads 4 --kv-lora-rank 8 --q-lora-rank 6 --qk-nope-head-dim 4 --qk-rope-head-dim 4 "
    "--v-head-dim 6";
const std::string kStage3 = "--dp 2 --zero 3";
const std::string kMoe = " --experts 4 --top-k 2 --expert-ffn 24";

}  // namespace

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"01_memory", "OneRank", ""},
      {"01_memory", "TiedEmbeddings", "--tied-embeddings"},
      {"01_memory", "RecomputeFull", "--recompute full"},
      {"01_memory", "RecomputeSelective", "--recompute selective"},
      {"01_memory", "Sgd", "--optimizer sgd"},
      {"02_collectives", "Ours", "--dp 2 --overlap none --all-reduce ring"},
      {"02_collectives", "Native", "--dp 2 --overlap none --collectives native"},
      {"03_data_parallel", "Buckets", "--dp 2 --bucket-mb 0.01"},
      {"03_data_parallel", "PerParameter", "--dp 2 --overlap per-parameter --check-replicas 2"},
      {"03_data_parallel", "ThreeReplicas", "--dp 3 --collectives native"},
      {"03_data_parallel", "TopK", "--dp 2 --compress topk:0.1", kInF64},
      {"03_data_parallel", "Int8", "--dp 2 --compress int8", kInF64},
      {"03_data_parallel", "OneBit", "--dp 2 --compress onebit --compress-warmup 1", kKeptMoment},
      {"03_data_parallel", "OneBitAfterFiveSteps", "--dp 2 --compress onebit --compress-warmup 5"},
      {"03_data_parallel", "PowerSgd", "--dp 2 --compress powersgd:2", kInF64},
      {"03_data_parallel", "ParameterServer", "--dp 2", kLossesInF64},
      {"03_data_parallel", "ParameterServerInSlices",
       "--dp 2 --servers 2 --priority priority --slice-kb 1 --clip 0", kLossesInF64},
      {"04_zero", "Stage1", "--dp 2 --zero 1"},
      {"04_zero", "Stage2", "--dp 2 --zero 2"},
      {"04_zero", "Stage3", "--dp 2 --zero 3"},
      {"04_zero", "KeepsWeights", kStage3 + " --reshard-after-forward no"},
      {"04_zero", "Prefetch2Recompute", kStage3 + " --prefetch 2 --recompute full"},
      {"04_zero", "Rows", kStage3 + " --shards rows"},
      {"04_zero", "MuonStage2", "--dp 2 --zero 2 --optimizer muon", kInF64},
      {"04_zero", "HybridShards", "--dp 4 --zero 3 --hybrid-shard 2"},
      {"04_zero", "OffloadsMoments", "--dp 2 --zero 1 --offload optimizer"},
      {"04_zero", "OffloadsWeights", kStage3 + " --offload optimizer+params"},
      {"04_zero", "PlusPlus",
       "--dp 4 --zero 3 --zero++ weights-int8,hierarchical,gradients-int8 --node-size 2", kInF64},
      {"04_zero", "PlusPlusInt4", kStage3 + " --zero++ gradients-int4", kInF64},
      {"05_tensor_sequence_parallel", "Tensor", "--tp 2"},
      {"05_tensor_sequence_parallel", "NothingHidden", "--tp 2 --tp-overlap none"},
      {"05_tensor_sequence_parallel", "Sequence", "--tp 2 --sp on"},
      {"05_tensor_sequence_parallel", "RingOverlap", "--tp 2 --sp on --tp-overlap ring"},
      {"05_tensor_sequence_parallel", "PaddedVocabulary", "--tp 2 --vocab 257"},
      {"05_tensor_sequence_parallel", "HeadInPieces", "--tp 2 --sp on --head-chunks 3"},
      {"05_tensor_sequence_parallel", "Biases", "--tp 2 --sp on --qkv-bias"},
      {"05_tensor_sequence_parallel", "NormedHeads", "--tp 2 --qk-norm --head-dim 24"},
      {"05_tensor_sequence_parallel", "Latents", "--tp 2 --sp on --attention mla" + kLatents},
      {"05_tensor_sequence_parallel", "Muon", "--tp 2 --optimizer muon", kInF64},
      {"06_context_parallel", "Ring", "--cp 2"},
      {"06_context_parallel", "RingContiguousDocuments",
       "--cp 2 --cp-layout contiguous --doc-length 5"},
      {"06_context_parallel", "RingWindow", "--cp 4 --cp-layout contiguous --window 5"},
      {"06_context_parallel", "AllGather", "--cp 2 --cp-method all-gather"},
      {"06_context_parallel", "Ulysses", "--cp 2 --cp-method ulysses --doc-length 5"},
      {"06_context_parallel", "UlyssesRing", "--cp 4 --cp-method ulysses+ring --cp-ulysses 2"},
      {"06_context_parallel", "RingOfLatents", "--cp 2 --attention mla-absorbed" + kLatents},
      {"06_context_parallel", "Padded", "--cp 2 --seq 13"},
      {"07_pipeline_parallel", "OneForwardOneBackward", "--pp 2"},
      {"07_pipeline_parallel", "ForwardThenBackward", "--pp 2 --schedule afab --tied-embeddings"},
      {"07_pipeline_parallel", "Interleaved", "--pp 2 --schedule interleaved:2 --layers 4"},
      {"07_pipeline_parallel", "ZeroBubble", "--pp 2 --schedule zero-bubble-h1"},
      {"07_pipeline_parallel", "ZeroBubbleV", "--pp 2 --schedule zb-v --layers 4"},
      {"07_pipeline_parallel", "DualPipeV", "--pp 2 --schedule dualpipe-v --layers 4"},
      {"07_pipeline_parallel", "PipeDream", "--pp 2 --schedule pipedream-async --clip 0"},
      {"08_expert_parallel", "OneRank", kMoe},
      {"08_expert_parallel", "Experts", "--dp 2 --ep 2" + kMoe},
      {"08_expert_parallel", "TensorParallel", "--tp 2" + kMoe},
      {"08_expert_parallel", "DroppedPadded",
       "--cp 2 --ep 2 --seq 13 --capacity-factor 1 --z-loss 0.01" + kMoe},
      {"08_expert_parallel", "SigmoidBiasShared",
       "--dp 2 --ep 2 --router sigmoid --balance bias --shared-experts 1" + kMoe},
      {"10_mixed_precision", "Bf16", "--precision bf16", kRoughly},
      {"10_mixed_precision", "Bf16Zero3", "--precision bf16 --dp 2 --zero 3", kRoughly},
      {"10_mixed_precision", "Bf16Pure",
       "--precision bf16-pure --rounding stochastic --count-updates", kRoughly},
      {"10_mixed_precision", "Fp16", "--precision fp16 --dp 2 --grad-dtype f16", kRoughly},
      {"10_mixed_precision", "Fp8Delayed", "--precision fp8 --tp 2", kRoughly},
      {"10_mixed_precision", "Fp8Blockwise", "--precision fp8 --fp8-recipe blockwise", kRoughly},
      {"10_mixed_precision", "Int8Moments", "--precision bf16 --optimizer-state int8", kRoughly},
      {"11_five_d", "DataTensorPipelineExperts", "--dp 2 --tp 2 --ep 2 --zero 1" + kMoe},
      {"11_five_d", "ContextTensorPipeline", "--tp 2 --sp on --pp 2 --recompute full"},
  };
  return all;
}

LayoutProgram program_of(const Layout& layout) {
  if (layout.likeness != Likeness::kLossesInF64) return {five_d::techniques(), {}};
  return {train::list_of(memory::technique(), collectives::technique(),
                         data_parallel::parameter_servers()),
          data_parallel::worker_with_servers};
}

std::string text_of_numbers() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("{} and {} are {}. ", i, 3 * i, 4 * i);
  return text;
}

std::string flags_of(const Layout& layout, const std::string& more) {
  const auto unless_given = [&](const std::string& flag, const std::string& value) {
    return layout.flags.find(flag + " ") == std::string::npos ? flag + " " + value + " " : "";
  };
  return fmt::format(
      "{}{}{}--hidden 16 --heads 4 --ffn 24 --global-batch 6 --micro-batch 1 --warmup 1 "
      "--lr 1e-2 {} {}",
      unless_given("--layers", "2"), unless_given("--seq", "12"), unless_given("--kv-heads", "2"),
      more, layout.flags);
}

}  // namespace ultra::devices
