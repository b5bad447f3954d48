#include "chapters/04_zero/zero_plus_plus/quantized_reducer.hpp"

#include <utility>

#include "common/base/numeric.hpp"
#include "common/comm/collectives/reduce_op.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/ops/elementwise.hpp"

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

}  // namespace

QuantizedReducer::QuantizedReducer(std::vector<ReducedGroup> groups, const Communicator& shards,
                                   const std::optional<NodeGroups>& nodes,
                                   const BlockFormat& format, Device device, DType dtype,
                                   Overlap overlap)
    : groups_(std::move(groups)),
      first_(are_nodes(nodes) ? nodes->node : shards),
      second_(are_nodes(nodes) ? std::optional(nodes->across) : std::nullopt),
      ranks_(size_as_count(shards)),
      format_(format),
      device_(std::move(device)),
      dtype_(dtype),
      overlap_(overlap),
      shards_(groups_.size()) {}

Tensor QuantizedReducer::open(std::size_t group) {
  while (under_way_.size() > 1) take_in_oldest();
  const FlatLayout& layout = groups_[group].layout;
  open_ = Tensor::empty(device_, {layout.padded}, dtype_, MemoryCategory::kCommunication);
  open_.slice(0, {layout.count, layout.padded}).fill(0.0);
  return open_;
}

void QuantizedReducer::flush(std::size_t group) {
  under_way_.push_back({group, begin_first_step(group, open_)});
  open_ = Tensor();  // it was quantised: only the pieces are on their way
  if (overlap_ == Overlap::kOff) finish();
}

void QuantizedReducer::finish() {
  while (!under_way_.empty()) take_in_oldest();
}

void QuantizedReducer::drop() {
  for (Tensor& shard : shards_) shard = Tensor();
}

QuantizedReducer::Exchange QuantizedReducer::make_exchange(std::size_t words) const {
  const auto memory = [&] {
    return Tensor::empty(device_, {words}, DType::kI32, MemoryCategory::kCommunication);
  };
  return {.sent = memory(), .received = memory(), .work = {}};
}

// [region first_step]
/// Member j of this step gets the pieces of all owners in column j: rank j of each node.
QuantizedReducer::Exchange QuantizedReducer::begin_first_step(std::size_t group,
                                                              const Tensor& flat) const {
  const std::size_t shard = groups_[group].layout.shard;
  const std::size_t words = quantized_bytes(format_, shard, dtype_) / size_of(DType::kI32);
  const std::size_t members = size_as_count(first_);
  const std::size_t nodes = ranks_ / members;
  Exchange exchange = make_exchange(ranks_ * words);
  for (std::size_t member = 0; member < members; ++member) {
    for (std::size_t node = 0; node < nodes; ++node) {
      const std::size_t owner = node * members + member;
      quantize(format_, piece_of(flat, owner, shard),
               piece_of(exchange.sent, member * nodes + node, words));
    }
  }
  exchange.work = first_.labeled("reduce " + groups_[group].name)
                      .all_to_all_async(exchange.sent, exchange.received);
  return exchange;
}
// [/region]

// [region sums]
/// [columns * shard] What the members of a step sent, added up in their order.
Tensor QuantizedReducer::sum_of(const Exchange& exchange, std::size_t columns,
                                std::size_t shard) const {
  const std::size_t words = quantized_bytes(format_, shard, dtype_) / size_of(DType::kI32);
  const Tensor sums =
      Tensor::zeros(device_, {columns * shard}, dtype_, MemoryCategory::kCommunication);
  const std::size_t messages = exchange.received.numel() / words;
  for (std::size_t message = 0; message < messages; ++message) {
    add_dequantized(format_, piece_of(exchange.received, message, words),
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
  const Exchange exchange = make_exchange(nodes * words);
  for (std::size_t node = 0; node < nodes; ++node) {
    quantize(format_, piece_of(columns, node, shard), piece_of(exchange.sent, node, words));
  }
  second_->labeled("reduce " + groups_[group].name).all_to_all(exchange.sent, exchange.received);
  return sum_of(exchange, 1, shard);
}
// [/region]

// [region take_in_oldest]
void QuantizedReducer::take_in_oldest() {
  const std::size_t group = under_way_.front().group;
  Exchange exchange = std::move(under_way_.front().exchange);
  under_way_.pop_front();
  exchange.work.wait();  // or pieces that have not arrived would be added up
  Tensor sum = sum_of(exchange, ranks_ / size_as_count(first_), groups_[group].layout.shard);
  exchange = {};
  if (second_) sum = exchanged_between_nodes(group, sum);
  comm::divide(dtype_, comm::bytes_of(sum).data(), sum.numel(), checked_cast<int>(ranks_));
  Tensor& shard = shards_[group];
  if (shard.defined()) {
    ops::add_into(shard, sum);
  } else {
    shard = sum.clone(MemoryCategory::kGradients);
  }
}
// [/region]

}  // namespace ultra::zero
