#pragma once
/// @file
/// Replica check: replicas that add up their gradients stay the same, bit for bit. This
/// proves that they do, for the price of a few numbers.
///
/// A replica that drifts trains on without an error: gradients of one set of weights then change
/// another. Loss curves show it late, or never.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/parameter.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/step.hpp"

namespace ultra::data_parallel {

/// @brief Replicas whose weights are no longer the same; the message names the parameter and the
/// ranks.
class ReplicaDrift : public Error {
 public:
  using Error::Error;
};

/// @brief A number that depends on every byte of a tensor and on their order.
///
/// Tensors that differ within one aligned group of 8 bytes never have the same; others have with a
/// chance of about 2^-64. It is the same on all machines of one byte order; it does not see the
/// shape.
/// @param tensor  contiguous.
/// @throws ShapeError when the tensor is not contiguous.
/// Cost: one pass over its memory.
[[nodiscard]] std::uint64_t checksum(const Tensor& tensor);

/// @brief Throws unless all ranks of a group hold the same weights, bit for bit.
///
/// A parameter that differs is named with the ranks (of the world) whose values are not those of
/// the majority, or, where no values have one, not those of the first replica.
/// @param parameters  that all of them hold.
/// @param step        for the message.
/// @throws ReplicaDrift on every rank alike.
/// Collective over replicas.
/// Cost: one pass over the weights; 8 (N-1) bytes per parameter tensor sent per rank, in one
/// all-gather.
/// Memory: 8 N bytes per parameter tensor.
void expect_equal_replicas(const std::vector<nn::Parameter*>& parameters,
                           const Communicator& replicas, std::size_t step);

/// @brief Checks, after every `every`-th step, each group of ranks that hold the same parameters:
/// the replicas, and those among which a model is split that share some. Collective in these steps.
[[nodiscard]] std::unique_ptr<train::StepObserver> check_replicas(const train::ModelScope& scope,
                                                                  std::size_t every);

}  // namespace ultra::data_parallel
