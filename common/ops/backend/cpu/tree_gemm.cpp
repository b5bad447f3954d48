#include "common/ops/backend/cpu/tree_gemm.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace ultra::ops::cpu {
namespace {

constexpr std::size_t kColumns = 16;
constexpr std::size_t kRows = 4;  // that read the same columns: as many sums grow side by side

template <class T>
using Row = std::array<T, kColumns>;

/// Sums of neighbouring rows and columns. Always as many: the place of one changes no instruction.
template <class T>
using Sums = std::array<Row<T>, kRows>;

struct AddSums {
  template <class T>
  Sums<T> operator()(Sums<T> left, const Sums<T>& right) const {
    for (std::size_t i = 0; i < kRows; ++i) {
#pragma omp simd
      for (std::size_t j = 0; j < kColumns; ++j) left[i][j] += right[i][j];
    }
    return left;
  }
};

template <class T>
using Nodes = NodeCounter<Sums<T>, AddSums>;

/// Columns [first, first + kColumns) of op(b), row after row; zeros behind the last one.
template <class T>
void pack_columns(Transpose tb, MatrixView<const T> b, std::size_t n, std::size_t first,
                  std::vector<Row<T>>& packed) {
  const std::size_t count = std::min(kColumns, n - first);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    packed[i].fill(T(0));
    for (std::size_t j = 0; j < count; ++j) {
      packed[i][j] = tb == Transpose::kNo ? b.data[i * b.stride + first + j]
                                          : b.data[(first + j) * b.stride + i];
    }
  }
}

/// Rows of op(a), whose elements stand `step` apart, times the packed columns.
template <class T>
Sums<T> product_of_rows(const SumTree& tree, const std::array<const T*, kRows>& rows,
                        std::size_t step, const std::vector<Row<T>>& columns, Nodes<T>& nodes) {
  if (columns.empty()) return {};
  for (std::size_t begin = 0; begin < columns.size(); begin += tree.leaf()) {
    const std::size_t end = std::min(begin + tree.leaf(), columns.size());
    Sums<T> leaf{};
    for (std::size_t l = begin; l < end; ++l) {
      for (std::size_t i = 0; i < kRows; ++i) {
        const T factor = rows[i][l * step];
#pragma omp simd
        for (std::size_t j = 0; j < kColumns; ++j) leaf[i][j] += factor * columns[l][j];
      }
    }
    nodes.add(leaf);
  }
  return nodes.take();
}

}  // namespace

template <class T>
void tree_gemm(const SumTree& tree, Transpose ta, Transpose tb, std::size_t m, std::size_t n,
               std::size_t k, MatrixView<const T> a, MatrixView<const T> b, Write write,
               MatrixView<T> c) {
  const auto [row_step, step] = ta == Transpose::kNo ? std::pair(a.stride, std::size_t{1})
                                                     : std::pair(std::size_t{1}, a.stride);
  std::vector<Row<T>> columns(k);
  Nodes<T> nodes{AddSums()};
  for (std::size_t first = 0; first < n; first += kColumns) {
    pack_columns(tb, b, n, first, columns);
    for (std::size_t row = 0; row < m; row += kRows) {
      std::array<const T*, kRows> rows;  // behind the last one it stands again
      for (std::size_t i = 0; i < kRows; ++i)
        rows[i] = a.data + std::min(row + i, m - 1) * row_step;
      const Sums<T> sums = product_of_rows(tree, rows, step, columns, nodes);
      for (std::size_t i = 0; i < std::min(kRows, m - row); ++i) {
        T* const to = c.data + (row + i) * c.stride + first;
        for (std::size_t j = 0; j < std::min(kColumns, n - first); ++j) {
          to[j] = write == Write::kOverwrite ? sums[i][j] : to[j] + sums[i][j];
        }
      }
    }
  }
}

template void tree_gemm(const SumTree&, Transpose, Transpose, std::size_t, std::size_t, std::size_t,
                        MatrixView<const float>, MatrixView<const float>, Write, MatrixView<float>);
template void tree_gemm(const SumTree&, Transpose, Transpose, std::size_t, std::size_t, std::size_t,
                        MatrixView<const double>, MatrixView<const double>, Write,
                        MatrixView<double>);

}  // namespace ultra::ops::cpu
