#include "common/tensor/shape.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "common/base/errors.hpp"

namespace ultra {

Shape::Shape(std::initializer_list<std::size_t> dims)
    : Shape(std::span<const std::size_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::size_t> dims) : rank_(dims.size()) {
  if (dims.size() > kMaxRank) {
    throw ShapeError(
        fmt::format("a shape holds at most {} dimensions, found {}", kMaxRank, dims.size()));
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::size_t Shape::index_of(int dim) const {
  const int rank = static_cast<int>(rank_);
  const int index = dim < 0 ? dim + rank : dim;
  if (index < 0 || index >= rank) {
    throw ShapeError(fmt::format("shape {} has no dimension {}", str(), dim));
  }
  return static_cast<std::size_t>(index);
}

std::size_t Shape::operator[](int dim) const { return dims_[index_of(dim)]; }

std::size_t Shape::numel() const {
  return std::accumulate(dims_.begin(), dims_.begin() + static_cast<std::ptrdiff_t>(rank_),
                         std::size_t{1}, std::multiplies<>());
}

Shape Shape::with(int dim, std::size_t extent) const {
  Shape result = *this;
  result.dims_[index_of(dim)] = extent;
  return result;
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

}  // namespace ultra
