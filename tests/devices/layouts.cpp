#include "tests/devices/layouts.hpp"

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
const std::string kMoe = " --experts 4 --top-k 2 --expert-ffn 24";

void add_memory(std::vector<Layout>& all) {
  const std::string chapter = "01_memory";
  all.push_back({chapter, "OneRank", ""});
  all.push_back({chapter, "TiedEmbeddings", "--tied-embeddings"});
  all.push_back({chapter, "RecomputeFull", "--recompute full"});
  all.push_back({chapter, "RecomputeSelective", "--recompute selective"});
  all.push_back({chapter, "Sgd", "--optimizer sgd"});
}

void add_collectives(std::vector<Layout>& all) {
  const std::string chapter = "02_collectives";
  all.push_back({chapter, "Ours", "--dp 2 --overlap none --all-reduce ring"});
  all.push_back({chapter, "Native", "--dp 2 --overlap none --collectives native"});
}

void add_data_parallel(std::vector<Layout>& all) {
  const std::string chapter = "03_data_parallel";
  all.push_back({chapter, "Buckets", "--dp 2 --bucket-mb 0.01"});
  all.push_back({chapter, "PerParameter", "--dp 2 --overlap per-parameter --check-replicas 2"});
  all.push_back({chapter, "ThreeReplicas", "--dp 3 --collectives native"});
  all.push_back({chapter, "TopK", "--dp 2 --compress topk:0.1", kInF64});
  all.push_back({chapter, "Int8", "--dp 2 --compress int8", kInF64});
  all.push_back({chapter, "OneBit", "--dp 2 --compress onebit --compress-warmup 1", kKeptMoment});
  all.push_back({chapter, "OneBitAfterFiveSteps", "--dp 2 --compress onebit --compress-warmup 5"});
  all.push_back({chapter, "PowerSgd", "--dp 2 --compress powersgd:2", kInF64});
  all.push_back({chapter, "ParameterServer", "--dp 2", kLossesInF64});
  all.push_back({chapter, "ParameterServerInSlices",
                 "--dp 2 --servers 2 --priority priority --slice-kb 1 --clip 0", kLossesInF64});
}

void add_zero(std::vector<Layout>& all) {
  const std::string chapter = "04_zero";
  for (const char* stage : {"1", "2", "3"}) {
    all.push_back({chapter, std::string("Stage") + stage, std::string("--dp 2 --zero ") + stage});
  }
  const std::string stage3 = "--dp 2 --zero 3";
  all.push_back({chapter, "KeepsWeights", stage3 + " --reshard-after-forward no"});
  all.push_back({chapter, "Prefetch2Recompute", stage3 + " --prefetch 2 --recompute full"});
  all.push_back({chapter, "Rows", stage3 + " --shards rows"});
  all.push_back({chapter, "MuonStage2", "--dp 2 --zero 2 --optimizer muon", kInF64});
  all.push_back({chapter, "HybridShards", "--dp 4 --zero 3 --hybrid-shard 2"});
  all.push_back({chapter, "OffloadsMoments", "--dp 2 --zero 1 --offload optimizer"});
  all.push_back({chapter, "OffloadsWeights", stage3 + " --offload optimizer+params"});
  all.push_back({chapter, "PlusPlus",
                 "--dp 4 --zero 3 --zero++ weights-int8,hierarchical,gradients-int8 --node-size 2",
                 kInF64});
  all.push_back({chapter, "PlusPlusInt4", stage3 + " --zero++ gradients-int4", kInF64});
}

void add_tensor_parallel(std::vector<Layout>& all) {
  const std::string chapter = "05_tensor_sequence_parallel";
  all.push_back({chapter, "Tensor", "--tp 2"});
  all.push_back({chapter, "NothingHidden", "--tp 2 --tp-overlap none"});
  all.push_back({chapter, "Sequence", "--tp 2 --sp on"});
  all.push_back({chapter, "RingOverlap", "--tp 2 --sp on --tp-overlap ring"});
  all.push_back({chapter, "PaddedVocabulary", "--tp 2 --vocab 257"});
  all.push_back({chapter, "HeadInPieces", "--tp 2 --sp on --head-chunks 3"});
  all.push_back({chapter, "Biases", "--tp 2 --sp on --qkv-bias"});
  all.push_back({chapter, "NormedHeads", "--tp 2 --qk-norm --head-dim 24"});
  all.push_back({chapter, "Latents", "--tp 2 --sp on --attention mla" + kLatents});
  all.push_back({chapter, "Muon", "--tp 2 --optimizer muon", kInF64});
}

