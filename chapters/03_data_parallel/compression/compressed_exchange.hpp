#pragma once
/// @file
/// The exchange of compressed gradients: everybody gets everybody's message.
///
/// Messages cannot be added on the way, as those of an all-reduce are: the sum of two of them is
/// not one. So they travel whole, and volume and work grow with the number of replicas: each of N sends
/// N - 1 messages, where an all-reduce sends less than two arrays. From some N on it no longer pays.

#include <memory>

#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "chapters/03_data_parallel/compression/compressor.hpp"
#include "common/comm/communicator.hpp"

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

}  // namespace ultra::data_parallel
