#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp"

#include <utility>

#include "chapters/04_zero/rows/row_parts.hpp"
#include "chapters/04_zero/shards/gradient_shards.hpp"
#include "chapters/04_zero/shards/tree_reducer.hpp"
#include "chapters/04_zero/unit_weights.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::zero {
namespace {

/// Whether two steps differ from one.
bool are_nodes(const std::optional<NodeGroups>& nodes) {
  return nodes && nodes->node.size() > 1 && nodes->across.size() > 1;
}

std::size_t size_as_count(const Communicator& comm) {
  return checked_cast<std::size_t>(comm.size());
}

/// Element or message number `index` of those of `size` that stand one after the other.
Tensor piece_of(const Tensor& array, std::size_t index, std::size_t size) {
  return array.slice(0, {index * size, (index + 1) * size});
}

// Pieces of a group that change hands stand in one array: the messages of all columns for each
// member of the step, and behind them those from each.
Tensor sent(const Tensor& exchange) { return piece_of(exchange, 0, exchange.numel() / 2); }
Tensor received(const Tensor& exchange) { return piece_of(exchange, 1, exchange.numel() / 2); }

}  // namespace

QuantizedReducer::QuantizedReducer(std::vector<ReducedGroup> groups, const Communicator& shards,
                                   const std::optional<NodeGroups>& nodes,
                                   const BlockFormat& format, Device device, DType dtype,
                                   Overlap overlap)
    : ShardReducer(std::move(groups), shards, std::move(device), dtype, overlap),
      first_(are_nodes(nodes) ? nodes->node : shards),
      second_(are_nodes(nodes) ? std::optional(nodes->across) : std::nullopt),
      ranks_(size_as_count(shards)),
      format_(format) {}

void QuantizedReducer::flush(std::size_t group) {
  under_way_.push_back(begin_first_step(group, open_));
  open_ = Tensor();  // it was quantised: only the pieces are on their way
  if (overlap_ == Overlap::kOff) finish();
}

/// @param words  of what is sent, and of what is received.
Tensor QuantizedReducer::exchange_memory(std::size_t words) const {
  return Tensor::empty(device_, {2 * words}, DType::kI32, MemoryCategory::kCommunication);
}

// [region first_step]
/// Member j of this step gets the pieces of all owners in column j: rank j of each node.
ShardReducer::UnderWay QuantizedReducer::begin_first_step(std::size_t group,
                                                          const Tensor& flat) const {
  const std::size_t shard = groups_[group].layout.shard;
  const std::size_t words = quantized_bytes(format_, shard, dtype_) / size_of(DType::kI32);
  const std::size_t members = size_as_count(first_);
  const std::size_t nodes = ranks_ / members;
  const Tensor exchange = exchange_memory(ranks_ * words);
  for (std::size_t member = 0; member < members; ++member) {
    for (std::size_t node = 0; node < nodes; ++node) {
      const std::size_t owner = node * members + member;
      quantize(format_, piece_of(flat, owner, shard),
               piece_of(sent(exchange), member * nodes + node, words));
    }
  }
  const Communicator labeled = first_.labeled("reduce " + groups_[group].name);
  return {group, exchange, labeled.all_to_all(sent(exchange), received(exchange))};
}
// [/region]

// [region sums]
/// [columns * shard] What the members of a step sent, added up in their order.
Tensor QuantizedReducer::sum_of(const Tensor& exchange, std::size_t columns,
                                std::size_t shard) const {
  const std::size_t words = quantized_bytes(format_, shard, dtype_) / size_of(DType::kI32);
  const Tensor sums =
      Tensor::zeros(device_, {columns * shard}, dtype_, MemoryCategory::kCommunication);
  const std::size_t messages = received(exchange).numel() / words;
  for (std::size_t message = 0; message < messages; ++message) {
    add_dequantized(format_, piece_of(received(exchange), message, words),
                    piece_of(sums, message % columns, shard));
  }
  return sums;
}

/// [shard] The sum over all nodes.
/// @param columns  [nodes * shard] this node's sums for the owners in this rank's column.
Tensor QuantizedReducer::exchanged_between_nodes(std::size_t group, const Tensor& columns) const {
  const std::size_t shard = groups_[group].layout.shard;
  const std::size_t words = quantized_bytes(format_, shard, dtype_) / size_of(DType::kI32);
  const std::size_t nodes = size_as_count(*second_);
  const Tensor exchange = exchange_memory(nodes * words);
  for (std::size_t node = 0; node < nodes; ++node) {
    quantize(format_, piece_of(columns, node, shard), piece_of(sent(exchange), node, words));
  }
  second_->labeled("reduce " + groups_[group].name)
      .all_to_all(sent(exchange), received(exchange))
      .wait();
  return sum_of(exchange, 1, shard);
}
// [/region]

// [region drain_oldest]
/// Makes the sum of the pieces, which is then taken in as any other.
void QuantizedReducer::drain_oldest() {
  UnderWay& oldest = under_way_.front();
  oldest.work.wait();  // or pieces that have not arrived would be added up
  const std::size_t columns = ranks_ / size_as_count(first_);
  Tensor sum = sum_of(oldest.own, columns, groups_[oldest.group].layout.shard);
  oldest.own = Tensor();
  if (second_) sum = exchanged_between_nodes(oldest.group, sum);
  oldest.own = sum;
  ShardReducer::drain_oldest();
}
// [/region]

