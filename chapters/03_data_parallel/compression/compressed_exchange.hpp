#pragma once
/// @file
/// The exchange of compressed gradients, and what AdamW needs under it.
///
/// Everybody gets everybody's message. Messages cannot be added on the way, as those of an all-reduce are: the sum of two of them is
/// not one. So they travel whole, and volume and work grow with the number of replicas: each of N sends
/// N - 1 messages, where an all-reduce sends less than two arrays. From some N on it no longer pays.
///
/// AdamW divides by the root of the mean square of each gradient entry. What arrives after top-k or one
/// bit has other squares: rare entries that are many times too large, or one magnitude for a whole
/// block. Error feedback keeps the sums of the gradients right, not the sums of their squares, and the
/// step sizes of single weights are lost. 1-bit Adam measures the squares before it compresses: a warm-up
/// without compression, and a second moment that is kept.
/// Source: Tang et al. 2021, "1-bit Adam", arXiv 2102.02888, algorithm 1. Deviation: gradients are
/// compressed here, not the first moment; with a second moment that is kept both are linear.

#include <cstddef>
#include <memory>

#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "chapters/03_data_parallel/compression/compressor.hpp"
#include "common/comm/communicator.hpp"
#include "common/optim/adamw.hpp"

namespace ultra::data_parallel {

/// @brief Adds up what is left of the gradients after compression, by an all-gather of messages.
///
/// start() adds the residual, compresses and sends; finish() decompresses all messages, in the
/// order of the ranks. One replica compresses, too, so that what training does
/// does not depend on how many there are.
/// Collective over dp. Cost: (N-1) messages sent per rank.
/// Memory: N messages from start() to finish(). With error feedback a residual of the bucket's size
/// stays from step to step. It counts as communication: it belongs to the way gradients travel, and
/// the optimizer does not know of it.
[[nodiscard]] MakeBucketExchange compressed_exchange(const Communicator& dp,
                                                     std::shared_ptr<const Compressor> compressor,
                                                     ErrorFeedback feedback);

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
