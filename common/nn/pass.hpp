#pragma once
/// @file
/// Pass: what the forward and the backward pass of one micro-batch know, beside its tensors.

#include <cstddef>
#include <memory>

#include "common/nn/token_places.hpp"

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
  bool recomputes = false;      ///< a forward pass that runs again, for its backward pass: what
                                ///< counts once per micro-batch has been counted
  std::shared_ptr<const TokenPlaces> places = {};  ///< of its tokens; null: whole sequences, each
                                                   ///< one document
};

}  // namespace ultra::nn
