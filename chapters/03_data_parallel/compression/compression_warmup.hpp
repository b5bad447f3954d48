#pragma once
/// @file
/// What AdamW needs under a coarse compression: a warm-up without it, and a second moment that is kept.
///
/// AdamW divides by the root of the mean square of each gradient entry. What arrives after top-k or one
/// bit has other squares: rare entries that are many times too large, or one magnitude for a whole
/// block. Error feedback keeps the sums of the gradients right, not the sums of their squares, and the
/// step sizes of single weights are lost. 1-bit Adam measures the squares before it compresses.
/// Source: Tang et al. 2021, "1-bit Adam", arXiv 2102.02888, algorithm 1. Deviation: gradients are
/// compressed here, not the first moment; with a second moment that is kept both are linear.

#include <cstddef>

#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "common/optim/adamw.hpp"

namespace ultra::data_parallel {

/// @brief Exchanges a bucket by `first` in the first `steps` steps, by `then` in all others.
[[nodiscard]] MakeBucketExchange switch_exchange(std::size_t steps, MakeBucketExchange first,
                                                 MakeBucketExchange then);

/// @brief The rule `adamw` in the first `steps` steps; after them AdamW with the second moment, and its
/// bias correction, that it had then.
/// @param steps  0 keeps nothing: `adamw` in all steps.
/// @param config  the constants of `adamw`.
[[nodiscard]] optim::Rule keep_second_moment(std::size_t steps, optim::Rule adamw,
                                             const optim::AdamWConfig& config = {});

}  // namespace ultra::data_parallel
