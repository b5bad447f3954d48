#include "chapters/04_zero/shards/own_shard.hpp"

#include <cstddef>

#include "common/base/numeric.hpp"

namespace ultra::zero {

Tensor part_of(const Tensor& array, int index, int parts) {
  const std::size_t size = array.numel() / checked_cast<std::size_t>(parts);
  const std::size_t begin = checked_cast<std::size_t>(index) * size;
  return array.slice(0, {begin, begin + size});
}

Tensor own_shard(const Tensor& flat, const Communicator& shards) {
  return part_of(flat, shards.rank(), shards.size());
}

}  // namespace ultra::zero
