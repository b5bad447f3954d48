#pragma once
/// @file
/// What ladders of products in bf16 share: which depths their copies take, and how far a result may
/// be off.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "chapters/09_kernels/report/verdict.hpp"
#include "kernels/simt/small_floats.cuh"

namespace ultra::ladders {

/// @brief Why copies of 16 bytes cannot read rows of that length, empty when they can.
/// @param hint  what to do instead, with its leading ". Hint: "; may be empty.
[[nodiscard]] std::string refuse_ragged_rows(int depth, const char* hint = "");

/// @brief The two rows that an element of a product is made of, each [depth].
struct ProductRows {
  /// @brief Of the left factor.
  const simt::bf16* left;
  /// @brief Of the right factor, transposed.
  const simt::bf16* right;
};

/// @brief Judges a product in bf16 with sums in fp32, a sample of it where all would take too long.
///
/// Products of bf16 are exact in fp32. A tensor core adds n products and a sum at once: it aligns
/// them to the largest and cuts off what lies below its last bit, so each term loses at most 2^-23
/// of the largest, twice the rounding of one operation, and the result as much once more (Fasi,
/// Higham, Mikaitis & Pranesh 2021, "Numerical behavior of NVIDIA tensor cores", section 3). K / n
/// such additions of n + 2 errors are at most 2 K for n >= 2, each twice a rounding: gamma of 4 K,
/// which holds for CUDA cores, too. K counts the zeros after a ragged depth: at most 16.
/// @param c          the result.
/// @param depth      length of the rows.
/// @param additions  of parts of the depth, in fp32, besides.
/// @param rows_of    the rows of an element of c, by its index.
/// @param seed       draws the sample.
[[nodiscard]] Verdict judge_bf16_product(const std::vector<simt::bf16>& c, std::size_t depth,
                                         int additions,
                                         const std::function<ProductRows(std::size_t)>& rows_of,
                                         std::uint64_t seed);

}  // namespace ultra::ladders
