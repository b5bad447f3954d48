#pragma once
/// @file
/// OffloadedLayout: which tensors travel together, and where their states lie in storage and in the
/// window on the device.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "chapters/04_zero/offload/offloaded_step.hpp"
#include "common/tensor/shape.hpp"

namespace ultra::zero {

/// @brief A tensor whose states are in storage.
struct OffloadedTensor {
  std::size_t elements = 0;  ///< its own
  std::size_t states = 0;    ///< of the optimizer: numbers for each element
};

/// @brief Consecutive tensors whose states travel together.
struct OffloadedBlock {
  Range tensors;   ///< their numbers
  Range elements;  ///< of all tensors, one after the other
  Range states;    ///< of all numbers that the optimizer keeps, likewise
  bool operator==(const OffloadedBlock&) const = default;
};

/// @brief Where the states of a rank's tensors lie, in elements.
///
/// Storage: the weights of all tensors, if they are offloaded; then, tensor by tensor, the optimizer's
/// states, one after the other. A buffer: weights and states of its block, likewise.
class OffloadedLayout {
 public:
  /// @brief Whether the weights are stored too: one number more for each element.
  enum class Weights { kStay, kStored };

  /// @brief Groups tensors to blocks: the next block begins when one has at least `least` elements.
  OffloadedLayout(std::span<const OffloadedTensor> tensors, std::size_t least, Weights weights);

  /// @brief The blocks, in order.
  [[nodiscard]] const std::vector<OffloadedBlock>& blocks() const { return blocks_; }
  /// @brief The block of a tensor.
  [[nodiscard]] std::size_t block_of(std::size_t tensor) const { return block_of_.at(tensor); }
  /// @brief The elements of a tensor among those of all, one after the other.
  [[nodiscard]] Range elements_of(std::size_t tensor) const { return places_.at(tensor); }
  /// @brief Number of tensors.
  [[nodiscard]] std::size_t tensors() const { return places_.size(); }
  /// @brief Numbers that the optimizer keeps of each element of a tensor.
  [[nodiscard]] std::size_t states(std::size_t tensor) const { return states_.at(tensor).number; }
  /// @brief Whether the weights are stored too.
  [[nodiscard]] bool stores_weights() const { return weights_ == Weights::kStored; }

  /// @brief Elements of the storage.
  [[nodiscard]] std::size_t stored() const { return weights_of(count_) + numbers_; }
  /// @brief Where the states of a block lie in storage, one after the other.
  [[nodiscard]] Range stored_states(std::size_t block) const;
  /// @brief Where a state of a tensor lies in storage.
  [[nodiscard]] Range stored_state(std::size_t tensor, std::size_t state) const;
  /// @brief Elements of each buffer: as many as the largest of its blocks needs.
  [[nodiscard]] std::array<std::size_t, kWindowBuffers> buffers() const;
  /// @brief Elements of all buffers together.
  [[nodiscard]] std::size_t window() const;

  /// @brief Where a tensor's weights lie in its block's buffer.
  [[nodiscard]] Range weights_in_buffer(std::size_t tensor) const;
  /// @brief Where a state of a tensor lies in its block's buffer.
  [[nodiscard]] Range state_in_buffer(std::size_t tensor, std::size_t state) const;

 private:
  struct States {
    std::size_t number;  // of each element
    std::size_t begin;   // among all numbers
  };

  /// How many weights of so many elements are stored.
  [[nodiscard]] std::size_t weights_of(std::size_t elements) const {
    return stores_weights() ? elements : 0;
  }
  /// Where a state of a tensor lies among all numbers.
  [[nodiscard]] Range state_of(std::size_t tensor, std::size_t state) const;

  std::vector<States> states_;  // by tensor
  Weights weights_;
  std::size_t count_ = 0;    // elements
  std::size_t numbers_ = 0;  // of the optimizer
  std::vector<Range> places_;
  std::vector<std::size_t> block_of_;
  std::vector<OffloadedBlock> blocks_;
};

}  // namespace ultra::zero
