#include "chapters/08_expert_parallel/moe/expert_exchange.hpp"

#include <utility>

namespace ultra::expert_parallel {
namespace {

constexpr MemoryCategory kTravels = MemoryCategory::kCommunication;

/// One rank's rows, or one expert's, need no other order.
bool orders_are_one(const DispatchCounts& counts) {
  return counts.send_rows.size() == 1 || counts.local_experts() == 1;
}

/// Copies segment i from from[i] to to[i].
Tensor moved(const Tensor& rows, const std::vector<std::size_t>& sizes,
             const std::vector<std::size_t>& from, const std::vector<std::size_t>& to) {
  Tensor out = Tensor::empty(rows.device(), rows.shape(), rows.dtype());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    out.slice(0, {to[i], to[i] + sizes[i]}).copy_from(rows.slice(0, {from[i], from[i] + sizes[i]}));
  }
  return out;
}

}  // namespace

Tensor in_expert_order(const Tensor& rows, const DispatchCounts& counts) {
  if (orders_are_one(counts)) return rows;
  const RowSegments segments = row_segments(counts);
  return moved(rows, segments.rows, segments.by_ranks, segments.by_experts);
}

Tensor in_rank_order(const Tensor& rows, const DispatchCounts& counts) {
  if (orders_are_one(counts)) return rows;
  const RowSegments segments = row_segments(counts);
  return moved(rows, segments.rows, segments.by_experts, segments.by_ranks);
}

InFlightRows ExpertExchange::exchange(const Tensor& rows, std::span<const std::size_t> send,
                                      std::span<const std::size_t> receive,
                                      const char* label) const {
  if (ep_.size() == 1) return {{}, rows, Work()};
  std::size_t arriving = 0;
  for (const std::size_t count : receive) arriving += count;
  const Tensor arrived =
      Tensor::empty(rows.device(), {arriving, rows.size(1)}, rows.dtype(), kTravels);
  Work work = ep_.labeled(label).all_to_all_v(rows, send, arrived, receive);
  return {rows, arrived, std::move(work)};
}

InFlightRows ExpertExchange::dispatch(const Tensor& rows, const DispatchCounts& counts) const {
  return exchange(rows, counts.send_rows, counts.receive_rows, "dispatch");
}

InFlightRows ExpertExchange::combine(const Tensor& rows, const DispatchCounts& counts) const {
  return exchange(rows, counts.receive_rows, counts.send_rows, "combine");
}

}  // namespace ultra::expert_parallel
