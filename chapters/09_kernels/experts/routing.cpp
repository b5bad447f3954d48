#include "chapters/09_kernels/experts/routing.hpp"

#include <algorithm>
#include <numeric>

#include "common/tensor/philox.hpp"

namespace ultra::ladders {

std::vector<int> draw_experts(const RoutingShape& shape, std::uint64_t seed) {
  const PhiloxStream stream(seed, "experts of tokens");
  const auto experts = static_cast<std::uint64_t>(shape.experts);
  std::vector<int> chosen;
  std::uint64_t counter = 0;
  for (int token = 0; token < shape.tokens; ++token) {
    const auto own = static_cast<std::ptrdiff_t>(chosen.size());
    while (chosen.size() < static_cast<std::size_t>(own + shape.top_k)) {
      const bool is_popular = stream.below(counter++, 2) == 0;
      const std::uint64_t among = is_popular ? std::max<std::uint64_t>(experts / 4, 1) : experts;
      const auto expert = static_cast<int>(stream.below(counter++, among));
      if (std::find(chosen.begin() + own, chosen.end(), expert) == chosen.end()) {
        chosen.push_back(expert);
      }
    }
  }
  return chosen;
}

std::vector<int> begins_of(const std::vector<int>& experts_of_tokens, int experts) {
  std::vector<int> begins(static_cast<std::size_t>(experts) + 1, 0);
  for (const int expert : experts_of_tokens) {
    ++begins[static_cast<std::size_t>(expert) + 1];
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  return begins;
}

}  // namespace ultra::ladders
