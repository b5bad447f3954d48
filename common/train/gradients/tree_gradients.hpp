#pragma once
/// @file
/// Gradients of micro-batches, added up by a binary tree over their places instead of one after the other.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "common/nn/model.hpp"
#include "common/train/step_observer.hpp"

namespace ultra::train {

/// @brief Follows a rank's passes, and joins the gradients that its micro-batches give by an
/// ops::SumTree's upper levels, whatever the order of the backward passes.
///
/// When a step's last backward pass has made a gradient, the sum of all stands in its place. Before, the
/// parameter has none between two passes.
/// @param chunks         of this rank; outlive the observer. Made before who follows their gradients
///                       until they are complete, so that it hears of each of them first.
/// @param micro_batches  of a step, each with one backward pass through each chunk.
/// @param complete       makes the gradient of a micro-batch whole before it is joined, where other ranks
///                       have parts of its sequences, or of its node; empty: it is.
/// Memory: up to log2 of micro_batches gradients of each parameter, and more where backward passes come
/// in another order than the places.
[[nodiscard]] std::unique_ptr<StepObserver> join_gradients_by_tree(
    std::span<nn::Model* const> chunks, std::size_t micro_batches,
    const std::function<void(const nn::Parameter&)>& complete = {});

}  // namespace ultra::train
