#pragma once
/// @file
/// What all ranks of any mesh send in a step, axis by axis, by closed form.
///
/// Rings: an all-reduce of n elements makes P ranks send 2 (P - 1) n together, an all-gather or a
/// reduce-scatter half of that. Every other algorithm of least volume sends as much.

#include <cstddef>

#include "common/train/cli/technique.hpp"

namespace ultra::five_d {

/// @brief Bytes that all ranks together send in a step.
struct StepTraffic {
  std::size_t data = 0;     ///< gradients and weights, over dp x cp (--dp, --zero)
  std::size_t context = 0;  ///< keys and values, or tokens for heads (--cp)
  std::size_t tensor = 0;   ///< activations between matrices, and the loss (--tp, --sp)
  std::size_t copies =
      0;  ///< gradients of which ranks of tp, or both ends of a pipeline, have parts
  std::size_t pipeline = 0;  ///< hidden states and their gradients (--pp)
  std::size_t sums = 0;  ///< the loss, a square for the norm of each weight, the loads of experts

  /// @brief All together.
  [[nodiscard]] std::size_t total() const {
    return data + context + tensor + copies + pipeline + sums;
  }
};

/// @brief The traffic of a step, but for what tokens choose: their way to experts and back is
/// expert_bytes(). Exact, where all-reduces and reduce-scatters are rings.
/// @param setup  all flags of a training, settled; without --zero++, --compress, --check-replicas
///               and servers, and with a schedule that updates once in a step.
/// @throws ConfigError when the stages' layers are measured.
[[nodiscard]] StepTraffic step_traffic(const train::Setup& setup);

}  // namespace ultra::five_d
