#pragma once
/// @file
/// Top-k with error feedback: send the few entries that matter, and nothing is lost.
///
/// Exercise 03.5 (`./workbook check 03.5`). Body: solutions/03_data_parallel/top_k_feedback.cpp.
/// Source: Stich, Cordonnier and Jaggi 2018, "Sparsified SGD with memory", arXiv 1809.07599, algorithm
/// 1; Karimireddy et al. 2019, "Error feedback fixes signSGD", arXiv 1901.09847, algorithm 2.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "chapters/03_data_parallel/compression/compressor.hpp"

namespace ultra::data_parallel {

/// @brief How many of `count` entries are sent: ceil(fraction * count), at least one of any.
/// @param fraction  in (0, 1].
[[nodiscard]] std::size_t kept_entries(double fraction, std::size_t count);

/// @brief Positions of the `kept` entries of largest magnitude, in ascending order.
///
/// Of equal magnitudes the one at the lower position comes first. NaN counts as infinite: an entry
/// that is broken must reach the other replicas. Requires: T is float or double (both are
/// instantiated).
/// @param entries  [n], n below 2^32.
/// @param kept     at most n.
/// Cost: O(n), no sort. Memory: n magnitudes.
template <FloatingScalar T>
[[nodiscard]] std::vector<std::uint32_t> largest_entries(std::span<const T> entries,
                                                         std::size_t kept);

/// @brief One step of error feedback: e' = g + e - C(g + e).
///
/// The message holds C(g + e): what this step's gradient g and what earlier steps left out, e, come to.
/// So the messages of all steps and the last residual add up to the sum of the gradients.
/// @param gradient  [n], read.
/// @param residual  [n] holds e, zeros in the first step; then e'.
/// @param message   [compressor.message_words(n, dtype)] of i32, written.
void compress_with_feedback(const Compressor& compressor, const Tensor& gradient,
                            const Tensor& residual, const Tensor& message);

}  // namespace ultra::data_parallel
