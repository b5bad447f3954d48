#pragma once
/// @file
/// The second step of a training on one rank, on a device that the caller has: what it did there.

#include "common/gpu/meta/tape.hpp"
#include "common/nn/model_config.hpp"
#include "common/tensor/device.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::devices {

/// @brief A step of one rank.
struct OneRankStep {
  MemoryTracker memory;          ///< peaks of the step
  std::uint64_t host_waits = 0;  ///< of the step
  std::size_t parameters = 0;    ///< of the model
  nn::ModelConfig model;         ///< that was trained
};

/// @brief Makes two steps.
/// @param flags   of 11_five_d, for one rank, with a text.
/// @param second  called with true where the second step begins, and with false where it ends.
[[nodiscard]] OneRankStep second_step(
    const std::string& flags, const Device& device,
    const std::function<void(bool begins)>& second = [](bool) {});

/// @brief The second step on the emulated device.
/// @param operations  gets what its streams were given: "compute: rope".
[[nodiscard]] OneRankStep emulated_step(const std::string& flags,
                                        std::vector<std::string>& operations);

/// @brief The second step on the meta device, with the order of accesses checked.
/// @param tape  gets it.
[[nodiscard]] OneRankStep recorded_step(const std::string& flags, gpu::Tape& tape);

/// @brief The works of a tape as emulated_step() names them.
[[nodiscard]] std::vector<std::string> operations_of(const gpu::Tape& tape);

}  // namespace ultra::devices
