#pragma once
/// @file
/// OffloadedStep: an optimizer step over states that are in the host's memory or in a file, and
/// come to the device block by block.
///
/// To read, update and write back one block after the other would leave the device idle most of the
/// time. So three blocks are in the device's memory: while block i is updated, block i + 1 is read
/// and block i - 1 is written.
///
/// Exercise 04.9 (`./workbook check 04.9`). Body: solutions/04_zero/offloaded_step.cpp.
/// Source: Rajbhandari et al. 2021, "ZeRO-Infinity", arXiv 2104.07857, sections 5.2.2 and 6.2: states
/// are streamed to where the step is made. (Ren et al. 2021, "ZeRO-Offload", arXiv 2101.06840, moves
/// the step instead: the host's processor updates the states where they are.)

#include <array>
#include <cstddef>
#include <functional>
#include <optional>

namespace ultra::zero {

/// @brief Buffers on the device: one is read into, one updated, one written from.
inline constexpr std::size_t kWindowBuffers = 3;

/// @brief How blocks move; all but the finish actions return at once.
struct BlockActions {
  /// Begins to read a block into a buffer.
  std::function<void(std::size_t block, std::size_t buffer)> start_read;
  /// Returns when the block is in its buffer. Once for each start_read.
  std::function<void(std::size_t block)> finish_read;
  /// Begins to write a block from its buffer.
  std::function<void(std::size_t block, std::size_t buffer)> start_write;
  /// Returns when the block is written; its buffer is free then. Once for each start_write.
  std::function<void(std::size_t block)> finish_write;
};

/// @brief Follows the blocks 0, 1, ..., n - 1 of each step and calls the actions.
///
/// When block i is updated, the read of block i + 1 has begun, and the write of block i - 1 is waited
/// for when its buffer is needed, not earlier. Block i is always in buffer i modulo kWindowBuffers:
/// a buffer that is free again has its block written, so that no block is read while it is written.
class OffloadedStep {
 public:
  /// @brief Nothing is under way.
  /// @param blocks  n; may be 0.
  OffloadedStep(std::size_t blocks, BlockActions actions);

  /// @brief Block `block` is updated next: it is in its buffer when this returns.
  /// @return the buffer.
  [[nodiscard]] std::size_t begin_block(std::size_t block);

  /// @brief A block has its new values: they are written from now on.
  void end_block(std::size_t block);

  /// @brief The step is over: the next block is 0 again. What is still being written may end during the
  /// next passes.
  void end_step();

  /// @brief Returns when everything is written. Between steps.
  void settle();

 private:
  [[nodiscard]] static std::size_t buffer_of(std::size_t block) { return block % kWindowBuffers; }
  /// Waits for what is still written from a buffer.
  void free_buffer(std::size_t buffer);

  std::size_t blocks_;
  BlockActions actions_;
  std::size_t asked_for_ = 0;  // blocks of this step whose reads have begun
  std::array<std::optional<std::size_t>, kWindowBuffers> writing_;  // by buffer: the block
};

}  // namespace ultra::zero
