#include "chapters/03_data_parallel/compression/equal_copies.hpp"

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
  std::map<std::set<std::string>, std::size_t> numbers;
  std::vector<std::size_t> counts;
  std::vector<std::size_t> kinds;
  for (const nn::Parameter* parameter : parameters) {
    counts.push_back(parameter->count());
    kinds.push_back(
        numbers.try_emplace(groups_of_copies(*parameter), numbers.size()).first->second);
  }
  return assign_buckets_by_kind(counts, kinds, capacity);
}

}  // namespace ultra::data_parallel
