#pragma once
/// @file
/// Cross-entropy as a layer.

#include "common/nn/layer.hpp"

namespace ultra::nn {

/// @brief Mean cross-entropy over tokens. Saves "d_logits", which takes the logits' place.
class CrossEntropyLoss : public LossLayer {
 public:
  [[nodiscard]] double forward(const Tensor& logits, const Tensor& targets, double normalizer,
                               Saved& saved) override;
  [[nodiscard]] Tensor backward(Saved& saved) override;
};

}  // namespace ultra::nn
