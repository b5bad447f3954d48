#include "chapters/03_data_parallel/bucket_assignment.hpp"

namespace ultra::data_parallel {

// [region assign_buckets]
std::vector<Bucket> assign_buckets(std::span<const std::size_t> counts, std::size_t capacity) {
  std::vector<Bucket> buckets;
  for (std::size_t i = counts.size(); i-- > 0;) {
    if (buckets.empty() || buckets.back().count + counts[i] > capacity) buckets.emplace_back();
    buckets.back().parameters.push_back(i);
    buckets.back().count += counts[i];
  }
  return buckets;
}
// [/region]

}  // namespace ultra::data_parallel
