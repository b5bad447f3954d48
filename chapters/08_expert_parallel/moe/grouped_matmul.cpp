#include "chapters/08_expert_parallel/moe/grouped_matmul.hpp"

#include <fmt/format.h>

#include <numeric>

#include "common/base/errors.hpp"

namespace ultra::expert_parallel {

void grouped_matmul_into(const Tensor& out, const Tensor& a, std::span<const std::size_t> rows,
                         std::span<const Tensor> matrices, ops::Transpose transpose,
                         ops::Write write) {
  const std::size_t all = std::accumulate(rows.begin(), rows.end(), std::size_t{0});
  if (all != a.size(0) || rows.size() != matrices.size()) {
    throw ShapeError(fmt::format("grouped_matmul: {} groups of {} rows for {} matrices and {} rows",
                                 rows.size(), all, matrices.size(), a.size(0)));
  }
  std::size_t begin = 0;
  for (std::size_t g = 0; g < rows.size(); ++g) {
    const Range group{begin, begin + rows[g]};
    begin = group.end;
    if (rows[g] == 0) continue;
    ops::matmul_into(out.slice(0, group), a.slice(0, group), ops::Transpose::kNo, matrices[g],
                     transpose, write);
  }
}

Tensor grouped_matmul(const Tensor& a, std::span<const std::size_t> rows,
                      std::span<const Tensor> matrices, ops::Transpose transpose) {
  ensure(!matrices.empty(), "a group");
  const std::size_t n = matrices[0].size(transpose == ops::Transpose::kYes ? 0 : 1);
  Tensor out = Tensor::empty(a.device(), {a.size(0), n}, a.dtype());
  grouped_matmul_into(out, a, rows, matrices, transpose);
  return out;
}

}  // namespace ultra::expert_parallel
