// Exercise 10.5: products in fp8 with scales of tiles.
//
// Goal:        write matrices in fp8, tile by tile, and multiply them without losing the sum.
// Length:      about 40 lines
// Difficulty:  medium
// Check:       ./workbook check 10.5
// Hints:       ./workbook hint 10.5
// Targets:     a factor for each tile, for any tile and any shape; tiles of zeros; the product of
//              integers, exact; factors that differ along the inner dimension; the sum of a long
//              inner dimension, which few bits alone would not hold
//
// chapters/10_mixed_precision/blockwise_product.hpp declares the functions.
#include "chapters/10_mixed_precision/blockwise_product.hpp"

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {

// TODO 1: a factor for each tile, so that its largest number becomes the format's.
// TODO 2: the codes (fp8_from_f32).
QuantizedMatrix quantize_tiles([[maybe_unused]] std::span<const float> x,
                               [[maybe_unused]] const TileGrid& grid, [[maybe_unused]] Fp8 format) {
  throw NotWritten("10.5 blockwise_product");
}

// TODO 3: for each element of the result and each interval of the inner dimension, a ProductSum of the
// codes' numbers, an instruction's products at a time.
// TODO 4: promote it.
Tensor blockwise_product([[maybe_unused]] const QuantizedMatrix& a,
                         [[maybe_unused]] const QuantizedMatrix& b,
                         [[maybe_unused]] Accumulator accumulator) {
  throw NotWritten("10.5 blockwise_product");
}

}  // namespace ultra::mixed_precision
