#include "chapters/04_zero/sharded_bytes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "chapters/04_zero/parameter_group.hpp"
#include "common/comm/schedule.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::zero {
namespace {

/// Follows the passes of micro-batches through units whose weights come and go, with gradients that
/// are reduced, and notes the largest number of elements that stand in buffers.
class BufferReplay {
 public:
  BufferReplay(std::vector<std::size_t> padded, const ZeroSettings& settings)
      : padded_(std::move(padded)),
        overlap_(settings.overlap),
        prefetch_(padded_.size(), settings.prefetch, settings.reshard,
                  {.start_gather = [this](std::size_t unit) { gathered_ += of_unit(unit); },
                   .wait = [](std::size_t) {},
                   .release = [this](std::size_t unit) { gathered_ -= of_unit(unit); }}) {}

  /// @param recompute_every  K, blocks that run forward again together.
  std::size_t peak(std::size_t micro_batches, std::size_t recompute_every) {
    const std::size_t head = padded_.size() - 1;
    for (std::size_t m = 0; m < micro_batches; ++m) {
      run_forward({0, head + 1});
      run_backward({head, head + 1});
      for (std::size_t end = head; end > 1;) {
        const std::size_t begin = 1 + (end - 2) / recompute_every * recompute_every;
        if (recompute_every > 1) run_forward({begin, end});
        run_backward({begin, end});
        end = begin;
      }
      run_backward({0, 1});
    }
    return peak_;
  }

  /// The gradients of a group are made and reduced.
  void make_gradients(std::size_t padded) {
    while (under_way_.size() > 1) under_way_.erase(under_way_.begin());
    under_way_.push_back(padded);
    note();
    if (overlap_ == Overlap::kOff) under_way_.clear();
  }

  [[nodiscard]] std::size_t peak() const { return peak_; }

 private:
  void run_forward(Range units) {
    for (std::size_t unit = units.begin; unit < units.end; ++unit) {
      prefetch_.before_forward(unit);
      note();
      prefetch_.after_forward(unit);
    }
  }

  void run_backward(Range units) {
    for (std::size_t unit = units.end; unit-- > units.begin;) {
      prefetch_.before_backward(unit);
      note();
      make_gradients(of_unit(unit));
      prefetch_.after_backward(unit);
    }
  }

  [[nodiscard]] std::size_t of_unit(std::size_t unit) const {
    return padded_[padded_.size() - 1 - unit];
  }

  void note() {
    std::size_t elements = gathered_;
    for (const std::size_t padded : under_way_) elements += padded;
    peak_ = std::max(peak_, elements);
  }

  std::vector<std::size_t> padded_;  // by group: in backward order
  Overlap overlap_;
  Prefetch prefetch_;
  std::size_t gathered_ = 0;
  std::vector<std::size_t> under_way_;
  std::size_t peak_ = 0;
};

std::size_t buffer_elements(const ShardedRun& run, const std::vector<std::size_t>& padded) {
  BufferReplay replay(padded, run.settings);
  if (run.settings.stage == ZeroStage::kParameters) {
    return replay.peak(run.micro_batches, run.recompute_every);
  }
  if (run.settings.stage != ZeroStage::kGradients) return 0;
  for (std::size_t m = 0; m < run.micro_batches; ++m) {
    for (const std::size_t group : padded) replay.make_gradients(group);
  }
  return replay.peak();
}

/// The flat arrays of a run, in backward order; no weights are made.
std::vector<FlatLayout> layouts_of(const ShardedRun& run) {
  nn::DenseFactory factory;
  const nn::Model model(run.model, Device::cpu(), run.dtype, 0, factory,
                        nn::StageSpec::whole(run.model), nn::Values::kDeferred);
  const auto groups = run.settings.stage == ZeroStage::kParameters
                          ? groups_by_part(model, run.shards)
                          : groups_by_bucket(model, run.settings.bucket_capacity, run.shards);
  std::vector<FlatLayout> layouts;
  for (const ParameterGroup& group : groups) layouts.push_back(group.layout);
  return layouts;
}

/// What the all-reduce of a shard over the copies needs, on the rank that needs most.
std::size_t scratch_between_copies(const ShardedRun& run,
                                   const comm::CollectiveAlgorithms& algorithms) {
  std::size_t scratch = 0;
  if (run.replicas == 1) return scratch;
  for (const FlatLayout& layout : layouts_of(run)) {
    for (int copy = 0; copy < run.replicas; ++copy) {
      const comm::Schedule schedule = algorithms.all_reduce(comm::Group::all(copy, run.replicas),
                                                            layout.shard, size_of(run.dtype));
      scratch = std::max(scratch, schedule.scratch_count);
    }
  }
  return scratch;
}

}  // namespace

ShardedBytes predict_bytes(const ShardedRun& run, int rank,
                           const comm::CollectiveAlgorithms& algorithms) {
  const ZeroStage stage = run.settings.stage;
  const comm::Group group = comm::Group::all(rank, run.shards);
  ShardedBytes elements;
  std::vector<std::size_t> padded;
  for (const FlatLayout& layout : layouts_of(run)) {
    padded.push_back(layout.padded);
    elements.parameters += shards_parameters(stage) ? layout.shard : layout.padded;
    elements.gradients += shards_gradients(stage) ? layout.shard : layout.padded;
    for (const Piece& piece : pieces_of(layout, rank)) elements.optimizer += 2 * piece.place.size();
    const comm::Schedule schedule =
        algorithms.reduce_scatter(group, comm::Chunks::even({0, layout.padded}, run.shards));
    elements.scratch = std::max(elements.scratch, schedule.scratch_count);
  }
  if (stage == ZeroStage::kOptimizer) elements.scratch += scratch_between_copies(run, algorithms);
  elements.buffers = buffer_elements(run, padded);
  const std::size_t width = size_of(run.dtype);
  return {.parameters = elements.parameters * width,
          .gradients = elements.gradients * width,
          .optimizer = elements.optimizer * width,
          .buffers = elements.buffers * width,
          .scratch = elements.scratch * width};
}

std::size_t predict_sent_elements(const ShardedRun& run) {
  const std::size_t m = run.micro_batches;
  const bool kept = run.settings.reshard == Reshard::kAfterBackward;
  std::size_t times = 2;  // one reduce-scatter, one all-gather
  if (run.settings.stage == ZeroStage::kGradients) times = m + 1;
  if (run.settings.stage == ZeroStage::kParameters) times = (kept ? 2 : 3) * m;
  std::size_t elements = 0;
  for (const FlatLayout& layout : layouts_of(run)) {
    elements += times * (layout.padded - layout.shard);
  }
  return elements;
}

}  // namespace ultra::zero
