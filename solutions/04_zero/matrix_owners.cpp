#include "chapters/04_zero/whole_matrices/matrix_owners.hpp"

#include <algorithm>
#include <numeric>

namespace ultra::zero {

// [region matrix_owners]
std::vector<int> matrix_owners(std::span<const std::size_t> costs, int ranks) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  std::vector<std::size_t> loads(static_cast<std::size_t>(ranks), 0);
  std::vector<int> owners(costs.size());
  for (const std::size_t matrix : order) {
    const auto least = std::ranges::min_element(loads);
    *least += costs[matrix];
    owners[matrix] = static_cast<int>(least - loads.begin());
  }
  return owners;
}
// [/region]

}  // namespace ultra::zero
