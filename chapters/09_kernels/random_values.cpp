#include "chapters/09_kernels/random_values.hpp"

#include "common/tensor/philox.hpp"

namespace ultra::ladders {

std::vector<float> normal_values(std::size_t count, std::uint64_t seed, std::string_view name) {
  const PhiloxStream stream(seed, name);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(stream.normal(i));
  }
  return values;
}

}  // namespace ultra::ladders