ZeroPlusPlusUnit::ZeroPlusPlusUnit(ParameterGroup group, const Communicator& shards,
                                   const ZeroPlusPlus& how, const std::optional<NodeGroups>& nodes)
    : group_(std::move(group)),
      shards_(shards.labeled("gather " + group_.name)),
      format_(how.weights),
      shard_(group_.flat(group_.layout.shard, MemoryCategory::kParameters)) {
  if (how.secondary == SecondaryShards::kInNode) {
    ensure(nodes.has_value(), "secondary shards lie in nodes");
    node_ = nodes->node.labeled("gather " + group_.name);
  }
  group_.initialize(shard_, shards.rank());
}

Tensor ZeroPlusPlusUnit::memory_for_gather() const {
  if (!format_) return group_.flat(group_.layout.padded, MemoryCategory::kCommunication);
  const std::size_t words =
      quantized_bytes(*format_, shard_.numel(), shard_.dtype()) / size_of(DType::kI32);
  return Tensor::empty(shard_.device(), {words * checked_cast<std::size_t>(shards_.size())},
                       DType::kI32, MemoryCategory::kCommunication);
}

// [region start_gather]
void ZeroPlusPlusUnit::start_gather() {
  ensure(!gathered_.defined() && !whole_.defined(), "a unit is gathered after it was released");
  gathered_ = memory_for_gather();
  if (use_ != UseKind::kForward && secondary_.defined()) {
    gather_ = node_->all_gather(secondary_, gathered_);
    return;
  }
  if (!format_) {
    gather_ = shards_.all_gather(shard_, gathered_);
    return;
  }
  const Tensor own = own_shard(gathered_, shards_);
  quantize(*format_, shard_, own);
  gather_ = shards_.all_gather(own, gathered_);
}
// [/region]

// [region wait]
void ZeroPlusPlusUnit::wait() {
  if (whole_.defined()) return;
  ensure(gathered_.defined(), "start_gather() comes before wait()");
  gather_.wait();  // or the pass would read weights that have not arrived
  renew_secondary();
  whole_ = format_ ? dequantized() : gathered_;
  gathered_ = Tensor();
  for (std::size_t i = 0; i < group_.parameters.size(); ++i) {
    group_.parameters[i]->set_value(group_.view(whole_, i));
  }
}

/// Every forward pass may be the first one after an update.
void ZeroPlusPlusUnit::renew_secondary() {
  if (!node_ || use_ != UseKind::kForward) return;
  const Tensor own = own_shard(gathered_, *node_);
  if (secondary_.defined()) {
    secondary_.copy_from(own);
  } else {
    secondary_ = own.clone(MemoryCategory::kParameters);
  }
}

Tensor ZeroPlusPlusUnit::dequantized() const {
  const Tensor whole = group_.flat(group_.layout.padded, MemoryCategory::kCommunication);
  for (int rank = 0; rank < shards_.size(); ++rank) {
    dequantize(*format_, part_of(gathered_, rank, shards_.size()),
               part_of(whole, rank, shards_.size()));
  }
  return whole;
}
// [/region]

void ZeroPlusPlusUnit::release() {
  ensure(whole_.defined(), "a unit that is released was gathered");
  for (nn::Parameter* parameter : group_.parameters) parameter->drop_value();
  whole_ = Tensor();
}

FullyShardedParts::FullyShardedParts(ShardGroups ranks, ZeroSettings settings,
                                     std::shared_ptr<OffloadedStates> offloaded)
    : ranks_(std::move(ranks)), settings_(std::move(settings)), offloaded_(std::move(offloaded)) {
  const std::optional<std::size_t> node_size = settings_.plus_plus.node_size;
  if (node_size) nodes_ = make_node_groups(ranks_.shards, *node_size);
}

Units FullyShardedParts::units(const std::vector<ParameterGroup>& groups) const {
  if (settings_.offload.offloads_parameters()) {
    return offloaded_units(groups, ranks_.shards, *offloaded_);
  }
  const ZeroPlusPlus& how = settings_.plus_plus;
  Units units;
  for (const ParameterGroup& group : groups) {
    if (how.changes_weights()) {
      units.push_back(std::make_unique<ZeroPlusPlusUnit>(group, ranks_.shards, how, nodes_));
    } else if (group.cut == ShardCut::kRows) {
      units.push_back(row_unit(group, ranks_.shards, settings_.gather));
    } else {
      units.push_back(std::make_unique<UnitWeights>(group, ranks_.shards));
    }
  }
  return units;
}

std::unique_ptr<ShardFetches> FullyShardedParts::fetches(const std::vector<nn::Model*>& chunks,
                                                         const std::vector<ChunkUnits>& parts,
                                                         const Units& units) const {
  if (!settings_.offload.offloads_parameters()) return nullptr;
  // One use earlier than it is gathered, unless nothing shall overlap.
  const std::size_t earlier = settings_.overlap == Overlap::kOn ? 1 : 0;
  return std::make_unique<ShardFetches>(chunks, parts, units, settings_.prefetch + earlier);
}

std::unique_ptr<GroupReducer> FullyShardedParts::reducer(
    const std::vector<ParameterGroup>& groups, const train::StepSchedule& schedule) const {
  const std::optional<BlockFormat>& format = settings_.plus_plus.gradients;
  const Overlap overlap = settings_.overlap;
  if (!format || groups.empty()) {
    return joined_by_tree(shard_reducer(groups, ranks_, overlap, schedule), groups, schedule);
  }
  const nn::Parameter& first = *groups.front().parameters.front();
  auto quantized = std::make_unique<QuantizedReducer>(
      reduced(groups), ranks_.shards, nodes_, *format, first.device(), first.grad_dtype(), overlap);
  return joined_by_tree(
      summed_over_copies(std::move(quantized), groups, ranks_.replicas, overlap, schedule), groups,
      schedule);
}

}  // namespace ultra::zero
