#include "chapters/11_five_d/composition/rank_tensors.hpp"

#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "common/base/errors.hpp"

namespace ultra::five_d {
namespace {

/// Adds the tensors of a chunk, part by part.
class ChunkList {
 public:
  ChunkList(const train::Setup& setup, const nn::StageSpec& spec, std::size_t chunk)
      : setup_(setup),
        model_(setup.train.model),
        tensor_{.tp = static_cast<int>(setup.ranks_along(tensor_parallel::kAxis))},
        spec_(spec),
        chunk_(chunk) {}

  std::vector<RankTensor> tensors() {
    if (spec_.has_embedding) embedding();
    for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) block();
    if (spec_.has_head) head();
    return std::move(tensors_);
  }

 private:
  void add(std::size_t count, DataGroup group = DataGroup::kAll) {
    tensors_.push_back({.count = count, .group = group, .chunk = chunk_, .part = part_});
  }
  [[nodiscard]] std::size_t tp() const { return tensor_.ranks(); }
  [[nodiscard]] std::size_t table() const {
    return tensor_.local_vocab_size(model_.vocab_size) * model_.hidden_size;
  }

  void embedding() {
    add(table());
    tensors_.back().alone = model_.tied_embeddings;
    ++part_;
  }

  void block() {
    const std::size_t h = model_.hidden_size;
    const std::size_t kv = h * tensor_.local_kv_heads(model_.num_kv_heads) * model_.head_dim();
    for (const std::size_t count : {h, h * h / tp(), kv, kv, h * h / tp(), h}) add(count);
    const auto& experts = expert_parallel::options_of(setup_);
    if (experts.has_experts()) {
      mixture(experts);
    } else {
      for (int matrix = 0; matrix < 3; ++matrix) add(h * model_.ffn_hidden_size / tp());
    }
    ++part_;
  }

  void mixture(const expert_parallel::ExpertParallelOptions& options) {
    const expert_parallel::MoeConfig moe = options.config(model_.ffn_hidden_size);
    const std::size_t h = model_.hidden_size;
    add(moe.num_experts * h);
    if (moe.balance == expert_parallel::Balance::kBias) add(moe.num_experts, DataGroup::kOwn);
    const DataGroup group = options.ep > 1 ? DataGroup::kExperts : DataGroup::kAll;
    for (std::size_t expert = 0; expert < 3 * moe.num_experts / options.ep; ++expert) {
      add(h * moe.expert_ffn / tp(), group);
    }
    if (moe.shared_experts == 0) return;
    for (int matrix = 0; matrix < 3; ++matrix) {
      add(h * moe.shared_experts * moe.expert_ffn / tp());
    }
  }

  void head() {
    add(model_.hidden_size);
    const bool tied = model_.tied_embeddings;
    if (tied && spec_.has_embedding) return;
    if (tied) ++part_;  // the table's other end is a part of its own
    add(table());
    tensors_.back().alone = tied;
  }

  const train::Setup& setup_;
  const nn::ModelConfig& model_;
  tensor_parallel::TensorParallelLayout tensor_;
  nn::StageSpec spec_;
  std::size_t chunk_;
  std::size_t part_ = 0;
  std::vector<RankTensor> tensors_;
};

}  // namespace

std::vector<nn::StageSpec> parts_of(const train::Setup& setup) {
  using pipeline_parallel::StageSplit;
  const pipeline_parallel::PipelineSchedule* schedule = pipeline_parallel::schedule_of(setup);
  if (schedule == nullptr) return {nn::StageSpec::whole(setup.train.model)};
  const StageSplit& split = pipeline_parallel::options_of(setup).split;
  if (split.rule == StageSplit::Rule::kMeasured) {
    throw ConfigError(
        "--stage-split measured is known when the ranks have measured. Give balanced, or layers.");
  }
  if (split.rule == StageSplit::Rule::kGiven)
    return pipeline_parallel::parts_of_model(split.layers);
  return pipeline_parallel::parts_of_model(
      pipeline_parallel::balanced_layers(setup.train.model.num_layers, schedule->placement,
                                         pipeline_parallel::operations_of(setup.train.model)));
}

std::vector<nn::StageSpec> chunks_of(const train::Setup& setup, std::size_t stage) {
  const std::vector<nn::StageSpec> parts = parts_of(setup);
  const pipeline_parallel::PipelineSchedule* schedule = pipeline_parallel::schedule_of(setup);
  if (schedule == nullptr) return parts;
  std::vector<nn::StageSpec> chunks;
  for (std::size_t chunk = 0; chunk < schedule->placement.chunks(); ++chunk) {
    chunks.push_back(parts[schedule->placement.part_at({.stage = stage, .chunk = chunk})]);
  }
  return chunks;
}

std::vector<RankTensor> rank_tensors(const train::Setup& setup, std::size_t stage) {
  const std::vector<nn::StageSpec> chunks = chunks_of(setup, stage);
  std::vector<RankTensor> all;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const std::vector<RankTensor> own = ChunkList(setup, chunks[chunk], chunk).tensors();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace ultra::five_d
