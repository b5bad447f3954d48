#include "chapters/08_expert_parallel/dispatch_counts.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::expert_parallel {

// [region counts]
DispatchCounts counts_of(std::span<const std::size_t> rows_per_expert,
                         std::vector<std::size_t> received, std::size_t ranks) {
  const std::size_t local = rows_per_expert.size() / ranks;
  DispatchCounts counts{.send_rows = std::vector<std::size_t>(ranks, 0),
                        .receive_rows = std::vector<std::size_t>(ranks, 0),
                        .received = std::move(received)};
  for (std::size_t i = 0; i < rows_per_expert.size(); ++i) {
    counts.send_rows[i / local] += rows_per_expert[i];
    counts.receive_rows[i / local] += counts.received[i];
  }
  return counts;
}

DispatchCounts dispatch_counts(std::span<const std::size_t> rows_per_expert,
                               const Communicator& ep) {
  const auto ranks = checked_cast<std::size_t>(ep.size());
  ensure(rows_per_expert.size() % ranks == 0, "as many experts on every rank");
  const Shape shape{ranks, rows_per_expert.size() / ranks};
  const Tensor send_counts = Tensor::empty(Device::cpu(), shape, DType::kI32);
  std::ranges::transform(rows_per_expert, send_counts.data<std::int32_t>(),
                         [](std::size_t rows) { return checked_cast<std::int32_t>(rows); });
  Tensor recv_counts = send_counts;
  if (ranks > 1) {
    recv_counts = Tensor::empty(Device::cpu(), shape, DType::kI32);
    ep.labeled("dispatch counts").all_to_all(send_counts, recv_counts).wait();
  }
  const std::span<const std::int32_t> received = recv_counts.span<std::int32_t>();
  return counts_of(rows_per_expert, {received.begin(), received.end()}, ranks);
}

std::vector<std::size_t> DispatchCounts::rows_per_local_expert() const {
  std::vector<std::size_t> rows(local_experts(), 0);
  for (std::size_t i = 0; i < received.size(); ++i) rows[i % rows.size()] += received[i];
  return rows;
}
// [/region]

// [region segments]
RowSegments row_segments(const DispatchCounts& counts) {
  RowSegments segments{.rows = counts.received,
                       .by_ranks = {},
                       .by_experts = std::vector<std::size_t>(counts.received.size(), 0)};
  std::size_t begin = 0;
  for (const std::size_t rows : segments.rows) {
    segments.by_ranks.push_back(begin);
    begin += rows;
  }
  const std::size_t experts = counts.local_experts();
  begin = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    for (std::size_t i = e; i < segments.rows.size(); i += experts) {
      segments.by_experts[i] = begin;
      begin += segments.rows[i];
    }
  }
  return segments;
}
// [/region]

}  // namespace ultra::expert_parallel
