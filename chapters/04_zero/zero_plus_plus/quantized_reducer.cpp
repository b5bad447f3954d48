#include "chapters/04_zero/zero_plus_plus/quantized_reducer.hpp"

#include <utility>

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

}  // namespace ultra::zero
