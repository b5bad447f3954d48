#include "chapters/03_data_parallel/bucket_assignment.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

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

// [region by_kind]
std::vector<Bucket> assign_buckets_by_kind(std::span<const std::size_t> counts,
                                           std::span<const std::size_t> kinds,
                                           std::size_t capacity) {
  std::map<std::size_t, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < counts.size(); ++i) alike[kinds[i]].push_back(i);
  std::vector<Bucket> buckets;
  for (const auto& [kind, parameters] : alike) {
    std::vector<std::size_t> of_kind;
    for (const std::size_t i : parameters) of_kind.push_back(counts[i]);
    for (Bucket& bucket : assign_buckets(of_kind, capacity)) {
      for (std::size_t& i : bucket.parameters) i = parameters[i];
      buckets.push_back(std::move(bucket));
    }
  }
  const auto full_with = [](const Bucket& bucket) { return bucket.parameters.back(); };
  std::ranges::sort(buckets, std::ranges::greater(), full_with);
  return buckets;
}
// [/region]

}  // namespace ultra::data_parallel
