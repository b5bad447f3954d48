#include "chapters/11_five_d/composition/step_traffic.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/01_memory/memory.hpp"
#include "chapters/04_zero/prefetch.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_table.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/06_context_parallel/estimate/context_table.hpp"
#include "chapters/07_pipeline_parallel/estimate/pipeline_table.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/11_five_d/composition/flat_arrays.hpp"
#include "chapters/11_five_d/composition/rank_activations.hpp"
#include "chapters/11_five_d/composition/rank_tensors.hpp"
#include "common/base/errors.hpp"

namespace ultra::five_d {
namespace {

// What data groups send ----------------------------------------------------------------------------

// Legend: a group of D ranks, S of them share one copy of the states (D without ZeRO), R = D / S
// copies; m micro-batches; n elements of an array with its padding. Per array, by all ranks of a
// group together, in elements:
//
// | --zero | gradients                     | weights                                        |
// |--------|-------------------------------|------------------------------------------------|
// | 0      | 2 (D - 1) n                   |                                                |
// | 1      | (S - 1) n + 2 (R - 1) n       | (S - 1) n                                      |
// | 2      | m (S - 1) n + 2 (R - 1) n     | (S - 1) n                                      |
// | 3      | m (S - 1) n + 2 (R - 1) n     | (S - 1) n, as often as the schedule gathers it |
//
// with one factor R more on what the ranks of a copy do among themselves.

/// The parts of a stage's chunks as units, numbered as their arrays.
std::vector<zero::ChunkUnits> units_of(const train::Setup& setup, std::size_t stage,
                                       const std::vector<FlatArray>& arrays) {
  const std::vector<nn::StageSpec> chunks = chunks_of(setup, stage);
  const bool tied = setup.train.model.tied_embeddings;
  std::vector<zero::ChunkUnits> units;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const nn::StageSpec& spec = chunks[chunk];
    const std::size_t first = spec.has_embedding ? 1 : 0;
    const std::size_t blocks = first + spec.layers.size();
    const std::size_t heads = !spec.has_head ? 0 : tied && !spec.has_embedding ? 2 : 1;
    zero::ChunkUnits own{.units = std::vector<std::optional<std::size_t>>(blocks + heads),
                         .blocks = {first, blocks}};
    for (std::size_t array = 0; array < arrays.size(); ++array) {
      if (arrays[array].chunk == chunk) own.units[arrays[array].part] = array;
    }
    if (tied && spec.has_embedding && spec.has_head) own.tied = own.units.front();
    units.push_back(std::move(own));
  }
  return units;
}

/// How often the weights of each array are gathered in a step.
std::vector<std::size_t> gathers_of(const train::Setup& setup, std::size_t stage,
                                    const std::vector<FlatArray>& arrays,
                                    std::size_t micro_batches) {
  const pipeline_parallel::PipelineSchedule* schedule = pipeline_parallel::schedule_of(setup);
  const zero::ZeroSettings settings = zero::zero_of(setup).settings(setup);
  const std::vector<zero::UnitUse> uses = zero::unit_uses(
      schedule ? schedule->ranks[stage] : memory::accumulation_schedule(micro_batches),
      units_of(setup, stage, arrays), settings.recompute_every);
  std::vector<std::size_t> gathers(arrays.size(), 0);
  zero::Prefetch prefetch(settings.prefetch,
                          {.start_gather = [&](const zero::UnitUse& use) { ++gathers[use.unit]; },
                           .wait = [](std::size_t) {},
                           .release = [](std::size_t) {}});
  prefetch.follow(uses, settings.reshard);
  for (const zero::UnitUse& use : uses) {
    prefetch.gather(use.unit);
    prefetch.free(use.unit);
  }
  return gathers;
}

/// Of the ranks of one data group of one stage.
std::size_t group_elements(const train::Setup& setup, std::size_t stage, DataGroup group) {
  const std::vector<FlatArray> arrays = flat_arrays(setup, rank_tensors(setup, stage), group);
  const Sharing sharing = sharing_of(setup, group);
  const zero::ZeroStage zero = zero::zero_of(setup).options().stage;
  const std::size_t micro_batches = micro_batches_of(setup, 0).size();
  std::vector<std::size_t> gathers(arrays.size(), zero == zero::ZeroStage::kNone ? 0 : 1);
  if (zero::shards_parameters(zero)) gathers = gathers_of(setup, stage, arrays, micro_batches);
  const std::size_t reductions = zero::shards_gradients(zero) ? micro_batches : 1;
  std::size_t elements = 0;
  for (std::size_t array = 0; array < arrays.size(); ++array) {
    const std::size_t n = arrays[array].layout.padded;
    const std::size_t scatters = zero == zero::ZeroStage::kNone ? 0 : reductions;
    elements += (scatters + gathers[array]) * sharing.copies * (sharing.shards - 1) * n;
    elements += 2 * (sharing.copies - 1) * n;
  }
  return elements;
}

/// Elements that all ranks together send over dp x cp, and over ranks with the same experts.
std::size_t data_elements(const train::Setup& setup) {
  std::size_t elements = 0;
  for (std::size_t stage = 0; stage < setup.ranks_along(pipeline_parallel::kAxis); ++stage) {
    elements += group_elements(setup, stage, DataGroup::kAll);
    elements += setup.ranks_along(expert_parallel::kAxis) *
                group_elements(setup, stage, DataGroup::kExperts);
  }
  return setup.ranks_along(tensor_parallel::kAxis) * elements;
}

// All axes ----------------------------------------------------------------------------------------

template <class T>
const T& found_in(const train::Setup& setup) {
  const T* technique = setup.find<T>();
  ensure(technique != nullptr, "a program with every chapter");
  return *technique;
}

/// Adds up the closed forms of the chapters, replica by replica.
class Traffic {
 public:
  explicit Traffic(const train::Setup& setup)
      : setup_(setup),
        tp_(setup.ranks_along(tensor_parallel::kAxis)),
        cp_(setup.ranks_along(context_parallel::kAxis)),
        pp_(setup.ranks_along(pipeline_parallel::kAxis)),
        width_(size_of(setup.train.dtype)) {
    const auto& options = expert_parallel::options_of(setup);
    if (options.has_experts()) moe_ = options.config(setup.train.model.ffn_hidden_size);
  }

