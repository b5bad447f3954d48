#include "tests/chapters/08_expert_parallel/expert_volume.hpp"

#include <cstdint>

namespace ultra::expert_parallel {

RemoteRows even_remote_rows(const MoeConfig& moe, double tokens, std::size_t ep) {
  const auto ranks = static_cast<double>(ep);
  const double rows = static_cast<double>(moe.top_k) * tokens * (ranks - 1) / ranks;
  return {.sent = rows, .received = rows};
}

double exchanged_bytes(const RemoteRows& rows, std::size_t micro_batches, std::size_t forwards,
                       std::size_t hidden, std::size_t num_experts, std::size_t ep,
                       std::size_t element_bytes) {
  const auto passes = static_cast<double>(forwards + 1);
  const double of_rows =
      passes * (rows.sent + rows.received) * static_cast<double>(hidden * element_bytes);
  const std::size_t counts = num_experts / ep * (ep - 1) * sizeof(std::int32_t);
  return of_rows + static_cast<double>(micro_batches * forwards * counts);
}

}  // namespace ultra::expert_parallel
