#pragma once
/// @file
/// vocabulary_parallel_cross_entropy() by operations: where the host does not see the logits, or sums
/// follow trees. What follows in the source
/// is exercise 05.3's answer.

#include "common/comm/communicator.hpp"
#include "common/ops/partial_softmax.hpp"

namespace ultra::tensor_parallel {

/// @brief Cross-entropy of logits that the ranks have in parts, by operations of their device.
/// @param part  whose padding is not looked at, and has gradient 0.
/// @param sum   [ops::digits_of_sums] of f64 on the device, to which the loss is added without anybody waiting; undefined:
///              it is returned, and the host waits for it.
/// @return the loss, or 0 when it is in `sum`; the same on every rank, bit for bit.
/// Collective over tp.
/// Cost: as vocabulary_parallel_cross_entropy().
[[nodiscard]] double loss_on_device(const ops::LogitsOfPart& part, double normalizer,
                                    const Communicator& tp, const Tensor& sum);

}  // namespace ultra::tensor_parallel
