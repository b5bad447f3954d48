#pragma once
/// @file
/// Pass: what the forward and the backward pass of one micro-batch know, beside its tensors.

#include <cstddef>
#include <memory>

#include "common/nn/token_places.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::nn {

/// @brief A micro-batch on its way through a chunk of the model.
///
/// It goes along with Saved: what belongs to one micro-batch stands here, never in a layer, for
/// several micro-batches may be under way at a time.
struct Pass {
  std::size_t step = 0;         ///< 0 for the first
  std::size_t micro_batch = 0;  ///< of the step, on this rank
  std::size_t chunk = 0;        ///< of this rank's parts of the model
  double token_weight = 1.0;    ///< of its tokens in losses and statistics: 0 for those of a
                                ///< micro-batch that is only there to keep the ranks in step
  double loss_scale = 1.0;      ///< factor on all gradients of the loss and of its terms
  bool recomputes = false;      ///< a forward pass that runs again, for its backward pass: what
                                ///< counts once per micro-batch has been counted
  std::shared_ptr<const TokenPlaces> places = {};  ///< of its tokens; null: whole sequences, each
                                                   ///< one document
  double* loss_terms = nullptr;  ///< sum of what layers add to the loss; null: nobody asks
  Tensor loss_sum = {};          ///< [1] of f64 on a device with streams: where the head's loss is
                                 ///< added up; undefined: it is returned

  /// @brief Adds a layer's own term to the loss, like the head's a share of a sum over ranks: once,
  /// whether or not the forward pass runs again, and without the loss scale.
  void add_to_loss(double share) const {
    if (loss_terms != nullptr && !recomputes) *loss_terms += share;
  }
};

}  // namespace ultra::nn
