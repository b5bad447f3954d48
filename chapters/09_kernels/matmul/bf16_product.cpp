#include "chapters/09_kernels/matmul/bf16_product.hpp"

#include <fmt/format.h>

#include "chapters/09_kernels/bf16_values.hpp"

namespace ultra::ladders {
namespace {

constexpr std::size_t kMostProducts = std::size_t{1} << 25;  // of the f64 computation

}  // namespace

std::string refuse_ragged_rows(int depth, const char* hint) {
  if (depth % 8 == 0) return {};
  return fmt::format(
      "the depth is {}, expected a multiple of 8: rows of a and b must begin at multiples of 16 "
      "bytes{}",
      depth, hint);
}

Verdict judge_bf16_product(const std::vector<simt::bf16>& c, std::size_t depth, int additions,
                           const std::function<ProductRows(std::size_t)>& rows_of,
                           std::uint64_t seed) {
  const double operations = 4.0 * (static_cast<double>(depth) + 16) + additions;
  Verdict verdict;
  for (const std::size_t index : sample(c.size(), kMostProducts / depth + 2, seed)) {
    const ProductRows rows = rows_of(index);
    ExactSum sum;
    for (std::size_t k = 0; k < depth; ++k) {
      sum.add(value_of(rows.left[k]) * value_of(rows.right[k]));
    }
    const double error = rounding_of(operations) * sum.magnitude;
    verdict.compare("c", index, value_of(c[index]), sum.value, bf16_error(sum.value, error));
  }
  return verdict;
}

}  // namespace ultra::ladders
