#include "chapters/03_data_parallel/compression/compression_volume.hpp"

#include <cstdint>

#include "common/base/numeric.hpp"

namespace ultra::data_parallel {

double all_reduce_sent_bytes(int replicas, std::size_t count, DType dtype) {
  const auto others = static_cast<double>(replicas - 1);
  return 2.0 * others * static_cast<double>(count * size_of(dtype)) / static_cast<double>(replicas);
}

std::size_t compressed_sent_bytes(int replicas, std::size_t message_words) {
  return checked_cast<std::size_t>(replicas - 1) * message_words * sizeof(std::int32_t);
}

double power_sgd_sent_bytes(int replicas, std::span<const Shape> shapes, std::size_t rank,
                            DType dtype) {
  const PowerSgdCounts counts = power_sgd_counts(shapes, rank);
  return all_reduce_sent_bytes(replicas, counts.first, dtype) +
         all_reduce_sent_bytes(replicas, counts.second, dtype);
}

}  // namespace ultra::data_parallel
