#include "chapters/05_tensor_sequence_parallel/sequence_region.hpp"

namespace ultra::tensor_parallel {

Tensor join_sequences(const Tensor& parts) {
  const Shape joined{parts.size(1), parts.size(0) * parts.size(2), parts.size(3)};
  return parts.size(1) == 1 ? parts.view(joined) : parts.transpose(0, 1).reshape(joined);
}

Tensor cut_sequences(const Tensor& x, std::size_t ranks) {
  const std::size_t batch = x.size(0);
  const std::size_t local_seq = x.size(1) / ranks;
  if (batch == 1) return x.view({ranks, 1, local_seq, x.size(2)});
  return x.view({batch, ranks, local_seq, x.size(2)}).transpose(0, 1).contiguous();
}

}  // namespace ultra::tensor_parallel
