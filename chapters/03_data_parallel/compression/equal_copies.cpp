#include "chapters/03_data_parallel/compression/equal_copies.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace ultra::data_parallel {
namespace {

/// The groups whose ranks compute the same gradient.
std::set<std::string> groups_of_copies(const nn::Parameter& parameter) {
  std::set<std::string> groups;
  for (const nn::Replication& replication : parameter.replications()) {
    const bool equal = replication.gradients == nn::CopyGradients::kEqual;
    if (equal && replication.size > 1) groups.insert(replication.group);
  }
  return groups;
}

}  // namespace

std::vector<Bucket> buckets_of_equal_copies(const std::vector<nn::Parameter*>& parameters,
                                            std::size_t capacity) {
  std::map<std::set<std::string>, std::vector<std::size_t>> alike;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    alike[groups_of_copies(*parameters[p])].push_back(p);
  }
  std::vector<Bucket> all;
  for (const auto& [groups, numbers] : alike) {
    std::vector<std::size_t> counts;
    for (const std::size_t p : numbers) counts.push_back(parameters[p]->count());
    for (Bucket& bucket : assign_buckets(counts, capacity)) {
      for (std::size_t& p : bucket.parameters) p = numbers[p];
      all.push_back(std::move(bucket));
    }
  }
  // A bucket is full when its first parameter in forward order is there.
  std::ranges::sort(all, std::ranges::greater(),
                    [](const Bucket& bucket) { return std::ranges::min(bucket.parameters); });
  return all;
}

}  // namespace ultra::data_parallel
