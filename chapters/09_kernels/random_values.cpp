#include "chapters/09_kernels/random_values.hpp"

#include <algorithm>
#include <cstddef>

#include "common/tensor/philox.hpp"

namespace ultra::ladders {

std::vector<float> normal_values(std::size_t count, std::uint64_t seed, std::string_view name) {
  const PhiloxStream stream(seed, name);
  std::vector<float> values(count);
  const std::size_t drawn = std::min(count, kDrawnNumbers);
  for (std::size_t i = 0; i < drawn; ++i) {
    values[i] = static_cast<float>(stream.normal(i));
  }
  for (std::size_t i = drawn; i < count; i += drawn) {
    std::copy_n(values.begin(), std::min(drawn, count - i),
                values.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return values;
}

}  // namespace ultra::ladders
