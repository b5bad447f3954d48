#pragma once
/// @file
/// Two tensors of one shape in one array, so that they travel in one message: keys and values, or
/// their gradients.

#include "chapters/06_context_parallel/block_attention.hpp"

namespace ultra::context_parallel {

/// @brief [2, ...]: keys, then values; [1, ...] where values are the keys themselves, as latents are: then
/// their gradients are one sum.
class KvBlock {
 public:
  // [region latents]
  /// @brief Memory for a pair like this one; it holds anything.
  [[nodiscard]] static KvBlock like(const KeyValues& pair) { return like(pair, pair.key.dtype()); }
  /// @brief The same for numbers of another type.
  [[nodiscard]] static KvBlock like(const KeyValues& pair, DType dtype) {
    const Shape& shape = pair.key.shape();
    const std::size_t arrays = pair.key.shares_storage(pair.value) ? 1 : 2;
    return KvBlock(Tensor::empty(pair.key.device(),
                                 {arrays, shape[0], shape[1], shape[2], shape[3]}, dtype,
                                 MemoryCategory::kCommunication));
  }
  /// @brief A copy of keys and values.
  [[nodiscard]] static KvBlock copy_of(const KeyValues& pair) {
    KvBlock copy = like(pair);
    copy.first().copy_from(pair.key);
    if (copy.arrays() == 2) copy.second().copy_from(pair.value);
    return copy;
  }
  // [/region]

  /// @brief All of it, for a message.
  [[nodiscard]] const Tensor& both() const { return both_; }
  /// @brief Keys, or their gradients: a view.
  [[nodiscard]] Tensor first() const { return part(0); }
  /// @brief Values, or their gradients: a view.
  [[nodiscard]] Tensor second() const { return part(arrays() - 1); }
  /// @brief How many arrays travel.
  [[nodiscard]] std::size_t arrays() const { return both_.size(0); }
  /// @brief Keys and values, of these tokens.
  [[nodiscard]] KeyValues at(const TokenChunks& chunks) const {
    return {.key = first(), .value = second(), .chunks = chunks};
  }

 private:
  explicit KvBlock(Tensor both) : both_(std::move(both)) {}
  [[nodiscard]] Tensor part(std::size_t which) const {
    const Shape& shape = both_.shape();
    return both_.slice(0, {which, which + 1}).view({shape[1], shape[2], shape[3], shape[4]});
  }

  Tensor both_;
};

}  // namespace ultra::context_parallel
