#include "common/ops/sums/sum_tree.hpp"

#include <fmt/format.h>

namespace ultra::ops {

SumTree SumTree::of_axis(std::size_t length) {
  if (length == 0) throw ShapeError("the tree of a sum: an axis of 0 elements has no leaves");
  while (length > kLongestLeaf && length % 2 == 0) length /= 2;
  return SumTree(length);
}

std::size_t SumTree::depth(std::size_t part) const {
  const std::size_t count = leaves(part);
  return count < 2 ? 0 : static_cast<std::size_t>(std::bit_width(count - 1));
}

std::string SumTree::why_not(std::size_t length, std::size_t parts) const {
  if (parts == 1) return {};
  const bool divides = parts > 0 && length % parts == 0;
  if (divides && (length / parts) % leaf_ == 0 && std::has_single_bit(length / parts / leaf_)) {
    return {};
  }
  return fmt::format(
      "its sum is a tree over blocks of {} elements, and each part must be 1, 2, 4, 8, ... whole "
      "blocks; found {} parts of {} elements",
      leaf_, parts,
      divides ? fmt::format("{}", length / parts) : fmt::format("{} / {}", length, parts));
}

}  // namespace ultra::ops
