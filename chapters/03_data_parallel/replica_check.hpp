#pragma once
/// @file
/// Replica check: replicas that average their gradients stay the same, bit for bit, for ever. This
/// proves that they do, for the price of a few numbers.
///
/// A replica that drifts trains on without an error: gradients of one set of weights then change
/// another. Loss curves show it late, or never.

#include <cstddef>
#include <cstdint>

#include "common/base/errors.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/model.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/update.hpp"

namespace ultra::data_parallel {

/// @brief Replicas whose weights are no longer the same; the message names the parameter and the ranks.
class ReplicaDrift : public Error {
 public:
  using Error::Error;
};

/// @brief A number that depends on every byte of a tensor and on their order.
///
/// Tensors that differ within one aligned group of 8 bytes never have the same; others have with a
/// chance of about 2^-64. It is the same on all machines of one byte order; it does not see the shape.
/// @param tensor  contiguous.
/// @throws ShapeError when the tensor is not contiguous.
/// Cost: one pass over its memory.
[[nodiscard]] std::uint64_t checksum(const Tensor& tensor);

/// @brief Throws unless all replicas hold the same weights, bit for bit.
///
/// A parameter that differs is named with the ranks (of the world) whose values are not those of the
/// majority, or, where no values have one, not those of the first replica.
/// @param step  for the message.
/// @throws ReplicaDrift on every rank alike.
/// Collective over dp.
/// Cost: one pass over the weights; 8 (N-1) bytes per parameter tensor sent per rank, in one
/// all-gather.
/// Memory: 8 N bytes per parameter tensor.
void expect_equal_replicas(const nn::Model& model, const Communicator& dp, std::size_t step);

/// @brief An update after which expect_equal_replicas() runs in every `every`-th step; 0 means never.
/// Collective over dp in these steps.
[[nodiscard]] train::Update checked_every(train::Update update, const Communicator& dp,
                                          std::size_t every);

}  // namespace ultra::data_parallel
