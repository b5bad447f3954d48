#include "chapters/04_zero/sharded_bytes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "chapters/04_zero/offloaded_layout.hpp"
#include "chapters/04_zero/parameter_group.hpp"
#include "common/comm/schedule.hpp"
#include "common/nn/layer_factory.hpp"

namespace ultra::zero {
namespace {

/// Follows the passes of micro-batches through units whose weights come and go, with gradients that
/// are reduced, and notes the largest number of elements that stand in buffers; and in shards that are
/// fetched for their gathers.
class BufferReplay {
 public:
  BufferReplay(std::vector<std::size_t> padded, std::vector<std::size_t> shards,
               const ZeroSettings& settings)
      : padded_(std::move(padded)),
        shards_(std::move(shards)),
        overlap_(settings.overlap),
        fetched_(padded_.size(), false),
        fetch_(padded_.size(), fetch_ahead(settings), settings.reshard,
               {.start_gather = [this](std::size_t unit) { fetch(unit); },
                .wait = [](std::size_t) {},
                .release = [](std::size_t) {}}),
        prefetch_(padded_.size(), settings.prefetch, settings.reshard,
                  {.start_gather = [this](std::size_t unit) { gathered_ += of_unit(unit); },
                   .wait = [this](std::size_t unit) { forget(unit); },
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
  /// Of the shards that were fetched.
  [[nodiscard]] std::size_t peak_of_shards() const { return peak_of_shards_; }

 private:
  void fetch(std::size_t unit) {
    fetched_[unit] = true;
    in_shards_ += shard_of(unit);
    peak_of_shards_ = std::max(peak_of_shards_, in_shards_);
  }

  /// A unit is gathered: its shard is not needed any more.
  void forget(std::size_t unit) {
    if (!fetched_[unit]) return;
    fetched_[unit] = false;
    in_shards_ -= shard_of(unit);
  }

  void run_forward(Range units) {
    for (std::size_t unit = units.begin; unit < units.end; ++unit) {
      fetch_.before_forward(unit);
      prefetch_.before_forward(unit);
      note();
      prefetch_.after_forward(unit);
      fetch_.after_forward(unit);
    }
  }

  void run_backward(Range units) {
    for (std::size_t unit = units.end; unit-- > units.begin;) {
      fetch_.before_backward(unit);
      prefetch_.before_backward(unit);
      note();
      make_gradients(of_unit(unit));
      prefetch_.after_backward(unit);
      fetch_.after_backward(unit);
    }
  }

  [[nodiscard]] std::size_t of_unit(std::size_t unit) const {
    return padded_[padded_.size() - 1 - unit];
  }
  [[nodiscard]] std::size_t shard_of(std::size_t unit) const {
    return shards_[shards_.size() - 1 - unit];
  }

  void note() {
    std::size_t elements = gathered_;
    for (const std::size_t padded : under_way_) elements += padded;
    peak_ = std::max(peak_, elements);
  }

  std::vector<std::size_t> padded_;  // by group: in backward order
  std::vector<std::size_t> shards_;  // likewise
  Overlap overlap_;
  std::vector<bool> fetched_;  // by unit
  std::size_t in_shards_ = 0;
  std::size_t peak_of_shards_ = 0;
  Prefetch fetch_;
  Prefetch prefetch_;
  std::size_t gathered_ = 0;
  std::vector<std::size_t> under_way_;
  std::size_t peak_ = 0;
};

/// Elements that are on a rank for a moment.
struct Passing {
  std::size_t buffers = 0;
  std::size_t shards = 0;  ///< fetched from storage
};

Passing passing_elements(const ShardedRun& run, const std::vector<FlatLayout>& layouts) {
  std::vector<std::size_t> padded;
  std::vector<std::size_t> shards;
  for (const FlatLayout& layout : layouts) {
    padded.push_back(layout.padded);
    shards.push_back(layout.shard);
  }
  BufferReplay replay(padded, shards, run.settings);
  if (run.settings.stage == ZeroStage::kParameters) {
    const std::size_t buffers = replay.peak(run.micro_batches, run.recompute_every);
    return {.buffers = buffers, .shards = replay.peak_of_shards()};
  }
  if (run.settings.stage != ZeroStage::kGradients) return {};
  for (std::size_t m = 0; m < run.micro_batches; ++m) {
    for (const std::size_t group : padded) replay.make_gradients(group);
  }
  return {.buffers = replay.peak()};
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

/// What offloading changes.
void offload(const ShardedRun& run, const std::vector<FlatLayout>& layouts, int rank,
             const Passing& passing, ShardedBytes& elements) {
  const OffloadSettings& settings = run.settings.offload;
  if (settings.what == Offload::kNone) return;
  std::vector<std::size_t> counts;
  for (const FlatLayout& layout : layouts) {
    for (const Piece& piece : pieces_of(layout, rank)) counts.push_back(piece.place.size());
  }
  using Weights = OffloadedLayout::Weights;
  const OffloadedLayout stored(counts, settings.least_block_bytes / (2 * size_of(run.dtype)),
                               settings.offloads_parameters() ? Weights::kStored : Weights::kStay);
  elements.optimizer = stored.window();
  elements.stored = stored.stored();
  if (settings.offloads_parameters()) elements.parameters = passing.shards;
}

}  // namespace

ShardedBytes predict_bytes(const ShardedRun& run, int rank,
                           const comm::CollectiveAlgorithms& algorithms) {
  const ZeroStage stage = run.settings.stage;
  const comm::Group group = comm::Group::all(rank, run.shards);
  ShardedBytes elements;
  const std::vector<FlatLayout> layouts = layouts_of(run);
  for (const FlatLayout& layout : layouts) {
    elements.parameters += shards_parameters(stage) ? layout.shard : layout.padded;
    elements.gradients += shards_gradients(stage) ? layout.shard : layout.padded;
    for (const Piece& piece : pieces_of(layout, rank)) elements.optimizer += 2 * piece.place.size();
    const comm::Schedule schedule =
        algorithms.reduce_scatter(group, comm::Chunks::even({0, layout.padded}, run.shards));
    elements.scratch = std::max(elements.scratch, schedule.scratch_count);
  }
  if (stage == ZeroStage::kOptimizer) elements.scratch += scratch_between_copies(run, algorithms);
  const Passing passing = passing_elements(run, layouts);
  elements.buffers = passing.buffers;
  offload(run, layouts, rank, passing, elements);
  const std::size_t width = size_of(run.dtype);
  return {.parameters = elements.parameters * width,
          .gradients = elements.gradients * width,
          .optimizer = elements.optimizer * width,
          .buffers = elements.buffers * width,
          .scratch = elements.scratch * width,
          .stored = elements.stored * width};
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
