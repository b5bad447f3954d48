#include "chapters/04_zero/shards/parameter_group.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ultra::zero {
namespace {

ParameterGroup make_group(const nn::Model& model, std::string name,
                          std::vector<std::size_t> numbers, int ranks) {
  ParameterGroup group{
      .name = std::move(name), .numbers = std::move(numbers), .parameters = {}, .layout = {}};
  std::vector<std::size_t> counts;
  for (const std::size_t number : group.numbers) {
    group.parameters.push_back(model.parameters()[number]);
    counts.push_back(group.parameters.back()->count());
  }
  group.layout = flat_layout(counts, ranks);
  return group;
}

}  // namespace

Tensor ParameterGroup::flat(std::size_t count, MemoryCategory category) const {
  const nn::Parameter& first = *parameters.front();
  return Tensor::empty(first.device(), {count}, first.dtype(), category);
}

Tensor ParameterGroup::view(const Tensor& flat, std::size_t i) const {
  return flat.slice(0, layout.places[i]).view(parameters[i]->shape());
}

void ParameterGroup::initialize(const Tensor& flat, std::size_t begin) const {
  flat.fill(0.0);
  const std::size_t end = begin + flat.numel();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Range& whole = layout.places[i];
    const Range here{std::max(whole.begin, begin), std::min(whole.end, end)};
    if (here.begin >= here.end) continue;
    parameters[i]->initial_values_into(flat.slice(0, {here.begin - begin, here.end - begin}),
                                       here.begin - whole.begin);
  }
}

std::vector<ParameterGroup> groups_by_bucket(const nn::Model& model, std::size_t capacity,
                                             int ranks) {
  std::vector<std::size_t> counts;
  for (const nn::Parameter* parameter : model.parameters()) counts.push_back(parameter->count());
  std::vector<ParameterGroup> groups;
  for (data_parallel::Bucket& bucket : data_parallel::assign_buckets(counts, capacity)) {
    groups.push_back(make_group(model, fmt::format("bucket {}", groups.size()),
                                std::move(bucket.parameters), ranks));
  }
  return groups;
}

std::vector<ParameterGroup> groups_by_part(const nn::Model& model, int ranks) {
  std::vector<ParameterGroup> groups;
  std::size_t next = 0;
  for (const nn::ModelPart& part : model.parts()) {
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < part.parameters.size(); ++i) numbers.push_back(next++);
    groups.push_back(make_group(model, part.name, std::move(numbers), ranks));
  }
  std::reverse(groups.begin(), groups.end());
  return groups;
}

std::vector<data_parallel::Bucket> as_buckets(const std::vector<ParameterGroup>& groups) {
  std::vector<data_parallel::Bucket> buckets;
  for (const ParameterGroup& group : groups) {
    buckets.push_back({.parameters = group.numbers, .count = group.layout.count});
  }
  return buckets;
}

}  // namespace ultra::zero
