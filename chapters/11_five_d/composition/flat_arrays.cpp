#include "chapters/11_five_d/composition/flat_arrays.hpp"

#include <algorithm>
#include <iterator>

#include "chapters/03_data_parallel/bucket_assignment.hpp"
#include "chapters/04_zero/zero.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "common/base/numeric.hpp"

namespace ultra::five_d {
namespace {

/// The tensors of one data group in flat arrays, in backward order.
using Arrays = std::vector<std::vector<RankTensor>>;

/// One array for each part of the model.
Arrays by_part(const std::vector<RankTensor>& tensors) {
  Arrays arrays;
  for (const RankTensor& tensor : tensors) {
    const bool opens = arrays.empty() || arrays.back().front().chunk != tensor.chunk ||
                       arrays.back().front().part != tensor.part;
    if (opens) arrays.emplace_back();
    arrays.back().push_back(tensor);
  }
  std::ranges::reverse(arrays);
  return arrays;
}

/// Tensors that may stand in a bucket together.
Arrays companies(const std::vector<RankTensor>& tensors) {
  Arrays companies;
  bool open = false;
  for (const RankTensor& tensor : tensors) {
    const bool other = companies.empty() || companies.back().front().chunk != tensor.chunk;
    if (other || tensor.alone || !open) companies.emplace_back();
    companies.back().push_back(tensor);
    open = !tensor.alone;
  }
  return companies;
}

Arrays by_bucket(const std::vector<RankTensor>& tensors, std::size_t capacity) {
  Arrays arrays;
  for (const auto& company : companies(tensors)) {
    std::vector<std::size_t> counts;
    for (const RankTensor& tensor : company) counts.push_back(tensor.count);
    for (const data_parallel::Bucket& bucket : data_parallel::assign_buckets(counts, capacity)) {
      arrays.emplace_back();
      for (const std::size_t i : bucket.parameters) arrays.back().push_back(company[i]);
    }
  }
  return arrays;
}

}  // namespace

Sharing sharing_of(const train::Setup& setup, DataGroup group) {
  const auto data_ranks = static_cast<std::size_t>(setup.data_ranks());
  const std::size_t ep =
      group == DataGroup::kExperts ? setup.ranks_along(expert_parallel::kAxis) : 1;
  const std::size_t ranks = group == DataGroup::kOwn ? 1 : data_ranks / ep;
  const zero::ZeroOptions& zero = zero::zero_of(setup).options();
  const std::size_t shards = zero.shards() ? std::min(ranks, zero.node_size.value_or(ranks)) : 1;
  return {.ranks = ranks, .shards = shards, .copies = ranks / shards};
}

std::vector<FlatArray> flat_arrays(const train::Setup& setup,
                                   const std::vector<RankTensor>& tensors, DataGroup group) {
  std::vector<RankTensor> own;
  std::ranges::copy_if(tensors, std::back_inserter(own),
                       [&](const RankTensor& tensor) { return tensor.group == group; });
  const zero::ZeroSettings settings = zero::zero_of(setup).settings(setup);
  const int shards = checked_cast<int>(sharing_of(setup, group).shards);
  std::vector<FlatArray> arrays;
  for (const auto& array : zero::shards_parameters(settings.stage)
                               ? by_part(own)
                               : by_bucket(own, settings.bucket_capacity)) {
    std::vector<std::size_t> counts;
    for (const RankTensor& tensor : array) counts.push_back(tensor.count);
    arrays.push_back({.layout = zero::flat_layout(counts, shards),
                      .chunk = array.front().chunk,
                      .part = array.front().part});
  }
  return arrays;
}

}  // namespace ultra::five_d