void add_context_parallel(std::vector<Layout>& all) {
  const std::string chapter = "06_context_parallel";
  all.push_back({chapter, "Ring", "--cp 2"});
  all.push_back(
      {chapter, "RingContiguousDocuments", "--cp 2 --cp-layout contiguous --doc-length 5"});
  all.push_back({chapter, "RingWindow", "--cp 4 --cp-layout contiguous --window 5"});
  all.push_back({chapter, "AllGather", "--cp 2 --cp-method all-gather"});
  all.push_back({chapter, "Ulysses", "--cp 2 --cp-method ulysses --doc-length 5"});
  all.push_back({chapter, "UlyssesRing", "--cp 4 --cp-method ulysses+ring --cp-ulysses 2"});
  all.push_back({chapter, "RingOfLatents", "--cp 2 --attention mla-absorbed" + kLatents});
  all.push_back({chapter, "Padded", "--cp 2 --seq 13"});
}

void add_pipeline(std::vector<Layout>& all) {
  const std::string chapter = "07_pipeline_parallel";
  all.push_back({chapter, "OneForwardOneBackward", "--pp 2"});
  all.push_back({chapter, "ForwardThenBackward", "--pp 2 --schedule afab --tied-embeddings"});
  all.push_back({chapter, "Interleaved", "--pp 2 --schedule interleaved:2 --layers 4"});
  all.push_back({chapter, "ZeroBubble", "--pp 2 --schedule zero-bubble-h1"});
  all.push_back({chapter, "ZeroBubbleV", "--pp 2 --schedule zb-v --layers 4"});
  all.push_back({chapter, "DualPipeV", "--pp 2 --schedule dualpipe-v --layers 4"});
  all.push_back({chapter, "PipeDream", "--pp 2 --schedule pipedream-async --clip 0"});
}

void add_experts(std::vector<Layout>& all) {
  const std::string chapter = "08_expert_parallel";
  all.push_back({chapter, "OneRank", kMoe});
  all.push_back({chapter, "Experts", "--dp 2 --ep 2" + kMoe});
  all.push_back({chapter, "TensorParallel", "--tp 2" + kMoe});
  all.push_back({chapter, "DroppedPadded",
                 "--cp 2 --ep 2 --seq 13 --capacity-factor 1 --z-loss 0.01" + kMoe});
  all.push_back({chapter, "SigmoidBiasShared",
                 "--dp 2 --ep 2 --router sigmoid --balance bias --shared-experts 1" + kMoe});
}

void add_precision(std::vector<Layout>& all) {
  const std::string chapter = "10_mixed_precision";
  all.push_back({chapter, "Bf16", "--precision bf16", kRoughly});
  all.push_back({chapter, "Bf16Zero3", "--precision bf16 --dp 2 --zero 3", kRoughly});
  all.push_back({chapter, "Bf16Pure", "--precision bf16-pure --rounding stochastic --count-updates",
                 kRoughly});
  all.push_back({chapter, "Fp16", "--precision fp16 --dp 2 --grad-dtype f16", kRoughly});
  all.push_back({chapter, "Fp8Delayed", "--precision fp8 --tp 2", kRoughly});
  all.push_back({chapter, "Fp8Blockwise", "--precision fp8 --fp8-recipe blockwise", kRoughly});
  all.push_back({chapter, "Int8Moments", "--precision bf16 --optimizer-state int8", kRoughly});
}

void add_all_of_them(std::vector<Layout>& all) {
  const std::string chapter = "11_five_d";
  all.push_back({chapter, "DataTensorPipelineExperts", "--dp 2 --tp 2 --ep 2 --zero 1" + kMoe});
  all.push_back({chapter, "ContextTensorPipeline", "--tp 2 --sp on --pp 2 --recompute full"});
}

}  // namespace

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = [] {
    std::vector<Layout> made;
    add_memory(made);
    add_collectives(made);
    add_data_parallel(made);
    add_zero(made);
    add_tensor_parallel(made);
    add_context_parallel(made);
    add_pipeline(made);
    add_experts(made);
    add_precision(made);
    add_all_of_them(made);
    return made;
  }();
  return all;
}

LayoutProgram program_of(const Layout& layout) {
  if (layout.likeness != Likeness::kLossesInF64) return {five_d::techniques(), {}};
  return {train::list_of(memory::technique(), collectives::technique(),
                         data_parallel::parameter_servers()),
          data_parallel::worker_with_servers};
}

}  // namespace ultra::devices