  StepTraffic sum() {
    StepTraffic traffic{.data = width_ * data_elements(setup_)};
    for (std::size_t replica = 0; replica < static_cast<std::size_t>(setup_.replicas());
         ++replica) {
      const std::vector<std::size_t> micro_batches = micro_batches_of(setup_, replica);
      traffic.tensor += cp_ * (tensor_bytes(micro_batches) - tensor_bytes({}));
      traffic.tensor += cp_ * shared_expert_bytes(micro_batches);
      traffic.context += context_bytes(micro_batches) + choice_bytes(micro_batches);
      traffic.pipeline += pipeline_bytes(micro_batches);
    }
    const std::size_t of_dense_model = sums_within(tp_, 9);
    traffic.copies =
        copies_held() * (tensor_bytes({}) - of_dense_model + tied_bytes() + router_bytes());
    const std::size_t world = tp_ * cp_ * pp_ * static_cast<std::size_t>(setup_.replicas());
    traffic.sums = sums_within(world, weights_of_block()) + load_bytes(world);
    return traffic;
  }

 private:
  [[nodiscard]] std::size_t layers() const { return setup_.train.model.num_layers; }
  [[nodiscard]] std::size_t block_forwards() const {
    return memory::options_of(setup_).recompute.mode == memory::Recompute::kFull ? 2 : 1;
  }

  [[nodiscard]] std::size_t weights_of_block() const {
    constexpr std::size_t kAttentionAndNorms = 6;
    constexpr std::size_t kFeedForward = 3;
    if (!moe_) return kAttentionAndNorms + kFeedForward;
    const std::size_t biases = moe_->balance == expert_parallel::Balance::kBias ? 1 : 0;
    const std::size_t shared = moe_->shared_experts > 0 ? 1 : 0;
    return kAttentionAndNorms + 1 + biases + kFeedForward * (moe_->num_experts + shared);
  }

  /// The squares of each weight tensor, and the loss.
  [[nodiscard]] std::size_t sums_within(std::size_t ranks, std::size_t of_block) const {
    const std::size_t weights = of_block * layers() + (setup_.train.model.tied_embeddings ? 2 : 3);
    return 2 * (ranks - 1) * (weights + 1) * sizeof(double);
  }

  /// How often each expert was chosen, and what was dropped, of every block.
  [[nodiscard]] std::size_t load_bytes(std::size_t ranks) const {
    return moe_ ? 2 * (ranks - 1) * layers() * (moe_->num_experts + 1) * sizeof(double) : 0;
  }

  /// The gradient of the router, which each rank of tp has a part of.
  [[nodiscard]] std::size_t router_bytes() const {
    if (!moe_) return 0;
    return 2 * (tp_ - 1) * layers() * moe_->num_experts * setup_.train.model.hidden_size * width_;
  }

