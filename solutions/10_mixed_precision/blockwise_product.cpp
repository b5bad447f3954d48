#include "chapters/10_mixed_precision/blockwise_product.hpp"

#include <algorithm>
#include <array>

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {
namespace {

/// Row i of a times row j of b, of elements [begin, end), without their factors.
float partial_sum(const QuantizedMatrix& a, std::size_t i, const QuantizedMatrix& b, std::size_t j,
                  const Range& interval, Accumulator accumulator) {
  ProductSum sum(accumulator);
  std::array<float, kInstructionProducts> products{};
  for (std::size_t k = interval.begin; k < interval.end;) {
    const std::size_t count = std::min(kInstructionProducts, interval.end - k);
    for (std::size_t p = 0; p < count; ++p, ++k) products[p] = a.number(i, k) * b.number(j, k);
    sum.add(std::span(products).first(count));
  }
  return sum.value();
}

}  // namespace

// [region quantize]
QuantizedMatrix quantize_tiles(std::span<const float> x, const TileGrid& grid, Fp8 format) {
  QuantizedMatrix matrix{.grid = grid, .format = format, .codes = {}, .factors = {}};
  for (const float amax : amax_of_tiles(x, grid)) {
    matrix.factors.push_back(amax > 0.0F ? amax / largest_of(format) : 1.0F);
  }
  for (std::size_t row = 0; row < grid.rows; ++row) {
    for (std::size_t column = 0; column < grid.columns; ++column) {
      const float scaled = x[row * grid.columns + column] / matrix.factor(row, column);
      matrix.codes.push_back(fp8_from_f32(format, scaled));
    }
  }
  return matrix;
}
// [/region]

// [region product]
Tensor blockwise_product(const QuantizedMatrix& a, const QuantizedMatrix& b,
                         Accumulator accumulator) {
  const std::size_t inner = a.grid.columns;
  ensure(b.grid.columns == inner, "the factors' inner dimensions agree");
  Tensor out = Tensor::zeros(Device::cpu(), {a.grid.rows, b.grid.rows}, DType::kF32);
  float* sum = out.data<float>();
  for (std::size_t i = 0; i < a.grid.rows; ++i) {
    for (std::size_t j = 0; j < b.grid.rows; ++j, ++sum) {
      for (std::size_t k = 0; k < inner; k += kPromotionInterval) {
        const Range interval{k, std::min(k + kPromotionInterval, inner)};
        *sum += partial_sum(a, i, b, j, interval, accumulator) * a.factor(i, k) * b.factor(j, k);
      }
    }
  }
  return out;
}
// [/region]

}  // namespace ultra::mixed_precision
