#include "common/checkpoint/safetensors/element_runs.hpp"

#include <algorithm>

#include "common/base/errors.hpp"

namespace ultra::checkpoint {
namespace {

/// The row-major index in the whole tensor of an element of the shard.
std::size_t global_index(const Shape& whole, std::span<const Range> shard, std::size_t element) {
  std::size_t index = 0;
  std::size_t stride = 1;
  for (std::size_t dim = whole.rank(); dim-- > 0;) {
    const std::size_t extent = shard[dim].size();
    index += (shard[dim].begin + element % extent) * stride;
    element /= extent;
    stride *= whole.dims()[dim];
  }
  return index;
}

/// Elements of the shard that follow each other in the whole tensor, from the first of them on.
std::size_t run_length(const Shape& whole, std::span<const Range> shard) {
  std::size_t length = 1;
  for (std::size_t dim = whole.rank(); dim-- > 0;) {
    length *= shard[dim].size();
    if (shard[dim].size() != whole.dims()[dim]) break;
  }
  return length;
}

}  // namespace

std::vector<ElementRun> element_runs(const Shape& whole, std::span<const Range> shard,
                                     Range elements) {
  if (elements.begin == elements.end) return {};
  if (shard.empty()) {
    ensure(elements.end <= whole.numel(), "elements inside the tensor");
    return {{.global = elements.begin, .local = 0, .count = elements.size()}};
  }
  ensure(shard.size() == whole.rank(), "a shard has a range for each dimension");
  std::size_t count = 1;
  for (std::size_t dim = 0; dim < shard.size(); ++dim) {
    ensure(shard[dim].end <= whole.dims()[dim], "a shard inside the tensor");
    count *= shard[dim].size();
  }
  ensure(elements.end <= count, "elements inside the shard");
  const std::size_t length = run_length(whole, shard);
  std::vector<ElementRun> runs;
  for (std::size_t at = elements.begin; at < elements.end;) {
    const std::size_t end = std::min(elements.end, at / length * length + length);
    runs.push_back({.global = global_index(whole, shard, at),
                    .local = at - elements.begin,
                    .count = end - at});
    at = end;
  }
  return runs;
}

}  // namespace ultra::checkpoint
