// Products of groups of rows, against one product per group.
//
// Covers: chapters/08_expert_parallel/moe/expert_linears.hpp

#include "chapters/08_expert_parallel/moe/expert_linears.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/errors.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/random.hpp"

namespace ultra::expert_parallel {
namespace {

using ops::Transpose;

class GroupedMatmul : public ultra::test::RandomTest {};

TEST_F(GroupedMatmul, EveryGroupHasItsOwnMatrix) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    const std::size_t k = random.between(1, 7);
    const std::size_t n = random.between(1, 7);
    std::vector<std::size_t> rows;
    std::vector<Tensor> matrices;
    std::size_t all = 0;
    for (std::size_t g = 0; g < 5; ++g) {
      rows.push_back(g == 2 ? 0 : random.between(0, 6));
      matrices.push_back(random.tensor(device, {n, k}, dtype));
      all += rows.back();
    }
    const Tensor a = random.tensor(device, {all, k}, dtype);
    const Tensor out = grouped_matmul(a, rows, matrices, Transpose::kYes);
    const Tensor twice = out.clone();
    grouped_matmul_into(twice, a, rows, matrices, Transpose::kYes, ops::Write::kAccumulate);
    std::size_t row = 0;
    for (std::size_t g = 0; g < rows.size(); ++g) {
      for (std::size_t r = 0; r < rows[g]; ++r, ++row) {
        for (std::size_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::size_t i = 0; i < k; ++i) {
            sum += a.to_vector()[row * k + i] * matrices[g].to_vector()[j * k + i];
          }
          const double tolerance = ultra::test::rounding_bound(dtype, 10, 30);
          EXPECT_NEAR(out.to_vector()[row * n + j], sum, tolerance);
          EXPECT_NEAR(twice.to_vector()[row * n + j], 2 * sum, 2 * tolerance);
        }
      }
    }
  }
}

TEST_F(GroupedMatmul, NoRowsAtAllAndRowsThatDoNotAddUp) {
  const std::vector<Tensor> matrices = {random.tensor(device, {3, 2}, DType::kF32)};
  const Tensor none = Tensor::empty(device, {0, 2}, DType::kF32);
  EXPECT_EQ(grouped_matmul(none, std::vector<std::size_t>{0}, matrices, Transpose::kYes).shape(),
            (Shape{0, 3}));
  const Tensor two = random.tensor(device, {2, 2}, DType::kF32);
  const std::string message = ultra::test::message_of<ShapeError>([&] {
    static_cast<void>(grouped_matmul(two, std::vector<std::size_t>{3}, matrices, Transpose::kYes));
  });
  EXPECT_NE(message.find("1 groups of 3 rows for 1 matrices and 2 rows"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace ultra::expert_parallel
