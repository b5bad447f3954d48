#include "common/tensor/regions.hpp"

#include <algorithm>
#include <functional>
#include <vector>

namespace ultra {
namespace {

struct Dimension {
  std::size_t extent;
  std::size_t stride;
};

/// A view's dimensions, widest stride first, those that continue each other made one.
std::vector<Dimension> merged_dimensions(const Tensor& tensor) {
  std::vector<Dimension> all;
  for (int d = 0; d < static_cast<int>(tensor.shape().rank()); ++d) {
    if (tensor.shape()[d] != 1) all.push_back({tensor.shape()[d], tensor.strides()[d]});
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &Dimension::stride);
  std::vector<Dimension> merged;
  for (const Dimension& next : all) {
    if (!merged.empty() && merged.back().stride == next.extent * next.stride) {
      merged.back() = {merged.back().extent * next.extent, next.stride};
    } else {
      merged.push_back(next);
    }
  }
  return merged;
}

}  // namespace

gpu::Region region_of(const Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  const std::vector<Dimension> dimensions = merged_dimensions(tensor);
  const std::size_t element = size_of(tensor.dtype());
  gpu::Region region{.begin = tensor.address(), .bytes = element};
  if (dimensions.empty()) return region;
  // The elements of all dimensions but the widest are one run, gaps between them included.
  for (std::size_t i = 1; i < dimensions.size(); ++i) {
    region.bytes += (dimensions[i].extent - 1) * dimensions[i].stride * element;
  }
  region.runs = dimensions[0].extent;
  region.stride = dimensions[0].stride * element;
  if (region.stride > region.bytes) return region;
  return {.begin = region.begin, .bytes = (region.runs - 1) * region.stride + region.bytes};
}

}  // namespace ultra
