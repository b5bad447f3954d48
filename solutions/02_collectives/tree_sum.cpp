#include "chapters/02_collectives/tree_sum.hpp"

#include <algorithm>

namespace ultra::collectives {

// [region tree_sum]
std::vector<Join> tree_joins(std::size_t nodes) {
  std::vector<Join> joins;
  for (std::size_t width = 1; width < nodes; width *= 2) {
    for (std::size_t i = 0; i + width < nodes; i += 2 * width) joins.push_back({i, i + width});
  }
  return joins;
}

float tree_sum(std::span<const float> terms, std::size_t block) {
  std::vector<float> sums;
  for (std::size_t first = 0; first < terms.size(); first += block) {
    float sum = 0;
    for (const float term : terms.subspan(first, std::min(block, terms.size() - first))) {
      sum += term;
    }
    sums.push_back(sum);
  }
  for (const auto& [into, from] : tree_joins(sums.size())) sums[into] += sums[from];
  return sums.front();
}
// [/region]

}  // namespace ultra::collectives