  /// With a balancing term, the choices of sequences that ranks of cp share.
  [[nodiscard]] std::size_t choice_bytes(const std::vector<std::size_t>& micro_batches) const {
    if (!moe_ || moe_->balance != expert_parallel::Balance::kAux) return 0;
    return tp_ * 2 * (cp_ - 1) * sequences_of(micro_batches) * moe_->num_experts *
           sizeof(std::int32_t) * layers() * block_forwards();
  }

  /// Shared experts stand beside the others: a feed-forward part more in each block.
  [[nodiscard]] std::size_t shared_expert_bytes(
      const std::vector<std::size_t>& micro_batches) const {
    if (!moe_ || moe_->shared_experts == 0) return 0;
    const context_parallel::LocalModel share = pipeline_parallel::rank_share(setup_);
    const std::size_t once = (tp_ - 1) * sequences_of(micro_batches) *
                             share.layout.local_seq_len() * setup_.train.model.hidden_size;
    const std::size_t inputs_again = share.tensor.splits_sequences() ? 1 : 0;
    return (2 * (block_forwards() + 1) + inputs_again) * layers() * once * width_;
  }

  [[nodiscard]] static std::size_t sequences_of(const std::vector<std::size_t>& micro_batches) {
    return std::accumulate(micro_batches.begin(), micro_batches.end(), std::size_t{0});
  }

  /// Of the ranks of tp that share their tokens; without micro-batches what happens once in a step.
  [[nodiscard]] std::size_t tensor_bytes(const std::vector<std::size_t>& micro_batches) const {
    const auto& tensor = found_in<tensor_parallel::TensorParallel>(setup_);
    if (tp_ == 1) return 0;
    tensor_parallel::TensorStep step =
        tensor_parallel::step_of(setup_, tensor.options(), micro_batches);
    step.model.max_seq_len = pipeline_parallel::rank_share(setup_).layout.local_seq_len();
    const std::size_t bytes = tensor_parallel::tensor_traffic(step).total();
    // Its closed form counts the squares of an untied model.
    const std::size_t untied =
        setup_.train.model.tied_embeddings ? 2 * (tp_ - 1) * sizeof(double) : 0;
    return bytes - untied;
  }

  [[nodiscard]] std::size_t context_bytes(const std::vector<std::size_t>& micro_batches) const {
    if (cp_ == 1) return 0;
    const auto& context = found_in<context_parallel::ContextParallel>(setup_);
    return cp_ * tp_ *
           context_parallel::context_traffic(
               context_parallel::step_of(setup_, context.options(), micro_batches))
               .total();
  }

  /// Borders between parts on different ranks, there and back.
  [[nodiscard]] std::size_t pipeline_bytes(const std::vector<std::size_t>& micro_batches) const {
    const pipeline_parallel::PipelineSchedule* schedule = pipeline_parallel::schedule_of(setup_);
    if (schedule == nullptr) return 0;
    const pipeline_parallel::Placement& placement = schedule->placement;
    std::size_t borders = 0;
    for (std::size_t part = 1; part < placement.parts(); ++part) {
      if (placement.at(part).stage != placement.at(part - 1).stage) ++borders;
    }
    const context_parallel::LocalModel share = pipeline_parallel::rank_share(setup_);
    const std::size_t tokens = share.tensor.local_seq_len(share.layout.local_seq_len());
    return 2 * borders * cp_ * tp_ * sequences_of(micro_batches) * tokens *
           setup_.train.model.hidden_size * width_;
  }

  /// How many ranks that differ along dp and cp only have a gradient of copies to add up: one for
  /// each that has it all, and one for those together that have shards of it.
  [[nodiscard]] std::size_t copies_held() const {
    const Sharing sharing = sharing_of(setup_, DataGroup::kAll);
    return sharing.ranks / sharing.shards;
  }

  /// A token table at both ends of a pipeline.
  [[nodiscard]] std::size_t tied_bytes() const {
    if (!setup_.train.model.tied_embeddings || pp_ == 1) return 0;
    const std::size_t table = pipeline_parallel::rank_share(setup_).tensor.local_vocab_size(
                                  setup_.train.model.vocab_size) *
                              setup_.train.model.hidden_size;
    return 2 * tp_ * table * width_;
  }

  const train::Setup& setup_;
  std::size_t tp_;
  std::size_t cp_;
  std::size_t pp_;
  std::size_t width_;
  std::optional<expert_parallel::MoeConfig> moe_;
};

}  // namespace

StepTraffic step_traffic(const train::Setup& setup) { return Traffic(setup).sum(); }

}  // namespace ultra::five_d
